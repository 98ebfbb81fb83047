package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"

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
			got, found, err := s.findTime(ts, from, st.next(), 1<<20)
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
			if how == "beyond" || how == "one too late" {
				return // leads a lookup by time past the answer, and nothing there shows it
			}
			if err := st.checkTimes(t, s, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestIndexMadeOverDamage lacks the index of a damaged segment. What is made anew
// says nothing of what cannot be read, and leads to all that can.
func TestIndexMadeOverDamage(t *testing.T) {
	spiky := func() *story { // times that an index which lacks a batch leads past
		st := newStory(0, 100, true)
		for i := range 30 {
			at := int64(i)
			if i == 5 || i == 17 {
				at = 1000
			}
			st.add(shape{n: 1, epoch: stepping(i), time: func(int) int64 { return at }})
		}
		return st
	}
	kinds := append(slices.Clone(flipStories), struct {
		name string
		make func() *story
	}{"with spikes", spiky})
	for _, kind := range kinds {
		st := kind.make()
		disk, seal := st.sealed(t)
		for _, i := range []int{0, 3, 4, 5, 13, 20, 29} {
			for _, at := range []int{7, 11, 15, 18, 26, 61} {
				mem := disk.Clone()
				spoil(t, mem, st.base, []int{0, 1}, "missing")
				flip(t, mem, st.base, int64(int(st.batches[i].pos)+at)*8)
				s := OpenSealed(mem, NewFiles(4), dir, seal, st.opt)
				if err := errors.Join(st.check(s, hits{i: true}), st.checkTimes(t, s, hits{i: true})); err != nil {
					t.Errorf("%s, byte %d of batch %d: %v", kind.name, at, i, err)
				}
				s.Close()
			}
		}
	}
}
