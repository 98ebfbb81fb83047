package crash

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/varvelog/varve"
)

// groupOf is the group that a step names.
func groupOf(s Step) string {
	for _, w := range s.Words {
		if !strings.Contains(w, "=") {
			return w
		}
	}
	return "g"
}

// setting is what a step says beside, "" where it does not.
func setting(s Step, key string) string { return configOf(s.Words)[key] }

func numberOf(s Step, key string) int {
	n, _ := strconv.Atoi(setting(s, key))
	return n
}

// metadata makes what no other commit has, and then so much.
func (l *life) metadata(padding int) string {
	return fmt.Sprintf("%d.%d:", l.depth, l.serial.Add(1)) + strings.Repeat("日", padding)
}

// move has a call change the places of a group.
func (l *life) move(what string, c *change, call func() error) bool {
	l.h.attempt(c.asked)
	err := call()
	if l.ok(what, err) {
		l.h.answer(c.done)
		return true
	}
	var maybe *varve.MaybeStoredError
	if !errors.As(err, &maybe) {
		l.h.answer(c.refused)
	}
	return false
}

// told holds what the engine says of a group against what is known of the topics that
// there are.
func (l *life) told(group string) {
	found, err := places(l.engine, group)
	if !l.ok("commits", err) {
		return
	}
	m := l.h.now()
	for _, t := range l.engine.Topics() {
		known := m.byID(t.Name(), t.ID())
		for i := range t.Partitions() {
			s := spot{t.Name(), i}
			if known == nil {
				continue
			}
			if why := known.part(i).mark(group).wrong(at(found, s), anywhere, clamp{}, false); why != "" {
				l.broken("promise 17: group %s has in %s %s", group, s, why)
			}
		}
	}
}

// commit commits the offset so many records in front of the end, in all partitions of a
// topic at once, as often as it says.
func (l *life) commit(s Step) {
	t, group := l.topic(s), groupOf(s)
	if t == nil {
		return
	}
	for range max(numberOf(s, "times"), 1) {
		c := &change{group: group, to: map[spot]*commit{}}
		var list []varve.Commit
		for i := range t.Partitions() {
			p, _ := t.Partition(i)
			one := &commit{max(p.End()-varve.Offset(s.N), 0), l.metadata(numberOf(s, "meta"))}
			c.to[spot{s.Topic, i}] = one
			list = append(list, varve.Commit{Topic: s.Topic, Partition: int32(i), Offset: one.off, Metadata: one.meta})
		}
		l.move("commit", c, func() error { return l.engine.CommitOffsets(context.Background(), group, list...) })
	}
	l.told(group)
}

// shown waits until readers see all of a topic, so that its ends stay where they are: what
// was acknowledged at a weaker level may be shown later. False where that fails.
func (l *life) shown(t *varve.Topic) bool {
	for i := range t.Partitions() {
		p, _ := t.Partition(i)
		err := p.WaitDurable(context.Background(), p.LogEnd())
		if !l.ok("wait until it is durable", err) || p.End() != p.LogEnd() {
			return false
		}
	}
	return true
}

// work has a member join a group, see where it begins, take what there is, so many records
// at a time, commit each time, and leave.
func (l *life) work(s Step) {
	t, group := l.topic(s), groupOf(s)
	if t == nil {
		return
	}
	w := &worker{life: l, topic: s.Topic, group: group, plain: setting(s, "meta") == "no"}
	o := varve.JoinOptions{MaxRecords: max(s.N, 1)}
	if setting(s, "from") == "latest" {
		if !l.shown(t) {
			return
		}
		o.From = varve.Latest()
	}
	if w.join(t, o) {
		w.begins(t, o)
		w.work()
		l.told(group)
	}
}

// crew has several members share the work, while others publish and commit.
func (l *life) crew(s Step) {
	t, group := l.topic(s), groupOf(s)
	if t == nil {
		return
	}
	var all sync.WaitGroup
	for range 3 {
		w := &worker{life: l, topic: s.Topic, group: group}
		all.Go(func() {
			if w.join(nil, varve.JoinOptions{MaxRecords: max(s.N, 1)}) {
				w.work()
			}
		})
	}
	of := line{l.serial.Add(1)}
	all.Go(func() {
		for k := range 4 {
			l.batch(t, k%t.Partitions(), 1+k%3, 0, of, 0)
		}
	})
	all.Wait()
	l.told(group)
}

// worker is a member.
type worker struct {
	*life
	topic, group string
	plain        bool // it commits what it has polled, without metadata
	member       *varve.Member
}

// join joins. Who begins at the end commits that first, where the group has no place; t
// is nil for who does not.
func (w *worker) join(t *varve.Topic, o varve.JoinOptions) bool {
	c := &change{group: w.group, to: map[spot]*commit{}}
	if o.From != varve.Earliest() && t != nil {
		found, err := places(w.engine, w.group)
		if !w.ok("commits", err) {
			return false
		}
		for i := range t.Partitions() {
			if s := (spot{w.topic, i}); at(found, s) == forgotten {
				p, _ := t.Partition(i)
				c.to[s] = &commit{p.End(), ""}
			}
		}
	}
	return w.move("join", c, func() (err error) {
		w.member, err = w.engine.Join(context.Background(), w.group, []string{w.topic}, o)
		return err
	})
}

// begins sees that a member that is alone goes on where the group was.
func (w *worker) begins(t *varve.Topic, o varve.JoinOptions) {
	m := w.h.now()
	for i := range t.Partitions() {
		k := m.topic(w.topic).part(i).mark(w.group)
		if len(k.maybe) > 0 {
			continue
		}
		p, _ := t.Partition(i)
		want := k.said.off
		if want < 0 {
			want = p.Start()
		}
		if got, err := w.member.Position(w.topic, int32(i)); w.ok("position", err) && got != want {
			w.broken("promise 17: group %s goes on at %d in %s/%d, its place is %d", w.group, got, w.topic, i, want)
		}
	}
}

// work takes all that there is.
func (w *worker) work() {
	ctx := context.Background()
	defer func() { w.ok("leave", w.member.Leave(ctx)) }()
	for {
		polled, some, err := w.member.TryPoll(ctx)
		var gone *varve.OutOfRangeError
		if errors.As(err, &gone) {
			w.plain = false // it would commit where it went on, too
			continue
		}
		if !w.ok("poll", err) || !some || !w.commitTo(ctx, int(polled.Partition), polled.Records[len(polled.Records)-1].Offset+1) {
			return
		}
	}
}

func (w *worker) commitTo(ctx context.Context, i int, next varve.Offset) bool {
	to := &commit{off: next}
	if !w.plain {
		to.meta = w.metadata(0)
	}
	c := &change{group: w.group, to: map[spot]*commit{{w.topic, i}: to}}
	return w.move("commit of a member", c, func() error {
		if w.plain {
			return w.member.Commit(ctx)
		}
		return w.member.CommitOffsets(ctx, varve.Commit{Topic: w.topic, Partition: int32(i), Offset: next, Metadata: to.meta})
	})
}

// reset moves the places of a group in a topic: to one of its ends or, where it says none,
// back by so many records.
func (l *life) reset(s Step) {
	t, group, o := l.topic(s), groupOf(s), varve.Reset{DryRun: true, Shift: -int64(max(s.N, 1))}
	if t == nil || !l.shown(t) {
		return
	}
	switch setting(s, "to") {
	case "earliest":
		o.Topics, o.Shift = []string{s.Topic}, 0
	case "latest":
		o.Topics, o.Shift, o.To = []string{s.Topic}, 0, varve.Latest()
	default:
		found, err := places(l.engine, group)
		if !l.ok("commits", err) {
			return
		}
		for at := range found {
			if at.topic == s.Topic {
				o.Partitions = append(o.Partitions, varve.TopicPartition{Topic: at.topic, Partition: int32(at.part)})
			}
		}
		if len(o.Partitions) == 0 {
			return
		}
	}
	moves, err := l.engine.ResetGroup(context.Background(), group, o)
	if !l.ok("dry run", err) {
		return
	}
	c := &change{group: group, to: map[spot]*commit{}}
	for _, m := range moves {
		c.to[spot{m.Topic, int(m.Partition)}] = &commit{m.New, ""}
	}
	o.DryRun = false
	l.move("reset", c, func() error {
		_, err := l.engine.ResetGroup(context.Background(), group, o)
		return err
	})
	l.told(group)
}

// forget has a group forget its places in a topic.
func (l *life) forget(s Step) {
	if group := groupOf(s); l.topic(s) != nil {
		l.drop("forget", &change{group: group, some: map[string]bool{s.Topic: true}}, func() error {
			return l.engine.DeleteCommits(context.Background(), group, s.Topic)
		})
	}
}

// disband deletes a group.
func (l *life) disband(s Step) {
	c := &change{group: groupOf(s), some: map[string]bool{}}
	for _, t := range l.engine.Topics() {
		c.some[t.Name()] = true
	}
	l.drop("disband", c, func() error { return l.engine.DeleteGroup(c.group) })
}

// drop is move, of a group that need not be there.
func (l *life) drop(what string, c *change, call func() error) {
	if _, err := l.engine.DescribeGroup(c.group); !errors.Is(err, varve.ErrNoGroup) {
		l.move(what, c, call)
	}
	l.told(c.group)
}
