package segment

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/record"
)

// TestAdopt takes up a damaged segment that is known to have been whole, as one
// that was rolled before the next began. Batches behind the damage are read, and
// what is lost is told, then and when it is opened again. The leader epoch is not
// among what is damaged: nothing vouches for it before a segment is sealed.
func TestAdopt(t *testing.T) {
	st := few(12, 150)
	next := st.next()
	for i := range st.batches {
		for _, at := range []int{3, 9, 16, 18, 24, 40, 59, 63} {
			disk := newDisk(t)
			log := st.bytes()
			log[int(st.batches[i].pos)+at] ^= 0x10
			put(t, disk, logName(st.base), log)
			s, torn, short, err := Recover(disk, NewFiles(4), dir, State{Base: st.base}, 0, st.opt)
			if err != nil || torn == nil || short {
				t.Fatal(torn, short, err)
			}
			s.Roll()
			if err := s.Adopt(next, nil); err != nil {
				t.Fatal(err)
			}
			if err := s.Settle(0, nil); err != nil {
				t.Fatal(err)
			}
			lost := hits{i: true}
			if s.Next() != next || s.Size() != st.size() {
				t.Fatalf("byte %d of batch %d: next %d, size %d", at, i, s.Next(), s.Size())
			}
			if err := errors.Join(st.check(s, lost), st.checkTimes(t, s, lost)); err != nil {
				t.Errorf("byte %d of batch %d: %v", at, i, err)
			}
			seal := finish(t, s)
			s.Close()
			if !seal.Dense {
				t.Errorf("byte %d of batch %d: gaps are no damage any more", at, i)
			}
			s = OpenSealed(disk, NewFiles(4), dir, seal, st.opt)
			if err := errors.Join(st.check(s, lost), st.checkTimes(t, s, lost)); err != nil {
				t.Errorf("byte %d of batch %d, opened again: %v", at, i, err)
			}
			s.Close()
			if data, _ := disk.ReadFile(logName(st.base)); !bytes.Equal(data, log) {
				t.Errorf("byte %d of batch %d: adopting has changed the file", at, i)
			}
		}
	}
}

// TestAdoptOfNothing is a segment of which nothing checks.
func TestAdoptOfNothing(t *testing.T) {
	st := few(5, 150)
	disk := newDisk(t)
	put(t, disk, logName(st.base), make([]byte, st.size()))
	s, _, _, err := Recover(disk, NewFiles(4), dir, State{Base: st.base}, 0, st.opt)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Roll()
	if err := s.Adopt(st.next(), nil); err != nil {
		t.Fatal(err)
	}
	_, err = s.Read(nil, 1, st.base+3, math.MaxInt64, -1)
	var damage *CorruptError
	if !errors.As(err, &damage) || damage.From != st.base || damage.To != st.next() {
		t.Errorf("read: %v", err)
	}
	finish(t, s)
}

// TestAppendEpochs lists where leader epochs begin, as Kafka's checkpoint of them
// does, over segments that are opened from what is kept of them.
func TestAppendEpochs(t *testing.T) {
	one := newStory(0, 100, true)
	for _, epoch := range []record.Epoch{0, 0, 2, 2, 3} {
		one.add(shape{n: 2, epoch: epoch})
	}
	two := newStory(one.next(), 100, true)
	two.add(shape{n: 1, epoch: 3})
	three := newStory(two.next(), 100, true)
	three.add(shape{n: 1, epoch: 3})
	three.add(shape{n: 1, epoch: 7})
	want := []EpochStart{{0, 0}, {2, 4}, {3, 8}, {7, 12}}
	for damaged := range 2 {
		var got []EpochStart
		for _, st := range []*story{one, two, three, newStory(13, 100, true)} {
			if len(st.batches) == 0 {
				got = OpenActive(newDisk(t), NewFiles(4), dir, State{Base: 13}, st.opt).AppendEpochs(got)
				continue
			}
			mem, seal := st.sealed(t)
			if damaged == 1 && st == one { // the record bytes of a batch say nothing of epochs
				flip(t, mem, 0, int64(st.size())*8-20)
			}
			s := OpenSealed(mem, NewFiles(4), dir, seal, st.opt)
			got = s.AppendEpochs(got)
			s.Close()
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// TestAdoptFindsWhatLiesBetweenDamage has a segment put back around batches that are lost,
// with zeros in the place of them: the places where a batch is for certain lead past each,
// and entries of the index do later, made with it or anew from the log.
func TestAdoptFindsWhatLiesBetweenDamage(t *testing.T) {
	st := few(10, 300)
	var places []index.Entry
	for i := range st.batches {
		places = append(places, index.Entry{Offset: st.batches[i].LastOffset(), Pos: st.batches[i].pos})
	}
	for set := 1; set < 1<<10; set++ {
		lost, ends := hits{}, 0
		log := st.bytes()
		for i := range st.batches {
			if set>>i&1 != 0 {
				lost[i] = true
				clear(log[st.batches[i].pos:][:st.batches[i].Size()])
			} else {
				ends = int(st.batches[i].pos) + st.batches[i].Size()
			}
		}
		disk := newDisk(t)
		put(t, disk, logName(st.base), log[:ends]) // nothing has made it longer
		s, torn, _, err := Recover(disk, NewFiles(4), dir, State{Base: st.base}, 0, st.opt)
		if err != nil {
			t.Fatal(err)
		}
		s.Roll()
		if torn != nil {
			err = s.Adopt(st.next(), places)
		}
		if err = errors.Join(err, s.Settle(0, nil)); err != nil {
			t.Fatal(err)
		}
		there := 0
		for there < len(st.batches) && st.batches[there].NextOffset() <= s.Next() {
			there++
		}
		part := st.first(there)
		maps.DeleteFunc(lost, func(i int, _ bool) bool { return i >= there })
		if err := part.check(s, lost); err != nil {
			t.Errorf("%010b: %v", set, err)
		}
		seal := finish(t, s)
		s.Close()
		s = OpenSealed(disk, NewFiles(4), dir, seal, st.opt)
		if err := part.check(s, lost); err != nil {
			t.Errorf("%010b, sealed: %v", set, err)
		}
		s.Close()
		if len(lost) != 1 {
			continue // behind the first of several nothing but an index leads past the others
		}
		for k := range indexKinds {
			if err := disk.Remove(dir + "/" + FileName(st.base) + indexKinds[k].suffix); err != nil {
				t.Fatal(err)
			}
		}
		s = OpenSealed(disk, NewFiles(4), dir, seal, st.opt)
		if err := part.check(s, lost); err != nil {
			t.Errorf("%010b, without an index: %v", set, err)
		}
		s.Close()
	}
}
