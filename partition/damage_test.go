package partition_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// gap is a range of offsets that a reader was told it cannot have.
type gap struct{ from, to offset }

// readPast reads from an offset on and goes on behind damage, as a reader does.
func readPast(t tb, l *partition.Log, from offset) (entries []entry, gaps []gap) {
	t.Helper()
	for range 1000 {
		got, err := read(l, from)
		entries = append(entries, got...)
		if err == nil {
			return entries, gaps
		}
		var ce *segment.CorruptError
		if !errors.As(err, &ce) {
			t.Fatalf("read: %v", err)
		}
		if n := len(got); n > 0 {
			from = got[n-1].off + 1
		}
		if ce.To <= from || ce.From > ce.To || ce.Path == "" || ce.Reason == "" {
			t.Fatalf("reading at %d says %#v", from, ce)
		}
		gaps = append(gaps, gap{max(from, ce.From), ce.To})
		from = ce.To
	}
	t.Fatalf("reading does not end")
	return nil, nil
}

// damaged is a log of five segments of three records each and an active one of two,
// and a checkpoint that covers all of them.
func damaged(t tb, level partition.Level) (*rig, *partition.Checkpoint) {
	r := newRig(t, small(level))
	for range 17 {
		r.publish(1)
	}
	r.tidy()
	cp := r.snapshot()
	return r, cp
}

// TestDamageIsConfined damages each segment of a log in each way. The batches that
// were hit are a gap that readers are told once, with file and offsets; all others
// are served, those of later segments too; the log start, the next offset and the
// appends are what they were.
func TestDamageIsConfined(t *testing.T) {
	const first, second, third = 8 * 70, 8 * 150, 8 * 230 // bits inside the batches of a segment
	ways := map[string]struct {
		do   func(m *vfs.Mem, file string) error
		lost func(batches int) (from, to int) // of the batches of the segment
	}{
		"first batch":  {func(m *vfs.Mem, f string) error { return m.FlipBit(f, first) }, func(int) (int, int) { return 0, 1 }},
		"second batch": {func(m *vfs.Mem, f string) error { return m.FlipBit(f, second) }, func(int) (int, int) { return 1, 2 }},
		"third batch": {func(m *vfs.Mem, f string) error {
			if err := m.FlipBit(f, third); err != nil {
				return nil // the active one has two
			}
			return nil
		}, func(n int) (int, int) { return min(2, n), n }},
		"length of the second":      {func(m *vfs.Mem, f string) error { return m.FlipBit(f, 8*(80+10)+1) }, func(int) (int, int) { return 1, 2 }},
		"base offset of the second": {func(m *vfs.Mem, f string) error { return m.FlipBit(f, 8*(80+7)+6) }, func(int) (int, int) { return 1, 2 }},
		"missing":                   {func(m *vfs.Mem, f string) error { return m.Remove(f) }, func(n int) (int, int) { return 0, n }},
		"empty":                     {func(m *vfs.Mem, f string) error { return m.Truncate(f, 0) }, func(n int) (int, int) { return 0, n }},
		"zeros":                     {func(m *vfs.Mem, f string) error { return m.WriteFile(f, make([]byte, 240)) }, func(n int) (int, int) { return 0, n }},
		"shorter by a batch": {func(m *vfs.Mem, f string) error {
			data, err := m.ReadFile(f)
			return errors.Join(err, m.Truncate(f, int64(len(data)-80)))
		}, func(n int) (int, int) { return n - 1, n }},
		"shorter by a byte": {func(m *vfs.Mem, f string) error {
			data, err := m.ReadFile(f)
			return errors.Join(err, m.Truncate(f, int64(len(data)-1)))
		}, func(n int) (int, int) { return n - 1, n }},
		"garbage behind": {func(m *vfs.Mem, f string) error {
			data, err := m.ReadFile(f)
			return errors.Join(err, m.WriteFile(f, append(data, "garbage"...)))
		}, func(int) (int, int) { return 0, 0 }},
	}
	for name, way := range ways {
		for _, level := range []partition.Level{partition.Fsync, partition.OS} {
			for _, stop := range []string{"clean", "unclean", "unclean, no seals"} {
				for base := offset(0); base < 17; base += 3 {
					t.Run(fmt.Sprintf("%s of %d, %s, %s", name, base, level, stop), func(t *testing.T) {
						r, cp := damaged(t, level)
						if stop == "clean" {
							last, err := r.log.Close()
							check(t, err)
							cp = &last
						}
						m := r.disk.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept, Names: vfs.NamesKept})
						if stop == "unclean, no seals" {
							check(t, m.Remove(dir+"/seals"))
						}
						check(t, way.do(m, fmt.Sprintf("%s/%020d.log", dir, base)))
						batches := int(min(base+3, 17) - base)
						from, to := way.lost(batches)
						checkConfined(t, r, m, cp, stop == "clean", gap{base + offset(from), base + offset(to)})
					})
				}
			}
		}
	}
}

func checkConfined(t *testing.T, r *rig, m *vfs.Mem, cp *partition.Checkpoint, clean bool, lost gap) {
	left := &rig{book: r.book, t: t, disk: m, cfg: r.cfg, now: r.now, eager: true}
	left.open(cp, clean)
	if left.log.Start() != 0 || left.log.End() != 17 {
		t.Errorf("there is [%d, %d)", left.log.Start(), left.log.End())
	}
	for from := range offset(17) {
		entries, gaps := readPast(t, left.log, from)
		for i, e := range entries {
			if e.val != r.wrote[e.off] {
				t.Errorf("offset %d holds %s, it was %s", e.off, e.val, r.wrote[e.off])
			}
			if e.off >= lost.from && e.off < lost.to {
				t.Errorf("offset %d is served and lost", e.off)
			}
			if i > 0 && e.off <= entries[i-1].off {
				t.Errorf("offset %d comes behind %d", e.off, entries[i-1].off)
			}
		}
		want := 17 - from
		if lost.to > from {
			want -= lost.to - max(lost.from, from)
		}
		if offset(len(entries)) < want {
			t.Errorf("from %d there are %d records, expected %d; gaps %v\n%s", from, len(entries), want, gaps, left.logged.String())
		}
		if told := len(gaps) > 0; told != (max(lost.from, from) < lost.to) {
			t.Errorf("from %d: gaps %v, lost is %v", from, gaps, lost)
		}
	}
	if t.Failed() {
		return
	}
	for i := range 4 {
		if s := left.publish(1, durably); s.Err != nil || s.Base != offset(17+i) {
			t.Errorf("the next record got offset %d (%v)", s.Base, s.Err)
		}
	}
	entries, gaps := readPast(t, left.log, 17)
	if len(entries) != 4 || len(gaps) != 0 {
		t.Errorf("behind it there are %v, gaps %v", entries, gaps)
	}
	if off, found, err := left.log.FindTime(1000, 0); err != nil || !found || off < 0 {
		t.Errorf("looking up a time gives %d, %t, %v", off, found, err)
	}
	// A second start, from its own checkpoint, says the same.
	cp2 := left.snapshot()
	again := &rig{book: left.book, t: t, disk: m.Clone(), cfg: r.cfg, now: r.now, eager: true}
	again.open(cp2, false)
	first, gaps1 := readPast(t, left.log, 0)
	second, gaps2 := readPast(t, again.log, 0)
	if fmt.Sprint(first, gaps1) != fmt.Sprint(second, gaps2) {
		t.Errorf("the next start says\n%v %v, it was\n%v %v", second, gaps2, first, gaps1)
	}
	// Retention goes past the damage, and it goes with it.
	left.trim(18)
	left.verify()
	for _, f := range m.Files() {
		if strings.HasPrefix(f, dir+"/0000000000000000000") && !strings.HasSuffix(f, "7.log") && strings.HasSuffix(f, ".log") {
			t.Errorf("%s is still there", f)
		}
	}
}

// What is missing is said at the start, in one line that names the file or the
// offsets.
func TestMissingIsSaidAtTheStart(t *testing.T) {
	for _, base := range []offset{0, 6, 15} {
		for _, seals := range []bool{true, false} {
			r, cp := damaged(t, partition.Fsync)
			m := r.disk.Clone()
			check(t, m.Remove(fmt.Sprintf("%s/%020d.log", dir, base)))
			if !seals {
				check(t, m.Remove(dir+"/seals"))
			}
			left := r.after(m, cp)
			lines := left.logged.with("level=ERROR", "missing", fmt.Sprintf("from=%d to=%d", base, min(base+3, 17)))
			if len(lines) != 1 {
				t.Errorf("segment %d, seals %t: the log says\n%s", base, seals, left.logged.String())
			}
		}
	}
}

// A sealed segment that cannot be read is an error of the reader, and of nobody
// else: appends go on, and so does reading once the disk does. (nats-server#8037)
func TestReadErrorIsTheReadersOwn(t *testing.T) {
	sick := false
	r := newRig(t, small(partition.Fsync), func(r *rig) {
		r.rule = func(op vfs.Op) vfs.Fault {
			if sick && (op.Kind == vfs.OpRead || op.Kind == vfs.OpMap) && strings.HasSuffix(op.Name, "3.log") {
				return vfs.Fault{Err: syscall.EIO}
			}
			return vfs.Fault{}
		}
	})
	for range 8 {
		r.publish(1)
	}
	sick = true
	var ce *segment.CorruptError
	if _, err := read(r.log, 4); !errors.Is(err, syscall.EIO) || errors.As(err, &ce) {
		t.Errorf("reading gives %v", err)
	}
	if s := r.publish(1); s.Err != nil {
		t.Errorf("appending gives %v", s.Err)
	}
	if got, err := read(r.log, 6); err != nil || len(got) != 3 {
		t.Errorf("behind it there is %v (%v)", got, err)
	}
	if err := r.log.Failed(); err != nil {
		t.Error(err)
	}
	sick = false
	r.verify()
}

// A batch that was put at a wrong place, or into a wrong file, is never returned.
func TestMisplacedBatchIsNoticed(t *testing.T) {
	r, cp := damaged(t, partition.Fsync)
	m := r.disk.Clone()
	name := func(base int) string { return fmt.Sprintf("%s/%020d.log", dir, base) }
	six, err := m.ReadFile(name(6))
	check(t, err)
	nine, err := m.ReadFile(name(9))
	check(t, err)
	copy(six[80:160], nine[80:160]) // a good batch of another segment
	check(t, m.WriteFile(name(6), six))
	three, err := m.ReadFile(name(3))
	check(t, err)
	copy(three[80:160], three[:80]) // a good batch of another place
	check(t, m.WriteFile(name(3), three))
	left := r.after(m, cp)
	entries, gaps := readPast(t, left.log, 0)
	for _, e := range entries {
		if e.val != r.wrote[e.off] {
			t.Errorf("offset %d holds %s, it was %s", e.off, e.val, r.wrote[e.off])
		}
	}
	if len(entries) != 15 || len(gaps) != 2 {
		t.Errorf("there are %d records and gaps %v", len(entries), gaps)
	}
	b, err := record.Parse(nine)
	check(t, err)
	if b.BaseOffset != 9 {
		t.Fatalf("the test reads the wrong file: base offset %d", b.BaseOffset)
	}
}

// A seal that does not check keeps its place: the seals of segments that are
// finished later stand behind all others, and none is lost for it.
func TestDamagedSealCostsNoOther(t *testing.T) {
	r, cp := damaged(t, partition.Fsync)
	m := r.disk.Clone()
	check(t, m.FlipBit(dir+"/seals", 8*segment.SealSize+100)) // of the second
	left := r.after(m, cp)
	for range 6 {
		left.publish(1)
	}
	data, err := m.ReadFile(dir + "/seals")
	check(t, err)
	sealed := map[offset]bool{}
	for ; len(data) >= segment.SealSize; data = data[segment.SealSize:] {
		if s, err := segment.DecodeSeal(data); err == nil {
			sealed[s.Base] = true
		}
	}
	for _, s := range left.log.Stats().Segments {
		if s.Sealed && !sealed[s.Base] {
			t.Errorf("the seal of segment %d is lost; there are %v", s.Base, sealed)
		}
	}
}

// A damaged segment takes no appends, also where it is the last file there is.
func TestDamagedLastFileTakesNoAppends(t *testing.T) {
	for _, behind := range []int{0, 2} { // records in the file that is gone
		r := newRig(t, small(partition.Fsync))
		for range 14 {
			r.publish(1)
		}
		rollByAge(r)
		for range behind {
			r.publish(1)
		}
		cp := r.snapshot()
		m := r.disk.Clone()
		check(t, m.Remove(fmt.Sprintf("%s/%020d.log", dir, 14)))
		check(t, m.Remove(dir+"/seals"))
		check(t, m.FlipBit(fmt.Sprintf("%s/%020d.log", dir, 12), 8*150))
		left := r.after(m, cp)
		end := offset(14 + behind)
		for i := range 4 {
			if s := left.publish(1); s.Err != nil || s.Base != end+offset(i) {
				t.Errorf("the next record got offset %d (%v)", s.Base, s.Err)
			}
		}
		for _, seg := range left.log.Stats().Segments {
			if seg.Base == 12 && (seg.Next > 14 || seg.Bytes != 160) {
				t.Errorf("the damaged segment was appended to: %+v", seg)
			}
		}
		entries, gaps := readPast(t, left.log, 0)
		if len(entries) != 13+4 {
			t.Errorf("there are %d records, gaps %v", len(entries), gaps)
		}
		if got, err := read(left.log, end); err != nil || len(got) != 4 {
			t.Errorf("behind it there are %v (%v)", got, err)
		}
	}
}

// What recovery has cut away does not come back with the next power cut, when its
// offsets are in another file.
func TestCutSegmentsStayAway(t *testing.T) {
	r := newRig(t, small(partition.OS), func(r *rig) { r.eager = false })
	r.publish(1)
	cp := r.snapshot()
	for range 5 {
		r.publish(1)
	}
	m := r.disk.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept, Names: vfs.NamesKept})
	check(t, m.Truncate(dir+"/00000000000000000000.log", 100)) // the second batch is torn, a segment stands behind
	left := r.after(m, cp)
	if left.log.End() != 1 {
		t.Fatalf("the end is %d", left.log.End())
	}
	left.high, left.told = 1, 1
	left.cfg.SegmentBytes = 1 << 20 // so that the first file grows over the offsets of the second
	check(t, left.log.Configure(left.cfg))
	for range 4 {
		left.publish(1, durably)
	}
	before := left.book
	again := left.after(m.Crash(vfs.CrashOptions{}), nil)
	again.checkRecovered(before)
}

// A flipped bit of a leader epoch costs the batch it hit and no other, where neither
// a seal nor a checkpoint tells what the epochs were. At the ends of a segment nothing
// in it says that it did not change there.
func TestFlippedEpochCostsOneBatch(t *testing.T) {
	cfg := small(partition.Fsync)
	cfg.SegmentBytes = 800
	r := newRig(t, cfg)
	for n := range 25 {
		if n == 4 || n == 14 { // leader epochs change in the middle of segments
			r.open(nil, false)
		}
		r.publish(1)
	}
	epoch := func(off offset) uint32 {
		switch {
		case off < 4:
			return 0
		case off < 14:
			return 1
		}
		return 2
	}
	segments := r.log.Stats().Segments
	check(t, r.disk.Remove(dir+"/seals"))
	for i, seg := range segments {
		name := fmt.Sprintf("%s/%020d.log", dir, seg.Base)
		data, err := r.disk.ReadFile(name)
		check(t, err)
		off := seg.Base
		for pos := 0; pos < len(data); off++ {
			for bit := range 32 {
				last := i == len(segments)-1
				flipped := epoch(off) ^ 1<<(31-bit)
				if last && int32(flipped) < int32(epoch(off)) {
					continue // below the epoch in front, at the end: torn, for all that is known
				}
				m := r.disk.Clone()
				check(t, m.FlipBit(name, int64(8*(pos+12)+bit^7)))
				left := &rig{book: r.book, t: t, disk: m, cfg: r.cfg, now: r.now, eager: true}
				left.open(nil, false)
				entries, gaps := readPast(t, left.log, 0)
				if (off == seg.Next-1 || off == seg.Base) && len(entries) >= 24 {
					continue
				}
				if len(entries) == 25 && (flipped == epoch(off-1) || flipped == epoch(off+1)) {
					continue // where the epoch changes, one batch earlier or later
				}
				hit := off
				if len(gaps) == 1 && gaps[0].from == off-1 && flipped < epoch(off) {
					hit = off - 1 // of the first two of an epoch nothing tells which it was
				}
				if len(entries) != 24 || !slices.Equal(gaps, []gap{{hit, hit + 1}}) {
					t.Fatalf("bit %d of the epoch of batch %d: %d records of 25, gaps %v", bit, off, len(entries), gaps)
				}
			}
			size, err := record.PeekSize(data[pos:])
			check(t, err)
			pos += int(size)
		}
	}
}
