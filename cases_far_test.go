package varve_test

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/internal/twin"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// bareLog is the log of one partition without an engine: what an import would
// work on, which may keep the offsets that batches have.
type bareLog struct {
	*partition.Log
	t    testing.TB
	fs   vfs.FS
	crew sync.WaitGroup // goroutines that an engine would lend
}

func (b *bareLog) Commit(l *partition.Log)       { b.crew.Go(func() { l.SyncRound() }) }
func (b *bareLog) Settle(l *partition.Log) error { return l.SyncRound() }
func (b *bareLog) Drain(l *partition.Log)        { b.crew.Go(l.Drain) }
func (b *bareLog) Tidy(l *partition.Log)         { b.crew.Go(func() { l.Tidy() }) }

// openBare opens the log in the directory "p" of a file system.
func openBare(t testing.TB, fsys vfs.FS, cp *partition.Checkpoint, clean bool) *bareLog {
	t.Helper()
	b := &bareLog{t: t, fs: fsys}
	env := partition.Env{
		FS: fsys, Files: segment.NewFiles(8), Journal: b, Runner: b, Logger: silent(),
		Now: func() int64 { return time.Now().UnixMilli() },
	}
	var claimed *partition.Claimed
	var err error
	if clean {
		if claimed, err = partition.Claim(env, "t/0", "p", cp, partition.Left{Stop: partition.Clean}); err != nil {
			t.Fatal(err)
		}
	}
	b.Log, err = partition.Open(env, "t/0", "p", partition.Config{
		Level: partition.OS, SegmentBytes: math.MaxInt32, SegmentAge: -1, RetentionAge: -1, RetentionBytes: -1,
		MaxBatchBytes: 64 << 20,
	}, cp, nil, claimed)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// stop closes the log and returns what a checkpoint would keep.
func (b *bareLog) stop() *partition.Checkpoint {
	b.t.Helper()
	cp, err := b.Close()
	if err != nil {
		b.t.Fatal(err)
	}
	b.crew.Wait()
	return &cp
}

// add appends a finished batch, under the offsets it has if keep is set.
func (b *bareLog) add(raw []byte, keep bool) record.Offset {
	b.t.Helper()
	batch, err := record.Parse(raw)
	if err != nil {
		b.t.Fatal(err)
	}
	done := make(chan struct{})
	a := &partition.Append{Batch: &batch, KeepOffsets: keep, Expect: -1, Done: func(*partition.Append) { close(done) }}
	b.Append(a)
	<-done
	if a.Err != nil {
		b.t.Fatal(a.Err)
	}
	return a.Base
}

// batchAt is a batch of n records that starts at an offset and is dated ts.
func batchAt(base record.Offset, n int, ts int64, value []byte) []byte {
	var build record.Builder
	build.Reset(nil, base, record.BatchOptions{})
	for range n {
		build.Add(ts, nil, value, nil)
	}
	return build.Finish()
}

// bases reads batches from an offset to the end and lists their base offsets.
func (b *bareLog) bases(from record.Offset) []record.Offset {
	b.t.Helper()
	var found []record.Offset
	var c partition.Cursor
	for {
		chunk, err := b.Read(nil, 1<<20, from, &c)
		if err != nil {
			b.t.Fatalf("read at %d: %v", from, err)
		}
		if len(chunk.Data) == 0 {
			return found
		}
		for data := chunk.Data; len(data) > 0; {
			batch, err := record.Parse(data)
			if err != nil || batch.Verify() != nil {
				b.t.Fatalf("read at %d: %v, %v", from, err, batch.Verify())
			}
			found = append(found, batch.BaseOffset)
			data = data[batch.Size():]
		}
		from = chunk.Next
	}
}

// checkSpans holds segments against the bounds of index entries.
func (b *bareLog) checkSpans() {
	b.t.Helper()
	next := record.Offset(-1)
	for _, s := range b.Stats().Segments {
		if s.Next > s.Base && s.Next-1-s.Base > math.MaxInt32 {
			b.t.Errorf("segment %d holds offset %d, which no index entry can say", s.Base, s.Next-1)
		}
		if s.Bytes > math.MaxInt32 {
			b.t.Errorf("segment %d has %d bytes, more than a position can say", s.Base, s.Bytes)
		}
		if s.Base < next {
			b.t.Errorf("segment %d begins in front of %d", s.Base, next)
		}
		next = s.Next
	}
}

// Offsets 2^31 and more above the base of a segment: a roll comes first, and
// everything is found, by offset and by time, before and after restarts
// (KAFKA-4451, KAFKA-5413, KAFKA-6530, redpanda-data/redpanda#25979).
func TestOffsetsFarFromTheSegmentBase(t *testing.T) {
	const edge = record.Offset(math.MaxInt32)
	for name, jumps := range map[string][]record.Offset{
		"one below the edge":       {0, edge - 1, edge, edge + 1, edge + 2},
		"a batch over the edge":    {0, 10, edge - 2, edge + 5},
		"far at once":              {3_000_000_000, 3_000_000_010, 9_000_000_000},
		"farther and farther":      {5, 1 << 32, 1 << 33, 1 << 34, 1<<34 + 5, 1 << 40, 1 << 62},
		"two in one segment":       {10, 3_000_000_000, 3_000_000_005},
		"one segment to its limit": {0, 1 << 30, edge - 3, edge - 2},
	} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewMem()
			if err := disk.Mkdir("p"); err != nil {
				t.Fatal(err)
			}
			if err := twin.Save(disk, "p/partition.json", 1, []byte(`{"logStart":0,"sparse":true}`)); err != nil {
				t.Fatal(err)
			}
			b := openBare(t, disk, nil, false)
			var want []record.Offset
			for i, base := range jumps {
				n := 1
				if i+1 < len(jumps) && jumps[i+1]-base > 5 {
					n = 5
				}
				if got := b.add(batchAt(base, n, int64(1000+i), []byte("far")), true); got != base {
					t.Errorf("offset %d was kept as %d", base, got)
				}
				want = append(want, base)
			}
			for range 20 { // and on, under offsets of the log's own
				want = append(want, b.add(batchAt(0, 1, 5000, []byte("near")), false))
			}
			want = append(want, b.add(batchAt(0, 20, 5001, []byte("near")), false))
			end := b.LogEnd()
			check := func(when string) {
				t.Helper()
				b.checkSpans()
				if b.LogEnd() != end {
					t.Errorf("%s: the end is %d, want %d", when, b.LogEnd(), end)
				}
				for i, base := range want {
					if got := b.bases(base); len(got) != len(want)-i || got[0] != base {
						t.Errorf("%s: from %d there are batches %v, want %v", when, base, got, want[i:])
					}
					if i > 0 && want[i-1]+5 < base {
						if got := b.bases(base - 1); len(got) == 0 || got[0] != base {
							t.Errorf("%s: from %d, in a gap, there are batches %v, want %v", when, base-1, got, want[i:])
						}
					}
				}
				for i := range jumps {
					if off, found, err := b.FindTime(int64(1000+i), 0); err != nil || !found || off != jumps[i] {
						t.Errorf("%s: time %d is at %d, %t, %v, want %d", when, 1000+i, off, found, err, jumps[i])
					}
				}
			}
			check("live")
			left := disk.Clone()
			b = openBare(t, disk, b.stop(), true)
			check("after a clean stop")
			b.stop()
			b = openBare(t, left, nil, false)
			check("after a kill")
			b.stop()
		})
	}
}

// A batch between two others of a log without gaps is never taken for one: the
// offsets of a conflict are refused, and nothing is written.
func TestKeptOffsetsDoNotGoBack(t *testing.T) {
	disk := vfs.NewMem()
	if err := disk.Mkdir("p"); err != nil {
		t.Fatal(err)
	}
	b := openBare(t, disk, nil, false)
	b.add(batchAt(0, 5, 1, []byte("x")), true)
	for _, base := range []record.Offset{0, 3, 4} {
		batch, err := record.Parse(batchAt(base, 1, 1, nil))
		if err != nil {
			t.Fatal(err)
		}
		a := &partition.Append{Batch: &batch, KeepOffsets: true, Expect: -1, Done: func(*partition.Append) {}}
		b.Append(a)
		if a.Err == nil || b.LogEnd() != 5 {
			t.Errorf("a batch at %d was taken: %v, the end is %d", base, a.Err, b.LogEnd())
		}
	}
	b.stop()
}

// A segment that is nearly as large as a position can say: the next batches fill
// it to the last byte or roll, and are found (KAFKA-1670, redpanda-data/redpanda#1443).
// The file is a hole of 2 GiB with one batch in front and one at its end.
func TestSegmentAsLargeAsAPositionCanSay(t *testing.T) {
	for _, room := range []int{0, 1, 100, 1000} {
		fsys := vfs.Dir(t.TempDir())
		if err := fsys.Mkdir("p"); err != nil {
			t.Fatal(err)
		}
		first, last := batchAt(0, 1, 1000, []byte("first")), batchAt(1, 1, 2000, []byte("last"))
		size := int64(math.MaxInt32 - room)
		file, err := fsys.OpenFile("p/00000000000000000000.log", os.O_RDWR|os.O_CREATE)
		if err != nil {
			t.Fatal(err)
		}
		pos := size - int64(len(last))
		for _, w := range []struct {
			data []byte
			at   int64
		}{{first, 0}, {last, pos}} {
			if _, err := file.WriteAt(w.data, w.at); err != nil {
				t.Fatalf("a sparse file of %d bytes cannot be made here: %v", size, err)
			}
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		entry := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 1), uint32(pos))
		index0, err := fsys.OpenFile("p/00000000000000000000.index", os.O_RDWR|os.O_CREATE)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := index0.WriteAt(entry, 0); err != nil {
			t.Fatal(err)
		}
		if err := index0.Close(); err != nil {
			t.Fatal(err)
		}
		b := openBare(t, fsys, &partition.Checkpoint{Active: segment.State{
			Next: 2, Size: record.Pos(size), MaxTimestamp: 2000, FirstTimestamp: 1000, FirstAppend: 1, LastAppend: 1, Dense: true,
			Index: index.Mark{
				Entries: 1, Sum: crc32.Checksum(entry, crc32.MakeTable(crc32.Castagnoli)),
				Tail: index.Tail{Since: int64(len(last)), MaxTimestamp: 2000, MaxOffset: 1},
			},
		}}, true)
		want := []record.Offset{1}
		for i := range 30 {
			size := 100
			if i%10 == 9 {
				size = 1 << 20
			}
			want = append(want, b.add(batchAt(0, 1, int64(3000+i), make([]byte, size-70)), false))
		}
		for _, s := range b.Stats().Segments[:1] {
			if s.Bytes > math.MaxInt32 || s.Bytes < math.MaxInt32-int64(max(room, 100)) {
				t.Errorf("room for %d bytes: the segment was rolled at %d", room, s.Bytes)
			}
		}
		for range 2 {
			b.checkSpans()
			for i := range want {
				if got := b.bases(want[i]); len(got) != len(want)-i || got[0] != want[i] {
					t.Fatalf("room for %d bytes: from %d there are batches %v, want %v", room, want[i], got, want[i:])
				}
			}
			if off, found, err := b.FindTime(3005, 0); err != nil || !found || off != 7 {
				t.Errorf("room for %d bytes: time 3005 is at %d, %t, %v, want 7", room, off, found, err)
			}
			b = openBare(t, fsys, b.stop(), true)
		}
		b.stop()
	}
}

// A directory of another log in which one segment already spans more than 2^31
// offsets (KAFKA-6264): it opens, again and again, and every batch is read, with
// and without the index files that cannot say where they are.
func TestSegmentThatSpansTooMuchIsRead(t *testing.T) {
	disk := vfs.NewMem()
	var data []byte
	want := []record.Offset{10, 3_000_000_000, 3_000_000_005, 9_000_000_000}
	for i, base := range want {
		data = append(data, batchAt(base, 1, int64(1000+i), []byte("far"))...)
	}
	if err := disk.WriteFile("p/00000000000000000000.log", data); err != nil {
		t.Fatal(err)
	}
	if err := twin.Save(disk, "p/partition.json", 1, []byte(`{"logStart":0,"sparse":true}`)); err != nil {
		t.Fatal(err)
	}
	var cp *partition.Checkpoint
	for round := range 4 {
		b := openBare(t, disk, cp, round == 2)
		for i, base := range want {
			if got := b.bases(base); len(got) != len(want)-i || got[0] != base {
				t.Errorf("round %d: from %d there are batches %v, want %v", round, base, got, want[i:])
			}
			if i < 4 {
				if got := b.bases(base - 1); len(got) != len(want)-i || got[0] != base {
					t.Errorf("round %d: from %d there are batches %v, want %v", round, base-1, got, want[i:])
				}
				if off, found, err := b.FindTime(int64(1000+i), 0); err != nil || !found || off != base {
					t.Errorf("round %d: time %d is at %d, %t, %v, want %d", round, 1000+i, off, found, err, base)
				}
			}
		}
		want = append(want, b.add(batchAt(0, 1, 5000, []byte("near")), false))
		cp = b.stop()
		if round == 2 {
			cp = nil
		}
	}
	now, err := disk.ReadFile("p/00000000000000000000.log")
	if err != nil || string(now) != string(data) {
		t.Errorf("the segment has changed: %d bytes were %d, %v", len(now), len(data), err)
	}
}
