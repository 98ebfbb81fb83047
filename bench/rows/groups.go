package rows

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/bench/measure"
	"github.com/varvelog/varve/bench/report"
)

// withEngine is withTopic for what is done with the engine.
func withEngine(dir string, o varve.Options, c varve.TopicConfig, f func(*varve.Engine) error) error {
	if err := withTopic(dir, o, c, func(*varve.Topic) error { return nil }); err != nil {
		return err
	}
	e, err := varve.Open(dir, o)
	if err != nil {
		return err
	}
	err = f(e)
	if cerr := e.Close(); err == nil {
		err = cerr
	}
	return err
}

// filled publishes n records to each partition.
func filled(e *varve.Engine, n int) error {
	t, err := e.Topic("bench")
	for i := 0; err == nil && i < t.Partitions(); i++ {
		var p *varve.Partition
		if p, err = t.Partition(i); err == nil {
			err = fill(p, n)
		}
	}
	return err
}

// pushing is a contender that pushes n records to each of some groups, which begin at the
// first record and end when the last of them has it.
func pushing(e *varve.Engine, name string, groups, n int, o varve.ConsumeOptions) measure.Contender {
	round := 0
	return measure.Contender{Name: name, Run: func(string) (measure.Figures, error) {
		round++
		all := make(chan struct{})
		var left atomic.Int64
		left.Store(int64(groups) * int64(n))
		handler := func(context.Context, varve.Delivery) error {
			if left.Add(-1) == 0 {
				close(all)
			}
			return nil
		}
		cpu, begin := processorTime(), time.Now()
		var subs []*varve.Subscription
		for i := range groups {
			s, err := e.Consume(context.Background(), fmt.Sprintf("%s %d %d", name, round, i), []string{"bench"}, handler, o)
			if err != nil {
				return nil, err
			}
			subs = append(subs, s)
		}
		<-all
		took := time.Since(begin)
		cpu = processorTime() - cpu
		for _, s := range subs {
			if err := s.Stop(context.Background()); err != nil {
				return nil, err
			}
		}
		each := float64(groups) * float64(n)
		return measure.Figures{"rec/s": each / took.Seconds(), "cpu ns": float64(cpu.Nanoseconds()) / each}, nil
	}}
}

// pushRow is push delivery of what a topic holds to handlers that do nothing.
func pushRow(e *Env) (t *report.Table, err error) {
	const parts = 8
	each := e.size(500_000, 50_000) / batchRecords * batchRecords
	dir, err := os.MkdirTemp(e.Dir, "push")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	topic := varve.TopicConfig{Partitions: parts, Config: atLevel(varve.OS)}
	err = withEngine(dir, quiet(), topic, func(eng *varve.Engine) error {
		if err := filled(eng, each); err != nil {
			return err
		}
		all := []measure.Contender{
			pushing(eng, "in order", 1, parts*each, varve.ConsumeOptions{}),
			pushing(eng, "by key", 1, parts*each, varve.ConsumeOptions{ByKey: true}),
		}
		s, err := e.rounds(all...)
		if err != nil {
			return err
		}
		t = &report.Table{Name: "push", Title: "Pushed to handlers, one group, eight partitions",
			Text: fmt.Sprintf("%d records of 100 bytes without keys, in eight partitions and in the page cache, pushed to a handler that counts them, from the join to the last record, commits and all. Processor time is of all cores, in user and kernel mode.", parts*each)}
		t.Add(s, "rec/s", "M records/s", 1e-6, namesOf(all)...)
		t.Add(s, "cpu ns", "ns of processor time a record", 1, namesOf(all)...)
		rate := s.Of("in order", "rec/s")
		t.AtLeast("/rate", "M records/s", measure.Spread{Median: rate.Median / 1e6, Min: rate.Min / 1e6, Max: rate.Max / 1e6, Runs: rate.Runs}, 5)
		return nil
	})
	return t, err
}

// pushGroupsRow is what a delivered record costs with a thousand groups.
func pushGroupsRow(e *Env) (t *report.Table, err error) {
	const groups = 1000
	few := e.size(20_000, 2_000) / batchRecords * batchRecords
	many := few * 50 // so that the one group has something to do
	dir, err := os.MkdirTemp(e.Dir, "groups")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	topic := varve.TopicConfig{Config: atLevel(varve.OS)}
	err = withEngine(filepath.Join(dir, "one"), quiet(), topic, func(one *varve.Engine) error {
		return withEngine(filepath.Join(dir, "many"), quiet(), topic, func(thousand *varve.Engine) error {
			if err := filled(one, many); err != nil {
				return err
			}
			if err := filled(thousand, few); err != nil {
				return err
			}
			all := []measure.Contender{
				pushing(one, "one group", 1, many, varve.ConsumeOptions{}),
				pushing(thousand, "1,000 groups", groups, few, varve.ConsumeOptions{}),
			}
			s, err := e.rounds(all...)
			if err != nil {
				return err
			}
			t = &report.Table{Name: "push-groups", Title: "Pushed to a thousand groups",
				Text: fmt.Sprintf("A topic of one partition. One group is pushed %d records, each of 1,000 groups %d, from the join of the first to the last record. Cost is processor time of all cores, in user and kernel mode, a delivered record, and has the joins in it.", many, few)}
			t.Add(s, "cpu ns", "ns of processor time a record", 1, namesOf(all)...)
			t.Add(s, "rec/s", "M records/s", 1e-6, namesOf(all)...)
			t.AtMost("/cost", "times the cost with one group", s.Ratio("1,000 groups", "one group", "cpu ns"), 1.3)
			return nil
		})
	})
	return t, err
}

// commitRow holds commits among publishes against publishes alone: they share the syncs.
func commitRow(e *Env) (*report.Table, error) {
	contender := func(name string, commits func(caller int) bool) measure.Contender {
		return measure.Contender{Name: name, Run: func(dir string) (f measure.Figures, err error) {
			err = withEngine(dir, quiet(), varve.TopicConfig{}, func(eng *varve.Engine) error {
				topic, err := eng.Topic("bench")
				if err != nil {
					return err
				}
				rec := recordsOf(values(1, recordBytes))[0]
				var calls atomic.Int64
				before := eng.Disk().Syncs
				f, err = together(e.span(), durablePublishers, func(w, _ int) (err error) {
					calls.Add(1)
					if commits(w) {
						return eng.CommitOffsets(context.Background(), fmt.Sprintf("group %d", w), varve.Commit{Topic: "bench"})
					}
					_, err = topic.Publish(context.Background(), rec)
					return err
				})
				if err == nil {
					f["syncs"] = float64(eng.Disk().Syncs-before) / float64(calls.Load())
				}
				return err
			})
			return f, err
		}}
	}
	all := []measure.Contender{
		contender("publishes", func(int) bool { return false }),
		contender("publishes and commits", func(caller int) bool { return caller%2 == 0 }),
		contender("commits", func(int) bool { return true }),
	}
	s, err := e.rounds(all...)
	if err != nil {
		return nil, err
	}
	t := &report.Table{Name: "commit", Title: "Commits, 64 callers",
		Text: "64 goroutines publish single records of 100 bytes to one partition, commit the place of a group each, or half of them do the one and half the other; each waits until its own is on stable storage. A commit is one record of the offsets topic."}
	t.Add(s, "rec/s", "k calls/s", 1e-3, namesOf(all)...)
	t.Add(s, "syncs", "syncs a call", 1, namesOf(all)...)
	t.AtMost("/syncs", "times the syncs of publishes alone", s.Ratio("publishes and commits", "publishes", "syncs"), 1.3)
	return t, nil
}

// rebalanceRow is how long it takes until members have shared partitions anew.
func rebalanceRow(e *Env) (*report.Table, error) {
	const parts, members = 1000, 100
	c := measure.Contender{Name: "varve", Run: func(dir string) (f measure.Figures, err error) {
		err = withEngine(dir, quiet(), varve.TopicConfig{Partitions: parts}, func(eng *varve.Engine) error {
			f, err = rebalances(eng, parts, members)
			return err
		})
		return f, err
	}}
	s, err := e.rounds(c)
	if err != nil {
		return nil, err
	}
	t := &report.Table{Name: "rebalance", Title: "A rebalance of 1,000 partitions and 100 members",
		Text: "100 members that poll, a goroutine each, share 1,000 partitions. One leaves, and it is measured until the others own all; one joins, and it is measured until it owns its share."}
	t.Add(s, "leave", "ms until a member that left is replaced", 1, "varve")
	t.Add(s, "join", "ms until one that joined has its share", 1, "varve")
	t.AtMost("/leave", "ms", s.Of("varve", "leave"), 100)
	t.AtMost("/join", "ms", s.Of("varve", "join"), 100)
	return t, nil
}

// crowd is members that poll. Owned counts their partitions, by the callbacks.
type crowd struct {
	engine  *varve.Engine
	owned   atomic.Int64
	polling sync.WaitGroup
}

// join has one more, and returns what counts its own.
func (c *crowd) join() (*varve.Member, *atomic.Int64, error) {
	own := &atomic.Int64{}
	count := func(n int) { own.Add(int64(n)); c.owned.Add(int64(n)) }
	m, err := c.engine.Join(context.Background(), "g", []string{"bench"}, varve.JoinOptions{
		OnAssigned: func(_ context.Context, got []varve.TopicPartition) { count(len(got)) },
		OnRevoked:  func(_ context.Context, going []varve.TopicPartition) { count(-len(going)) },
	})
	if err == nil {
		c.polling.Go(func() {
			for err := error(nil); err == nil; {
				_, err = m.Poll(context.Background())
			}
		})
	}
	return m, own, err
}

// until waits, and returns how long in milliseconds.
func until(begin time.Time, done func() bool) float64 {
	for !done() {
		time.Sleep(100 * time.Microsecond)
	}
	return float64(time.Since(begin).Microseconds()) / 1000
}

func rebalances(e *varve.Engine, parts, members int) (measure.Figures, error) {
	c := &crowd{engine: e}
	var all []*varve.Member
	defer func() {
		for _, m := range all {
			_ = m.Leave(context.Background())
		}
		c.polling.Wait()
	}()
	settled := func() bool { return c.owned.Load() == int64(parts) }
	share := int64(parts / members)
	for range members {
		m, own, err := c.join()
		if err != nil {
			return nil, err
		}
		all = append(all, m)
		until(time.Now(), func() bool { return settled() && own.Load() >= share })
	}
	begin := time.Now()
	if err := all[0].Leave(context.Background()); err != nil {
		return nil, err
	}
	all = all[1:]
	leave := until(begin, settled)
	begin = time.Now()
	m, own, err := c.join()
	if err != nil {
		return nil, err
	}
	all = append(all, m)
	return measure.Figures{"leave": leave, "join": until(begin, func() bool { return settled() && own.Load() >= share })}, nil
}
