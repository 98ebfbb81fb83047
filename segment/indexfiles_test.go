package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// timed is a segment for lookups: of forty batches, with an entry at nearly every
// one, and timestamps that rise, stand still and fall.
func timed() *story {
	st := newStory(100, 150, true)
	for i := range 40 {
		base := int64(i) * 1000
		if i%7 == 3 {
			base -= 5000
		}
		st.add(shape{n: 1 + i%3, codec: allCodecs[i%len(allCodecs)], time: func(k int) int64 { return base + int64(k%2)*10 }})
	}
	return st
}

// times are all timestamps in the story, and those beside them.
func (st *story) times(t testing.TB) []int64 {
	t.Helper()
	list := []int64{-2, record.NoTimestamp, 0, 1 << 60}
	for i := range st.batches {
		for _, r := range records(t, &st.batches[i].Batch) {
			list = append(list, r.Timestamp-1, r.Timestamp, r.Timestamp+1)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func records(t testing.TB, b *record.Batch) []record.Record {
	t.Helper()
	payload, err := b.Payload(nil, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	it := b.Records(payload)
	var list []record.Record
	for {
		var r record.Record
		if !it.Next(&r) {
			break
		}
		list = append(list, r)
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	return list
}

// firstAt is the plain answer to a lookup by time: the first record, read from
// the front, that will do; negative when there is none.
func (st *story) firstAt(t testing.TB, ts int64, from, end record.Offset, damaged hits) record.Offset {
	t.Helper()
	for i := len(st.decoded); i < len(st.batches); i++ {
		st.decoded = append(st.decoded, records(t, &st.batches[i].Batch))
	}
	for i := range st.batches {
		if damaged[i] || st.batches[i].Attributes.Control() {
			continue
		}
		for _, r := range st.decoded[i] {
			if r.Offset >= from && r.Offset < end && r.Timestamp >= ts && r.Timestamp != record.NoTimestamp {
				return r.Offset
			}
		}
	}
	return -1
}

// checkTimes asks for all times and holds the answers against the plain ones.
func (st *story) checkTimes(t testing.TB, s *Segment, damaged hits) error {
	for _, from := range []record.Offset{st.base, st.base + (st.next()-st.base)/2} {
		for _, ts := range st.times(t) {
			want := st.firstAt(t, ts, from, st.next(), damaged)
			got, found, err := s.FindTime(ts, from, st.next(), 1<<20)
			if err != nil {
				return fmt.Errorf("time %d from offset %d: %w", ts, from, err)
			}
			if found != (want >= 0) || found && got != want {
				return fmt.Errorf("time %d from offset %d is found at %d, %v, want %d", ts, from, got, found, want)
			}
		}
	}
	return nil
}

// spoilt are ways in which an index file can be wrong.
var spoilt = map[string]func(rng *rand.Rand, good []byte, width int) []byte{
	"missing": nil,
	"empty":   func(*rand.Rand, []byte, int) []byte { return nil },
	"short":   func(_ *rand.Rand, good []byte, width int) []byte { return good[:len(good)/2/width*width] },
	"torn":    func(_ *rand.Rand, good []byte, _ int) []byte { return good[:len(good)-3] },
	"long": func(_ *rand.Rand, good []byte, width int) []byte {
		return append(slices.Clone(good), good[:2*width]...)
	},
	"zeros":  func(_ *rand.Rand, good []byte, _ int) []byte { return make([]byte, len(good)) },
	"padded": func(_ *rand.Rand, good []byte, _ int) []byte { return append(slices.Clone(good), make([]byte, 600)...) },
	"random": func(rng *rand.Rand, good []byte, _ int) []byte {
		noise := make([]byte, len(good))
		for i := range noise {
			noise[i] = byte(rng.Uint32())
		}
		return noise
	},
	"flipped": func(rng *rand.Rand, good []byte, _ int) []byte {
		bad := slices.Clone(good)
		bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
		return bad
	},
	"stale": func(_ *rand.Rand, good []byte, width int) []byte { return good[width:] },
	"backwards": func(_ *rand.Rand, good []byte, width int) []byte {
		bad := slices.Clone(good)
		copy(bad[2*width:], good[width:2*width])
		return bad
	},
	"beyond":        valuesMoved(1 << 28),
	"into a batch":  valuesMoved(7),
	"before":        valuesMoved(-1),
	"one too early": func(_ *rand.Rand, good []byte, width int) []byte { return shifted(good, width, -1) },
	"one too late":  func(_ *rand.Rand, good []byte, width int) []byte { return shifted(good, width, 1) },
}

// valuesMoved adds to the second number of each entry.
func valuesMoved(by int32) func(*rand.Rand, []byte, int) []byte {
	return func(_ *rand.Rand, good []byte, width int) []byte {
		bad := slices.Clone(good)
		for at := width - 4; at < len(bad); at += width {
			binary.BigEndian.PutUint32(bad[at:], uint32(int32(binary.BigEndian.Uint32(bad[at:]))+by))
		}
		return bad
	}
}

// shifted gives each entry the second number of its neighbour.
func shifted(good []byte, width, by int) []byte {
	bad := slices.Clone(good)
	for i := range len(good) / width {
		from := min(max(i+by, 0), len(good)/width-1)
		copy(bad[(i+1)*width-4:(i+1)*width], good[(from+1)*width-4:])
	}
	return bad
}

var indexKinds = []struct {
	suffix string
	width  int
}{{IndexSuffix, 8}, {TimeIndexSuffix, 12}}

// spoil replaces the index files of a segment.
func spoil(t testing.TB, mem *vfs.Mem, base record.Offset, which []int, how string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	for _, k := range which {
		name := dir + "/" + FileName(base) + indexKinds[k].suffix
		if spoilt[how] == nil {
			if err := mem.Remove(name); err != nil {
				t.Fatal(err)
			}
			continue
		}
		good, err := mem.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		put(t, mem, name, spoilt[how](rng, good, indexKinds[k].width))
	}
}

func indexFiles(t testing.TB, mem *vfs.Mem, base record.Offset) (files [2][]byte) {
	t.Helper()
	for k := range indexKinds {
		data, err := mem.ReadFile(dir + "/" + FileName(base) + indexKinds[k].suffix)
		if err != nil {
			t.Fatal(err)
		}
		files[k] = data
	}
	return files
}

// TestIndexFilesMayBeAnything spoils the index files of a sealed segment and of an
// active one, each alone and both. Every read and every lookup by time answers as
// if nothing had happened, and the files are what they were.
func TestIndexFilesMayBeAnything(t *testing.T) {
	st := timed()
	sealedDisk, seal := st.sealed(t)
	activeDisk, state := st.active(t)
	for how := range spoilt {
		for _, which := range [][]int{{0}, {1}, {0, 1}} {
			t.Run(fmt.Sprintf("%s, %v", how, which), func(t *testing.T) {
				mem := sealedDisk.Clone()
				good := indexFiles(t, mem, st.base)
				spoil(t, mem, st.base, which, how)
				s := OpenSealed(mem, NewFiles(4), dir, seal, st.opt)
				if err := errors.Join(st.check(s, nil), st.checkTimes(t, s, nil)); err != nil {
					t.Errorf("sealed: %v", err)
				}
				s.Close()
				if now := indexFiles(t, mem, st.base); !slices.EqualFunc(now[:], good[:], slices.Equal) {
					t.Errorf("sealed: the files were not made as they were")
				}

				mem = activeDisk.Clone()
				spoil(t, mem, st.base, which, how)
				s = OpenActive(mem, NewFiles(4), dir, state, st.opt)
				if err := errors.Join(st.check(s, nil), st.checkTimes(t, s, nil)); err != nil {
					t.Errorf("active: %v", err)
				}
				more := timed()
				more.add(shape{n: 2, time: func(int) int64 { return 1 << 40 }})
				more.appendTo(t, s, len(st.batches))
				again := finish(t, s)
				s.Close()
				s = OpenSealed(mem, NewFiles(4), dir, again, st.opt)
				if err := errors.Join(more.check(s, nil), more.checkTimes(t, s, nil)); err != nil {
					t.Errorf("active, then sealed: %v", err)
				}
				s.Close()
			})
		}
	}
}

// TestIndexFilesMayLie spoils the index files and has the seal vouch for them, as
// no fault of a disk can. Reads by offset are right all the same: what is found
// where an entry leads is held against the entry.
func TestIndexFilesMayLie(t *testing.T) {
	st := timed()
	disk, seal := st.sealed(t)
	for how := range spoilt {
		if how == "missing" {
			continue
		}
		t.Run(how, func(t *testing.T) {
			mem := disk.Clone()
			spoil(t, mem, st.base, []int{0}, how)
			data := indexFiles(t, mem, st.base)[0]
			seal := seal
			seal.Index.Entries = len(data) / 8
			seal.Index.Sum = crc32.Checksum(data, castagnoli)
			s := OpenSealed(mem, NewFiles(4), dir, seal, st.opt)
			defer s.Close()
			if err := st.check(s, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestIndexThatCannotBeWritten lacks the index files on a disk that is full, or
// read-only. All answers are right; the attempt to make them is not repeated for
// each, and succeeds when the file is opened again after there is room.
func TestIndexThatCannotBeWritten(t *testing.T) {
	st := timed()
	disk, seal := st.sealed(t)
	for _, cause := range []error{syscall.ENOSPC, syscall.EROFS, syscall.EACCES, syscall.EIO} {
		t.Run(cause.Error(), func(t *testing.T) {
			mem := disk.Clone()
			spoil(t, mem, st.base, []int{0, 1}, "missing")
			refuse, tries := true, 0
			faulty := vfs.NewFaulty(mem, func(op vfs.Op) vfs.Fault {
				if !refuse || !strings.HasSuffix(op.Name, "index") {
					return vfs.Fault{}
				}
				switch op.Kind {
				case vfs.OpCreate, vfs.OpWrite, vfs.OpRemove, vfs.OpTruncate:
					tries++
					return vfs.Fault{Err: cause}
				}
				return vfs.Fault{}
			})
			files := NewFiles(4)
			s := OpenSealed(faulty, files, dir, seal, st.opt)
			defer s.Close()
			if err := errors.Join(st.check(s, nil), st.checkTimes(t, s, nil)); err != nil {
				t.Error(err)
			}
			if tries == 0 || tries > 4 {
				t.Errorf("%d tries to write an index, want one for each file", tries)
			}
			refuse = false
			for files.evict() {
			}
			if err := errors.Join(st.check(s, nil), st.checkTimes(t, s, nil)); err != nil {
				t.Error(err)
			}
			if mark, err := index.OpenSealed(mem, dir+"/"+FileName(st.base), st.base, seal.Index); err != nil {
				t.Errorf("the index was not made when it could be: %v", err)
			} else {
				mark.Close()
			}
		})
	}
}

// TestAppendsDoNotNeedTheIndex refuses every write to the index while the segment
// grows (KAFKA-7866 is what happens when an append depends on it). Appends succeed
// and lookups are right; sealing makes the index from the log once it can.
func TestAppendsDoNotNeedTheIndex(t *testing.T) {
	st := newStory(0, 1, true)
	for i := range 1100 { // more than a page of entries
		st.add(shape{n: 1, time: func(int) int64 { return int64(i) }})
	}
	mem := newDisk(t)
	refuse := true
	faulty := vfs.NewFaulty(mem, func(op vfs.Op) vfs.Fault {
		if refuse && strings.HasSuffix(op.Name, "index") && (op.Kind == vfs.OpWrite || op.Kind == vfs.OpCreate) {
			return vfs.Fault{Err: syscall.ENOSPC}
		}
		return vfs.Fault{}
	})
	s := st.write(t, faulty, NewFiles(4))
	defer s.Close()
	check := func() {
		t.Helper()
		for _, off := range []record.Offset{0, 1, 500, 513, 1000, 1099} {
			if err := st.checkFrom(s, off, nil); err != nil {
				t.Error(err)
			}
			if got, found, err := s.FindTime(int64(off), 0, st.next(), 1<<20); got != off || !found || err != nil {
				t.Errorf("time %d is found at %d, %v, %v", off, got, found, err)
			}
		}
	}
	check()
	s.Roll()
	if _, err := s.Finish(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("finish on a full disk: %v", err)
	}
	check()
	refuse = false
	seal, err := s.Finish()
	if err != nil {
		t.Fatal(err)
	}
	check()
	want, _ := st.sealed(t)
	now, good := indexFiles(t, mem, 0), indexFiles(t, want, 0)
	if !slices.EqualFunc(now[:], good[:], slices.Equal) {
		t.Error("the index is not what it would have been")
	}
	if seal.Index.Entries != len(good[0])/8 || seal.Index.TimeEntries != len(good[1])/12 {
		t.Errorf("the seal speaks of %+v", seal.Index)
	}
}

// TestMappedIndexThatFaults maps an index every access of which is a memory fault,
// as on a disk error. The process lives, and reads are right.
func TestMappedIndexThatFaults(t *testing.T) {
	st := timed()
	disk, seal := st.sealed(t)
	for _, bad := range []string{"*.index", "*.timeindex", "*index"} {
		for _, when := range []int{1, 2, 3, 1 << 30} { // how many mappings are bad
			n := 0
			faulty := vfs.NewFaulty(disk.Clone(), func(op vfs.Op) vfs.Fault {
				if ok, _ := path.Match(bad, path.Base(op.Name)); !ok || op.Kind != vfs.OpMap || n >= when {
					return vfs.Fault{}
				}
				n++
				return vfs.Fault{Bad: true}
			})
			s := OpenSealed(faulty, NewFiles(4), dir, seal, st.opt)
			if err := errors.Join(st.check(s, nil), st.checkTimes(t, s, nil)); err != nil {
				t.Errorf("%d mappings of %s fault: %v", when, bad, err)
			}
			s.Close()
		}
	}
}

// TestFailedMappingsLeakNothing has every mapping refused, a thousand times over
// (oxia-db/oxia#1230). Reads are right, and no file stays open.
func TestFailedMappingsLeakNothing(t *testing.T) {
	st := few(4, 50)
	disk, seal := st.sealed(t)
	faulty := vfs.NewFaulty(disk, vfs.FailFrom(vfs.OpMap, "*", 1, syscall.ENODEV))
	files := NewFiles(4)
	for range 1000 {
		s := OpenSealed(faulty, files, dir, seal, st.opt)
		if err := st.checkFrom(s, st.next()-1, nil); err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	if faulty.Count(vfs.OpMap) < 1000 {
		t.Errorf("%d mappings were tried", faulty.Count(vfs.OpMap))
	}
	if n := handles(faulty); n != 0 || files.Open() != 0 {
		t.Errorf("%d files are left open, %d in the table", n, files.Open())
	}
}

// handles is how many files are open, of a disk on which no opening failed.
func handles(f *vfs.Faulty) int64 {
	return f.Count(vfs.OpOpen) + f.Count(vfs.OpCreate) - f.Count(vfs.OpClose)
}
