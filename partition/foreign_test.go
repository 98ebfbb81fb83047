package partition_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// copied makes a directory as a copy of a Kafka partition is: log files, named by
// their base offset, with a batch of one record at each of the offsets, and no
// metadata.
func copied(t *testing.T, files map[record.Offset][]record.Offset) *vfs.Mem {
	t.Helper()
	disk := vfs.NewMem()
	check(t, disk.Mkdir(dir))
	for base, offsets := range files {
		var data []byte
		for _, off := range offsets {
			var b record.Builder
			b.Reset(nil, off, record.BatchOptions{})
			b.Add(1000, nil, []byte(fmt.Sprint("v", off)), nil)
			data = append(data, b.Finish()...)
		}
		f, err := disk.OpenFile(fmt.Sprintf("%s/%020d.log", dir, base), os.O_RDWR|os.O_CREATE)
		check(t, err)
		_, err = f.WriteAt(data, 0)
		check(t, errors.Join(err, f.Sync(), f.Close()))
	}
	check(t, errors.Join(disk.SyncDir(dir), disk.SyncDir(".")))
	return disk
}

// A compacted partition that was copied from a Kafka broker keeps every batch: its
// gaps are none that a crash made. So it does after a crash, after a clean stop, and
// when records follow.
func TestCopiedLogKeepsItsGaps(t *testing.T) {
	for name, files := range map[string]map[record.Offset][]record.Offset{
		"gaps in a file":        {0: {0, 5, 20}},
		"first is compacted":    {0: {3, 4}},
		"gap at the start":      {10: {10, 11, 20}},
		"gaps between files":    {0: {0, 7}, 30: {30, 41}, 60: {61}},
		"an empty file at last": {0: {0, 7}, 30: {}},
		"without gaps":          {0: {0, 1}, 2: {2}},
	} {
		t.Run(name, func(t *testing.T) {
			var want []record.Offset
			var start record.Offset = 1 << 40
			for base, offsets := range files {
				want = append(want, offsets...)
				start = min(start, base)
			}
			slices.Sort(want)
			r := &rig{t: t, disk: copied(t, files), cfg: small(partition.Fsync), now: 1_700_000_000_000, eager: true}
			r.wrote = map[record.Offset]string{}
			same := func(when string) {
				t.Helper()
				entries, err := read(r.log, r.log.Start())
				var got []record.Offset
				for _, e := range entries {
					got = append(got, e.off)
				}
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("%s there are %v (%v), expected %v\n%s", when, got, err, want, r.logged.String())
				}
				if r.log.Start() != start {
					t.Errorf("%s the log starts at %d, expected %d", when, r.log.Start(), start)
				}
			}
			r.open(nil, false)
			same("at first")
			r.open(nil, false)
			same("after a crash")
			cp := r.snapshot()
			r.open(cp, false)
			same("after a crash with a checkpoint")
			for range 4 {
				s := r.publish(1)
				if s.Err != nil {
					t.Fatal(s.Err)
				}
				want = append(want, s.Base)
			}
			r.open(cp, false)
			same("with records behind, after a crash")
			r.restart()
			same("after a clean stop")
		})
	}
}

// Damage in it is damage, wherever another file follows: nothing is cut.
func TestDamageInACopiedLogIsKept(t *testing.T) {
	for file, at := range map[int]int{0: 20, 30: 90} {
		disk := copied(t, map[record.Offset][]record.Offset{0: {3, 9, 12}, 30: {41, 50}, 60: {61, 70}})
		check(t, disk.FlipBit(fmt.Sprintf("%s/%020d.log", dir, file), int64(8*at)))
		r := &rig{t: t, disk: disk, cfg: small(partition.OS), now: 1_700_000_000_000, eager: true}
		r.wrote = map[record.Offset]string{}
		for range 2 {
			r.open(nil, false)
			entries, gaps := readPast(t, r.log, 0)
			if len(entries) != 6 || len(gaps) != 1 {
				t.Errorf("file %d: %d of 7 records, gaps %v\n%s", file, len(entries), gaps, r.logged.String())
			}
			disk.Remove(dir + "/seals") // they are never synced
		}
	}
}

// It keeps them too when it takes the place of a partition that was stopped cleanly and
// never had a record, or has lost its metadata. Any other is refused, again and again, until its
// own files are back.
func TestCopiedLogInTheFilesOfAnother(t *testing.T) {
	files := map[record.Offset][]record.Offset{0: {3, 9}, 30: {41, 50}, 60: {61, 70}}
	for _, used := range []int{0, 2} { // records in the log whose place it takes
		for _, kept := range []bool{false, true} {
			r := newRig(t, small(partition.Fsync))
			for range used {
				r.publish(1)
			}
			cp, err := r.log.Close()
			check(t, err)
			disk := copied(t, files)
			if kept {
				for _, name := range []string{"/partition.json", "/partition.json.copy"} {
					data, err := r.disk.ReadFile(dir + name)
					check(t, err)
					check(t, disk.WriteFile(dir+name, data))
				}
			}
			left := &rig{t: t, disk: disk, cfg: r.cfg, now: r.now, eager: true}
			left.wrote = map[record.Offset]string{}
			before := map[string][]byte{}
			for _, base := range []int{0, 30, 60} {
				name := fmt.Sprintf("%s/%020d.log", dir, base)
				before[name], _ = disk.ReadFile(name)
			}
			refused := kept && used > 0
			if err := left.tryOpen(&cp, true); (err != nil) != refused || err != nil && !strings.Contains(err.Error(), "00000000000000000060.log") {
				t.Fatalf("metadata kept %t, %d records: %v", kept, used, err)
			}
			if refused {
				left.refusedUntil(r.disk, &cp)
			}
			for name, data := range before {
				if now, err := disk.ReadFile(name); err != nil || !bytes.Equal(now, data) {
					t.Errorf("metadata kept %t, %d records: %s had %d bytes and has %d (%v)\n%s", kept, used, name, len(data), len(now), err, left.logged.String())
				}
			}
			if refused {
				continue
			}
			if entries, err := read(left.log, left.log.Start()); err != nil || len(entries) != 6 {
				t.Errorf("%d records used: %d of 6 are there: %v\n%s", used, len(entries), err, left.logged.String())
			}
		}
	}
}

// refusedUntil opens the log without a mark of a clean stop, which is refused, and then
// with the files that it had.
func (r *rig) refusedUntil(had *vfs.Mem, cp *partition.Checkpoint) {
	r.t.Helper()
	for range 2 {
		if err := r.tryOpen(cp, false); err == nil {
			r.t.Fatalf("it was opened after a crash")
		}
	}
	again := &rig{t: r.t, disk: r.disk.Clone(), cfg: r.cfg, now: r.now, eager: true}
	again.wrote = map[record.Offset]string{}
	for _, name := range again.disk.Files() {
		if strings.HasSuffix(name, ".log") {
			check(r.t, again.disk.Remove(name))
		}
	}
	for _, name := range had.Files() {
		if strings.Contains(path.Base(name), "0000") {
			data, err := had.ReadFile(name)
			check(r.t, errors.Join(err, again.disk.WriteFile(name, data)))
		}
	}
	again.open(cp, false)
	if entries, err := read(again.log, 0); err != nil || len(entries) != int(cp.Active.Next) {
		r.t.Errorf("%d of %d are there when the files are back: %v\n%s", len(entries), cp.Active.Next, err, again.logged.String())
	}
}

// A log of varve's that lost both files of its metadata is not taken for a copy
// while anything tells that it is none: its log start is not known.
func TestLostMetadataIsNoCopy(t *testing.T) {
	r := newRig(t, small(partition.Fsync))
	for range 14 {
		r.publish(1)
	}
	check(t, errors.Join(r.disk.Remove(dir+"/partition.json"), r.disk.Remove(dir+"/partition.json.copy")))
	before := r.disk.Clone()
	if err := r.tryOpen(nil, false); err == nil {
		t.Fatal("opened without metadata")
	}
	entries, err := before.ReadDir(dir)
	check(t, err)
	after, err := r.disk.ReadDir(dir)
	check(t, err)
	if len(entries) != len(after) {
		t.Errorf("there were %d files, now there are %d", len(entries), len(after))
	}
}

// Seals that belong to another log, or to one that had this one's directory before,
// are not believed: the answers are those without any.
func TestSealsOfAnotherLogAreNotBelieved(t *testing.T) {
	r := newRig(t, small(partition.Fsync))
	for range 17 {
		r.publish(1)
	}
	other := newRig(t, small(partition.Fsync))
	for n := range 30 { // other offsets, other segments
		other.publish(1 + n%4)
	}
	theirs, err := other.disk.ReadFile(dir + "/seals")
	check(t, err)
	ours, err := r.disk.ReadFile(dir + "/seals")
	check(t, err)
	if len(theirs) < 5*segment.SealSize {
		t.Fatalf("%d bytes of seals", len(theirs))
	}
	for name, seals := range map[string][]byte{
		"another's":            theirs,
		"another's, a part":    theirs[:3*segment.SealSize+7],
		"without a head":       theirs[segment.SealSize:],
		"head flipped":         append([]byte{ours[0] ^ 1}, ours[1:]...),
		"of no log":            make([]byte, 5*segment.SealSize),
		"ours, and as written": ours,
	} {
		m := r.disk.Clone()
		check(t, m.WriteFile(dir+"/seals", seals))
		left := r.after(m, nil)
		left.verify()
		if left.log.End() != 17 || left.log.Start() != 0 {
			t.Errorf("%s: there is [%d, %d)\n%s", name, left.log.Start(), left.log.End(), left.logged.String())
		}
		if said := left.logged.with("level=ERROR"); len(said) > 0 {
			t.Errorf("%s: %v", name, said)
		}
		for range 8 {
			left.publish(1)
		}
		again := left.after(left.disk.Clone(), nil)
		again.verify()
		if again.log.End() != 25 {
			t.Errorf("%s: the end is %d after a second start", name, again.log.End())
		}
	}
}

// Seals of the files that were there before others were taken over are not believed: no
// segment of theirs is missing.
func TestSealsOfBeforeATakeOverAreNotBelieved(t *testing.T) {
	r := newRig(t, small(partition.Fsync))
	for range 14 {
		r.publish(1)
	}
	cp, err := r.log.Close()
	check(t, err)
	put := copied(t, map[record.Offset][]record.Offset{100: {103, 109}, 130: {141}})
	for _, name := range put.Files() {
		data, err := put.ReadFile(name)
		check(t, errors.Join(err, r.disk.WriteFile(name, data)))
	}
	for _, name := range r.disk.Files() {
		if strings.HasSuffix(name, ".log") && !slices.Contains(put.Files(), name) {
			check(t, r.disk.Remove(name))
		}
	}
	check(t, errors.Join(r.disk.Remove(dir+"/partition.json"), r.disk.Remove(dir+"/partition.json.copy")))
	left := &rig{t: t, disk: r.disk, cfg: r.cfg, now: r.now, eager: true}
	left.wrote = map[record.Offset]string{}
	left.open(&cp, true)
	for range 2 {
		if entries, err := read(left.log, left.log.Start()); err != nil || len(entries) != 3 {
			t.Errorf("%d of 3 are there: %v\n%s", len(entries), err, left.logged.String())
		}
		if said := left.logged.with("segment is missing"); len(said) > 0 {
			t.Error(said)
		}
		left.open(nil, false)
	}
}

// A document of another log in one of the two files is not believed, and the log's own
// is not written over, whatever the generations: the head of the seals says which is
// which, and where there are none nothing does.
func TestMetadataOfAnotherLogIsNotBelieved(t *testing.T) {
	other := newRig(t, small(partition.Fsync))
	for range 20 {
		other.publish(1)
	}
	for before := record.Offset(3); before < 9; before++ {
		other.trim(before)
	}
	theirs, err := other.disk.ReadFile(dir + "/partition.json")
	check(t, err)
	for _, file := range []string{dir + "/partition.json", dir + "/partition.json.copy"} {
		for _, sealed := range []bool{true, false} {
			r := newRig(t, small(partition.Fsync))
			for range 14 {
				r.publish(1)
			}
			r.trim(1)
			if !sealed {
				check(t, r.disk.Remove(dir+"/seals"))
			}
			ours, err := r.disk.ReadFile(file)
			check(t, err)
			m := r.disk.Clone()
			check(t, m.WriteFile(file, theirs))
			left := &rig{book: r.book, t: t, disk: m, cfg: r.cfg, now: r.now, eager: true}
			in, err := partition.Inspect(m, dir, nil, partition.Left{})
			check(t, err)
			if len(in.Metadata) != 1 || sealed && in.Start != 1 {
				t.Errorf("%s, sealed %t: inspected, it begins at %d: %v", file, sealed, in.Start, in.Metadata)
			}
			err = left.tryOpen(nil, false)
			if !sealed {
				if err == nil || !strings.Contains(err.Error(), "partition.json and its copy are of different things") {
					t.Errorf("%s: %v", file, err)
				}
				if now, _ := m.ReadFile(file); !bytes.Equal(now, theirs) {
					t.Errorf("%s was changed", file)
				}
				check(t, m.WriteFile(file, ours))
				check(t, left.tryOpen(nil, false))
			}
			if err != nil && sealed {
				t.Fatalf("%s: %v", file, err)
			}
			if now, _ := m.ReadFile(file); !bytes.Equal(now, ours) {
				t.Errorf("%s, sealed %t: it is not what it was:\n%s%s", file, sealed, now, ours)
			}
			if entries, err := read(left.log, 1); err != nil || len(entries) != 13 {
				t.Errorf("%s, sealed %t: %d of 13 records: %v", file, sealed, len(entries), err)
			}
		}
	}
}

// A flipped bit of a base offset costs the batch it hit and no other, at the first start
// and later: the file is not refused, and what follows stands where it stood. Of the last
// batch of all nothing tells where it was; nor which of two it was where either is one
// bit away from what could be, which is rare where offsets are far apart.
func TestFlippedBaseOffsetInACopiedLog(t *testing.T) {
	near := map[record.Offset][]record.Offset{10: {13, 19, 22, 30, 31}, 40: {51, 60, 61}, 70: {71, 80, 90, 91}}
	far := map[record.Offset][]record.Offset{
		10_000: {10_013, 13_391, 14_222, 17_130, 19_313}, 20_000: {24_521, 29_160}, 40_000: {40_071, 51_804, 75_097, 91_005},
	}
	for name, files := range map[string]map[record.Offset][]record.Offset{"near": near, "far": far} {
		var all []record.Offset
		for _, offsets := range files {
			all = append(all, offsets...)
		}
		slices.Sort(all)
		flips, confused := 0, 0
		for base, offsets := range files {
			for i, hit := range offsets {
				for bit := range 64 {
					if hit == all[len(all)-1] {
						continue
					}
					disk := copied(t, files)
					file := fmt.Sprintf("%s/%020d.log", dir, base)
					info, err := disk.Stat(file)
					check(t, err)
					check(t, disk.FlipBit(file, 8*info.Size()/int64(len(offsets))*int64(i)+int64(bit^7)))
					flips++
					if flippedBase(t, disk, all, hit, hit^1<<(63-bit)) {
						confused++
					}
				}
			}
		}
		if confused > flips/100 {
			t.Errorf("%s: of %d flips %d were blamed on a neighbour", name, flips, confused)
		}
	}
}

// flippedBase opens a copied log, one base offset of which was flipped, three times. It
// says whether the batch in front or behind was blamed for it.
func flippedBase(t *testing.T, disk *vfs.Mem, all []record.Offset, hit, flipped record.Offset) (confused bool) {
	r := &rig{t: t, disk: disk, cfg: small(partition.Fsync), now: 1_700_000_000_000, eager: true}
	r.wrote = map[record.Offset]string{}
	for start := range 3 {
		r.open(nil, false)
		entries, _ := readPast(t, r.log, r.log.Start())
		right, wrong := 0, 0
		for _, e := range entries {
			if e.val == fmt.Sprint("v", e.off) {
				right++
			} else if wrong++; e.off != flipped {
				t.Errorf("offset %d holds %s", e.off, e.val)
			}
		}
		if right < len(all)-1 {
			if confused = true; right < len(all)-2 || wrong == 0 {
				t.Errorf("%d became %d, start %d: %d records of %d\n%s", hit, flipped, start, right, len(all), r.logged.String())
			}
		}
		if start == 1 {
			disk.Remove(dir + "/seals")
		}
	}
	return confused
}
