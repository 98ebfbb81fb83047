package segment

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// relay is a run of segments that is written, synced, rolled, finished and removed
// while it is read: what package partition does, reduced to what it needs of this
// one. Its batches hold one record each, of value "v<offset>".
type relay struct {
	t     *testing.T
	fsys  vfs.FS
	files *Files
	opt   Options

	mu   sync.Mutex // guards list
	list []*Segment
	end  atomic.Int64 // published
	low  atomic.Int64 // log start
}

func (r *relay) roll(base record.Offset) *Segment {
	s, err := Create(r.fsys, r.files, dir, base, r.opt)
	if err != nil {
		r.t.Error(err)
		return nil
	}
	r.mu.Lock()
	r.list = append(r.list, s)
	r.mu.Unlock()
	return s
}

func (r *relay) holding(off record.Offset) *Segment {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.list) - 1; i >= 0; i-- {
		if r.list[i].Base() <= off {
			return r.list[i]
		}
	}
	return nil
}

// write appends n records, a few batches at a time, and rolls every now and then.
func (r *relay) write(n, perSegment int, finish chan<- *Segment) {
	defer close(finish)
	s := r.roll(0)
	for next := record.Offset(0); next < record.Offset(n); {
		if int(next-s.Base()) >= perSegment {
			s.Roll()
			finish <- s
			if s = r.roll(next); s == nil {
				return
			}
		}
		st := newStory(next, 0, true)
		for i := range 1 + int(next)%3 {
			off := int64(next) + int64(i)
			st.add(shape{
				n: 1, codec: allCodecs[off%5], epoch: record.Epoch(off / 200), // one that changes within a segment
				value: func(int) []byte { return fmt.Appendf(nil, "v%d", off) },
				time:  func(int) int64 { return off },
			})
		}
		if err := s.Append([][]byte{st.bytes()}, st.entries(), int64(next)); err != nil {
			r.t.Error(err)
			return
		}
		next = st.next()
		s.Show(s.Size())
		r.end.Store(int64(next))
	}
	s.Roll()
	finish <- s
}

// read follows the log from an offset to the last one, and begins anew where
// retention went past it.
func (r *relay) read(from record.Offset, n int, byIndex bool) {
	var buf []byte
	at, last := record.Pos(-1), (*Segment)(nil)
	for from < record.Offset(n) {
		end := record.Offset(r.end.Load())
		if low := record.Offset(r.low.Load()); from < low {
			from = low
		}
		s := r.holding(from)
		if s == nil || from >= end {
			continue
		}
		if s != last || byIndex {
			at, last = -1, s
		}
		chunk, err := s.Read(buf, 1<<10, from, end, at)
		switch {
		case IsRemoved(err) && from < record.Offset(r.low.Load()):
			continue
		case err != nil:
			r.t.Errorf("offset %d: %v", from, err)
			return
		case len(chunk.Data) == 0:
			if s.Sealed() && from >= s.Next() {
				continue // the next one is in the list by now
			}
			r.t.Errorf("offset %d is published, at %d, and not there", from, end)
			return
		}
		for data := chunk.Data; len(data) > 0; {
			b, err := record.Parse(data)
			if err != nil || b.Verify() != nil || b.LeaderEpoch != record.Epoch(b.BaseOffset/200) {
				r.t.Errorf("offset %d: %v", from, err)
				return
			}
			payload, err := b.Payload(nil, 1<<10)
			if err != nil {
				r.t.Error(err)
				return
			}
			it := b.Records(payload)
			var rec record.Record
			if !it.Next(&rec) || !bytes.Equal(rec.Value, fmt.Appendf(nil, "v%d", from)) || rec.Offset != from {
				r.t.Errorf("offset %d holds %q at %d", from, rec.Value, rec.Offset)
				return
			}
			from++
			data = data[b.Size():]
		}
		buf, at = chunk.Data, chunk.Pos
	}
}

// lookUp asks for times until the last record is there.
func (r *relay) lookUp(n int) {
	for i := int64(0); r.end.Load() < int64(n); i++ {
		end := r.end.Load()
		if end == 0 {
			continue
		}
		ts := i * 7919 % end
		s := r.holding(record.Offset(ts))
		if s == nil {
			continue
		}
		got, found, err := s.findTime(ts, 0, record.Offset(end), 1<<10)
		switch {
		case IsRemoved(err) || ts < r.low.Load():
		case err != nil || !found || got != record.Offset(ts):
			r.t.Errorf("time %d is found at %d, %v, %v", ts, got, found, err)
			return
		}
	}
}

// TestEverythingAtOnce runs an appender, a syncer, a finisher that also removes, a
// goroutine that closes whatever it may, readers and lookups beside each other.
func TestEverythingAtOnce(t *testing.T) {
	n := 2500
	if testing.Short() {
		n = 1000
	}
	mem := newDisk(t)
	faulty := vfs.NewFaulty(mem, nil)
	r := &relay{t: t, fsys: faulty, files: NewFiles(4)}
	r.opt.Index.Interval = 200
	r.opt.Dense = true
	var wg, writers sync.WaitGroup
	finish := make(chan *Segment, 100)
	writers.Go(func() { r.write(n, 150, finish) })
	stop := make(chan struct{})
	work := func(do func()) {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					do()
				}
			}
		})
	}
	work(func() { // the sync round
		if s := r.holding(record.Offset(r.end.Load())); s != nil {
			if err := s.Sync(); err != nil && !IsRemoved(err) {
				t.Error(err)
			}
		}
	})
	work(func() { r.files.evict() })
	var seals []Seal
	var removed int
	writers.Go(func() { // tidying up, and retention
		for s := range finish {
			seal, err := s.Finish()
			if err != nil {
				t.Error(err)
				return
			}
			seals = append(seals, seal)
			if len(seals) > 6 {
				r.low.Store(int64(seals[removed].Next))
				r.mu.Lock()
				oldest := r.list[0]
				r.list = r.list[1:]
				r.mu.Unlock()
				if err := oldest.Remove(); err != nil {
					t.Error(err)
				}
				removed++
			}
		}
	})
	for i := range 4 {
		writers.Go(func() { r.read(record.Offset(i*100), n, i%2 == 0) })
	}
	writers.Go(func() { r.lookUp(n) })
	writers.Wait()
	close(stop)
	wg.Wait()
	if removed == 0 {
		t.Error("nothing was removed")
	}
	for _, s := range r.list {
		s.Close()
	}
	if open := handles(faulty); open != 0 || r.files.Open() != 0 {
		t.Errorf("%d files are left open, %d in the table", open, r.files.Open())
	}
	for _, seal := range seals[removed:] { // and all of it once more, from the disk
		s := OpenSealed(mem, r.files, dir, seal, r.opt)
		told, err := read(s, 1<<20, seal.Base, seal.Next)
		if err != nil || len(told.gaps) > 0 || len(told.batches) != int(seal.Next-seal.Base) {
			t.Errorf("%d batches of segment %d, %v, %v", len(told.batches), seal.Base, told.gaps, err)
		}
		s.Close()
	}
}

// TestCloseWhileReading closes a segment under readers: they get what is right, or
// are told that it is gone.
func TestCloseWhileReading(t *testing.T) {
	st := timed()
	mem, seal := st.sealed(t)
	for range 200 {
		s := OpenSealed(mem, NewFiles(4), dir, seal, st.opt)
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				for {
					err := errors.Join(st.checkFrom(s, st.batches[10*i].LastOffset(), nil))
					if IsRemoved(err) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		s.files.evict()
		s.Close()
		wg.Wait()
		if n := s.files.Open(); n != 0 {
			t.Fatalf("%d files are open", n)
		}
	}
}

// TestReadsTakeNoLock holds every lock there is while an active segment and a
// finished one are read, by offset, onwards and by time, and while the appender is
// inside a write and another goroutine inside a sync.
func TestReadsTakeNoLock(t *testing.T) {
	gate := make(chan struct{})
	var armed atomic.Bool
	var inside atomic.Int32
	faulty := vfs.NewFaulty(newDisk(t), func(op vfs.Op) vfs.Fault {
		if armed.Load() && (op.Kind == vfs.OpWrite || op.Kind == vfs.OpSync) {
			inside.Add(1)
			return vfs.Fault{Block: gate}
		}
		return vfs.Fault{}
	})
	files := NewFiles(4)
	sparse := newStory(9000, 100, false)
	for i := range 10 {
		sparse.add(shape{n: 2, gap: record.Offset(i % 3)})
	}
	stories := []*story{few(20, 100), manyBatches(true, noGaps, stepping), sparse}
	var segs []*Segment
	for i, st := range stories {
		s := st.first(len(st.batches)-1).write(t, faulty, files)
		defer s.Close()
		if i > 0 {
			finish(t, s)
		}
		if err := st.first(len(st.batches)-1).check(s, nil); err != nil { // whoever comes first may wait
			t.Fatal(err)
		}
		segs = append(segs, s)
	}
	armed.Store(true)
	done := make(chan error, 2)
	last := len(stories[0].batches) - 1
	go func() { done <- segs[0].Sync() }()
	for inside.Load() < 1 {
		runtime.Gosched()
	}
	go func() { done <- stories[0].tryAppend(segs[0], last, last+1) }()
	for inside.Load() < 2 {
		runtime.Gosched()
	}
	files.mu.Lock()
	for _, s := range segs {
		s.openMu.Lock()
		s.finishMu.Lock()
		if s != segs[0] {
			s.syncMu.Lock() // that one is in the hands of the sync
		}
	}
	reads := make(chan error)
	go func() {
		for i, st := range stories {
			st := st.first(len(st.batches) - 1)
			reads <- errors.Join(st.check(segs[i], nil), st.checkTimes(t, segs[i], nil))
		}
	}()
	for range stories {
		select {
		case err := <-reads:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a read waits for a lock")
		}
	}
	files.mu.Unlock()
	for _, s := range segs {
		s.openMu.Unlock()
		s.finishMu.Unlock()
		if s != segs[0] {
			s.syncMu.Unlock()
		}
	}
	armed.Store(false)
	close(gate)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
