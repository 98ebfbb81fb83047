package partition_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
)

// joined is one record that joined a batch.
type joined struct {
	val    string
	place  partition.Place
	err    error
	times  int
	ticket partition.Ticket
}

// join hands a record to the log, for a goroutine of the engine to append.
func (r *rig) join(set ...func(*record.Record, *partition.Single)) *joined {
	j := &joined{val: r.value()}
	rec := record.Record{Timestamp: 5, Value: []byte(j.val)}
	s := partition.Single{Partition: 7, Done: func(at partition.Place, err error) { j.place, j.err, j.times = at, err, j.times+1 }}
	for _, f := range set {
		f(&rec, &s)
	}
	r.drains++ // whoever joins leaves the work to the test
	r.log.JoinLater(&rec, &s)
	clear(rec.Value) // it is the caller's again
	return j
}

// batches lists how many records each batch has.
func batches(t tb, l *partition.Log) (sizes []int) {
	t.Helper()
	var c partition.Cursor
	for from := l.Start(); from < l.End(); {
		chunk, err := l.Read(nil, 1<<20, from, &c)
		if err != nil {
			t.Fatalf("%v", err)
		}
		for data := chunk.Data; len(data) > 0; {
			b, err := record.Parse(data)
			if err != nil || b.Verify() != nil {
				t.Fatalf("%v, %v", err, b.Verify())
			}
			sizes = append(sizes, int(b.Count))
			data = data[b.Size():]
		}
		from = chunk.Next
	}
	return sizes
}

func lazy(r *rig) {
	r.eager = false
	r.cfg.SegmentBytes = 1 << 20
}

// Records that follow each other share a batch; what comes between ends it, and so does
// another codec, another acknowledgement, and a time where there was none. Nobody
// overtakes.
func TestWhoSharesABatch(t *testing.T) {
	r := newRig(t, small(partition.OS), lazy)
	zstd := func(_ *record.Record, s *partition.Single) { s.Codec = record.Zstd }
	interval := func(_ *record.Record, s *partition.Single) { s.Ack = partition.Interval }
	undated := func(rec *record.Record, _ *partition.Single) { rec.Timestamp = 0 }
	var want []string
	add := func(set ...func(*record.Record, *partition.Single)) { want = append(want, r.join(set...).val) }
	add()
	add()
	want = append(want, r.enqueue(1).vals[0])
	add()
	add(zstd)
	add(zstd)
	add()
	add(interval)
	add(undated)
	add(undated)
	add()
	r.flight = nil
	r.drain()
	got, err := read(r.log, 0)
	check(t, err)
	for i, e := range got {
		if e.val != want[i] || e.off != offset(i) {
			t.Errorf("offset %d is %s, want %s", e.off, e.val, want[i])
		}
	}
	if sizes := fmt.Sprint(batches(t, r.log)); sizes != "[2 1 1 2 1 1 2 1]" || len(got) != len(want) {
		t.Errorf("%d records, in batches of %s", len(got), sizes)
	}
}

// Each is told its own place, once.
func TestJoinedAreToldTheirPlaces(t *testing.T) {
	r := newRig(t, small(partition.Fsync), lazy)
	var all []*joined
	for range 5 {
		all = append(all, r.join())
	}
	r.drain()
	for _, j := range all {
		if j.times != 0 {
			t.Fatal("told before it is durable")
		}
	}
	r.sync()
	for i, j := range all {
		if j.times != 1 || j.err != nil || j.place != (partition.Place{Partition: 7, Offset: offset(i)}) {
			t.Errorf("record %d was told %d times: %v, %v", i, j.times, j.place, j.err)
		}
	}
	r.log.Close()
	if late := r.join(); late.times != 1 || !errors.Is(late.err, partition.ErrClosed) || late.place.Offset != -1 {
		t.Errorf("a log that is closed told %d times: %v, %v", late.times, late.place, late.err)
	}
}

// Without a time a record gets that of its append, not of its joining.
func TestUndatedGetTheTimeOfTheAppend(t *testing.T) {
	for _, stamped := range []bool{false, true} {
		r := newRig(t, small(partition.OS), lazy, func(r *rig) { r.cfg.AppendTime = stamped })
		undated := func(rec *record.Record, _ *partition.Single) { rec.Timestamp = 0 }
		r.join(undated)
		r.now += 1000
		r.join(undated)
		r.now += 1000
		r.join()
		r.drain()
		chunk, err := r.log.Read(nil, 1<<20, 0, new(partition.Cursor))
		check(t, err)
		for data := chunk.Data; len(data) > 0; {
			b, err := record.Parse(data)
			check(t, err)
			it := b.Records(data[record.BatchOverhead:b.Size()])
			for rec := (record.Record{}); it.Next(&rec); {
				want := r.now
				if rec.Offset == 2 && !stamped {
					want = 5
				}
				if rec.Timestamp != want || b.MaxTimestamp != want {
					t.Errorf("record %d is of %d, its batch of %d, want %d", rec.Offset, rec.Timestamp, b.MaxTimestamp, want)
				}
			}
			data = data[b.Size():]
		}
	}
}

// A batch that is shared keeps to max.message.bytes, also to one that comes while it waits
// where that is larger, and to that of when it was begun where it is smaller.
func TestSharedBatchKeepsToTheLimit(t *testing.T) {
	r := newRig(t, small(partition.OS), lazy, func(r *rig) { r.cfg.MaxBatchBytes = 300 })
	for range 20 {
		r.join()
	}
	cfg := r.cfg
	cfg.MaxBatchBytes = 100
	check(t, r.log.Configure(cfg))
	r.drain()
	if r.log.End() != 20 {
		t.Errorf("%d of 20 are stored", r.log.End())
	}
	for _, b := range batches(t, r.log) {
		if b > (300-record.BatchOverhead)/19 || b < 3 {
			t.Errorf("a batch of %d records", b)
		}
	}
	large := r.join(func(rec *record.Record, _ *partition.Single) { rec.Value = make([]byte, 200) })
	fits := r.join()
	r.drain()
	var refused *partition.TooLargeError
	if !errors.As(large.err, &refused) || refused.Limit != 100 || fits.err != nil || fits.place.Offset != 20 {
		t.Errorf("a large one was told %v; the one behind it %v, %v", large.err, fits.place, fits.err)
	}
}

// A long queue goes out in several writes, so that those who wait for the first do not
// wait for all.
func TestLongQueueIsSeveralWrites(t *testing.T) {
	writes := 0
	r := newRig(t, small(partition.OS), lazy, func(r *rig) {
		r.cfg.SegmentBytes = 1 << 30
		r.rule = func(op vfs.Op) vfs.Fault {
			if op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, ".log") {
				writes++
			}
			return vfs.Fault{}
		}
	})
	var all []*joined
	for range 1000 {
		all = append(all, r.join(func(rec *record.Record, _ *partition.Single) { rec.Value = make([]byte, 1000) }))
	}
	writes = 0
	r.drain()
	if writes != 4 || all[999].times != 1 || r.log.End() != 1000 {
		t.Errorf("a megabyte in %d writes; the last was told %d times; the end is %d", writes, all[999].times, r.log.End())
	}
}

// tickets joins n records whose tickets are kept: somebody is at work on the queue.
func (r *rig) tickets(n int) []*joined {
	all := []*joined{r.join()}
	for range n - 1 {
		j := &joined{val: r.value()}
		j.ticket = r.log.Join(&record.Record{Timestamp: 5, Value: []byte(j.val)}, &partition.Single{
			Done: func(at partition.Place, err error) { j.place, j.err, j.times = at, err, j.times+1 },
		})
		all = append(all, j)
	}
	return all
}

// Records are taken back one by one from the batch that they share, which is told the
// truth; later it is too late.
func TestWithdraw(t *testing.T) {
	r := newRig(t, small(partition.Fsync), lazy)
	all := r.tickets(7)
	gone := map[int]bool{1: true, 4: true, 6: true}
	for i := range gone {
		if !r.log.Withdraw(all[i].ticket) {
			t.Errorf("record %d cannot be taken back", i)
		}
	}
	between := r.enqueue(1)
	r.flight = nil
	alone := r.tickets(2) // in a batch of their own
	if !r.log.Withdraw(alone[1].ticket) {
		t.Error("the last record cannot be taken back")
	}
	behind := r.tickets(1)
	r.drain()
	r.sync()
	if r.log.Withdraw(all[2].ticket) || r.log.Withdraw(partition.Ticket{}) {
		t.Error("what is stored was taken back")
	}
	want := offset(0)
	for i, j := range all {
		if gone[i] {
			if j.times != 0 {
				t.Errorf("record %d was taken back and told %v, %v", i, j.place, j.err)
			}
			continue
		}
		if j.times != 1 || j.err != nil || j.place.Offset != want {
			t.Errorf("record %d was told %d times: %v, %v; want %d", i, j.times, j.place, j.err, want)
		}
		want++
	}
	if between.Base != want || alone[0].place.Offset != want+1 || behind[0].place.Offset != want+2 || r.log.End() != want+3 {
		t.Errorf("behind them %d, %v, %v; the end is %d", between.Base, alone[0].place, behind[0].place, r.log.End())
	}
	got, err := read(r.log, 0)
	check(t, err)
	for i, e := range got {
		if e.off != offset(i) || e.val == all[1].val || e.val == all[4].val || e.val == all[6].val || e.val == alone[1].val {
			t.Errorf("there is %v", e)
		}
	}
}

// A batch of which all records were taken back is none, and the queue goes on.
func TestWithdrawAll(t *testing.T) {
	r := newRig(t, small(partition.OS), lazy)
	first := r.enqueue(1)
	r.flight = nil
	all := []*joined{}
	for range 3 {
		j := &joined{}
		j.ticket = r.log.Join(&record.Record{Timestamp: 5, Value: []byte("x")}, &partition.Single{Done: func(partition.Place, error) { j.times++ }})
		all = append(all, j)
	}
	for _, j := range all {
		if !r.log.Withdraw(j.ticket) {
			t.Error("it cannot be taken back")
		}
	}
	last := r.join()
	r.drain()
	if r.log.End() != 2 || first.Base != 0 || last.place.Offset != 1 || all[0].times+all[1].times+all[2].times != 0 {
		t.Errorf("the end is %d; told are %d and %v", r.log.End(), first.Base, last.place)
	}
}

// Taking back at any moment tells the truth: what is said not to be stored is not, and
// everything else is there once, at the place that it was told.
func TestWithdrawTellsTheTruth(t *testing.T) {
	cfg := small(partition.Fsync)
	cfg.SegmentBytes = 1000
	b := newBusy(t, vfs.NewMem(), cfg, 64)
	var mu sync.Mutex
	not, places := map[string]bool{}, map[string]offset{}
	var all sync.WaitGroup
	for p := range 8 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(p), 2))
			for i := range 300 {
				val := fmt.Sprintf("%d.%d", p, i)
				done := make(chan partition.Place, 1)
				hold := make(chan partition.Ticket)
				go func() {
					hold <- b.Join(&record.Record{Timestamp: 5, Value: []byte(val)}, &partition.Single{
						Codec: record.Codec(i / 100), Done: func(at partition.Place, err error) {
							if err != nil {
								t.Error(err)
							}
							done <- at
						},
					})
				}()
				ticket := <-hold
				withdrawn := rng.IntN(3) > 0 && b.Withdraw(ticket)
				at := partition.Place{Offset: -1}
				if !withdrawn {
					at = <-done
				}
				mu.Lock()
				if withdrawn {
					not[val] = true
				} else {
					places[val] = at.Offset
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	b.crew.Wait()
	got, err := read(b.Log, 0)
	check(t, err)
	for _, e := range got {
		if at, ok := places[e.val]; not[e.val] || !ok || at != e.off {
			t.Errorf("%s is at %d, was told to be at %d, or not to be: %t", e.val, e.off, at, not[e.val])
		}
	}
	if len(got) != len(places) {
		t.Errorf("%d records, %d were told to be there", len(got), len(places))
	}
	t.Logf("%d were taken back, %d stored", len(not), len(places))
}

// account notes what is settled.
type account struct {
	weight atomic.Int64
	err    error
}

func (a *account) Settled(weight int64, err error) { a.weight.Add(weight); a.err = err }

// Accounts are settled when all of a batch were told, also where a Done panics: the
// others are told then, and the account of each is.
func TestPanicOfADoneThatSharesABatch(t *testing.T) {
	f := newFragile(t, vfs.NewMem(), partition.OS)
	var one, two account
	told := 0
	for i := range 6 {
		s := partition.Single{Account: &one, Weight: 10, Done: func(partition.Place, error) {
			told++
			if one.weight.Load()+two.weight.Load() != 0 {
				t.Error("it is settled before all were told")
			}
			if i == 1 || i == 4 {
				panic("done")
			}
		}}
		if i >= 3 {
			s.Account = &two
		}
		f.JoinLater(&record.Record{Timestamp: 5, Value: []byte("x")}, &s)
	}
	f.drains = 0
	if got := recovered(f.Drain); got != "done" {
		t.Errorf("it recovered %v", got)
	}
	if told != 6 || one.weight.Load() != 30 || two.weight.Load() != 30 || one.err != nil {
		t.Errorf("%d were told; settled are %d and %d, %v", told, one.weight.Load(), two.weight.Load(), one.err)
	}
	f.serves(6)
}
