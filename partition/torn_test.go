package partition_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
)

// TestTornTailIsCut cuts the active file at every byte of its last two batches, and
// puts there what a disk may leave instead: nothing, zeros, bytes of an earlier life
// of the disk, of which some are whole batches, and values that are batches. Without
// a mark that says how far the file was durable the log ends with the last batch
// that is whole, one line says how much was cut, and it goes on from there.
func TestTornTailIsCut(t *testing.T) {
	earlier := func(n int) []byte { // batches of another file
		b := batchOf(record.None, "of an earlier life", "of the disk")
		raw := bytes.Clone(b.Bytes())
		record.SetBaseOffset(raw, 1)
		return bytes.Repeat(raw, n/len(raw)+1)[:n]
	}
	rng := rand.New(rand.NewPCG(3, 4))
	tails := map[string]func(n int) []byte{
		"cut":     func(int) []byte { return nil },
		"zeros":   func(n int) []byte { return make([]byte, n) },
		"page":    func(int) []byte { return make([]byte, 4096) },
		"earlier": earlier,
		"random": func(n int) []byte {
			b := make([]byte, n)
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			return b
		},
	}
	for name, tail := range tails {
		for _, level := range []partition.Level{partition.Fsync, partition.OS} {
			t.Run(fmt.Sprintf("%s at %s", name, level), func(t *testing.T) {
				cfg := small(level)
				cfg.SegmentBytes = 1 << 20
				r := newRig(t, cfg)
				r.publish(1)
				r.publish(1, inner)
				whole := []int64{0, int64(batchSize(t, r, 0)), 0, 0, 0}
				r.publish(1, inner)
				r.publish(2)
				const file = dir + "/00000000000000000000.log"
				data, err := r.disk.ReadFile(file)
				check(t, err)
				for i := 2; i < len(whole); i++ {
					whole[i] = whole[i-1] + int64(batchSize(t, r, whole[i-1]))
				}
				for at := whole[2]; at < int64(len(data)); at++ {
					m := r.disk.Clone()
					garbage := tail(len(data) - int(at))
					check(t, m.WriteFile(file, append(bytes.Clone(data[:at]), garbage...)))
					tornAt(t, r, m, at, whole, garbage)
					if t.Failed() {
						t.Fatalf("cut at byte %d of %d", at, len(data))
					}
				}
			})
		}
	}
}

// inner gives a record a key that is a whole record batch.
func inner(a *partition.Append) {
	b := batchOf(record.None, "inside a value")
	raw := bytes.Clone(b.Bytes())
	record.SetBaseOffset(raw, 2)
	a.Records[0].Key = raw
	a.Size += len(raw)
}

func batchSize(t *testing.T, r *rig, at int64) int {
	data, err := r.disk.ReadFile(dir + "/00000000000000000000.log")
	check(t, err)
	b, err := record.Parse(data[at:])
	check(t, err)
	return b.Size()
}

func tornAt(t *testing.T, r *rig, m *vfs.Mem, at int64, whole []int64, garbage []byte) {
	last, end := int64(0), offset(0)
	before, err := r.disk.ReadFile(dir + "/00000000000000000000.log")
	check(t, err)
	torn, err := m.ReadFile(dir + "/00000000000000000000.log")
	check(t, err)
	for i, pos := range whole { // what is there instead may happen to be the same
		if pos <= int64(len(torn)) && bytes.Equal(torn[:pos], before[:pos]) {
			last, end = pos, []offset{0, 1, 2, 3, 5}[i]
		}
	}
	left := r.after(m, nil)
	if left.log.End() != end || left.log.LogEnd() != end {
		t.Errorf("the end is %d, the last whole batch ends at %d", left.log.End(), end)
	}
	left.verify()
	const file = dir + "/00000000000000000000.log"
	if data, err := m.ReadFile(file); err != nil || int64(len(data)) != last {
		t.Errorf("the file has %d bytes (%v), its batches %d", len(data), err, last)
	}
	cut := at + int64(len(garbage)) - last
	lines := left.logged.with("level=")
	switch {
	case cut == 0 && len(lines) != 0:
		t.Errorf("nothing was cut and the log says %v", lines)
	case cut > 0 && (len(lines) != 1 || !strings.Contains(lines[0], fmt.Sprintf("bytes=%d ", cut)) || !strings.Contains(lines[0], "level=WARN")):
		t.Errorf("%d bytes were cut and the log says %v", cut, lines)
	}
	left.high, left.told = end, end
	if s := left.publish(1, durably); s.Err != nil || s.Base != end {
		t.Errorf("the next record got offset %d: %v", s.Base, s.Err)
	}
	again := left.after(m.Crash(vfs.CrashOptions{}), nil)
	again.verify()
	if lines := again.logged.with("level="); len(lines) != 0 || again.log.End() != end+1 {
		t.Errorf("the start after that ends at %d and says %v", again.log.End(), lines)
	}
}

func durably(a *partition.Append) { a.Ack = partition.Fsync }

// A torn end in a file that a roll had just made loses that file's bytes and no more.
// What a crash left of the name alone goes without a trace.
func TestTornNewSegmentIsCut(t *testing.T) {
	for at := range 81 {
		r := newRig(t, small(partition.Fsync))
		r.eager = false
		for range 3 {
			r.publish(1)
			r.sync()
		}
		r.publish(1) // rolls, and is not acknowledged
		const file = dir + "/00000000000000000003.log"
		m := r.disk.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept, Names: vfs.NamesKept})
		data, err := m.ReadFile(file)
		check(t, err)
		if len(data) != 80 {
			t.Fatalf("the new file has %d bytes", len(data))
		}
		check(t, m.Truncate(file, int64(at)))
		left := r.after(m, nil)
		want := offset(3)
		if at == 80 {
			want = 4
		}
		if left.log.End() != want {
			t.Errorf("%d bytes of the new file: the end is %d", at, left.log.End())
		}
		if lines := left.logged.with("level=ERROR"); len(lines) > 0 {
			t.Errorf("%d bytes of the new file: %v", at, lines)
		}
		if lines := left.logged.with("level=WARN", fmt.Sprintf("bytes=%d", at)); 0 < at && at < 80 && len(lines) != 1 {
			t.Errorf("%d bytes of the new file were cut and the log says %s", at, left.logged.String())
		}
		left.verify()
		left.goOn()
	}
}

// A clean stop says how long the file is: bytes behind that are cut, and the log
// says so, whatever they are.
func TestBytesBehindACleanEndAreCut(t *testing.T) {
	for _, garbage := range []int{1, 60, 80, 5000} {
		for _, records := range []int{0, 1, 3, 4} {
			r := newRig(t, small(partition.Fsync))
			for range records {
				r.publish(1)
			}
			if records == 3 {
				rollByAge(r)
			}
			cp, err := r.log.Close()
			check(t, err)
			m := r.disk.Clone()
			var newest string
			for _, f := range m.Files() {
				if strings.HasSuffix(f, ".log") {
					newest = f
				}
			}
			if newest == "" {
				continue
			}
			data, err := m.ReadFile(newest)
			check(t, err)
			check(t, m.WriteFile(newest, append(data, bytes.Repeat([]byte{0xaa}, garbage)...)))
			left := &rig{book: r.book, t: t, disk: m, cfg: r.cfg, now: r.now, eager: true}
			if records == 3 { // in a file that had no batch yet: somebody's, damaged perhaps
				if err := left.tryOpen(&cp, true); err == nil {
					t.Errorf("%d bytes in a file that had none are believed", garbage)
				}
				if after, err := m.ReadFile(newest); err != nil || len(after) != garbage {
					t.Errorf("%d bytes of %d are left (%v)", len(after), garbage, err)
				}
				continue
			}
			left.open(&cp, true)
			if len(left.logged.with("level=WARN", fmt.Sprintf("bytes=%d", garbage))) != 1 {
				t.Errorf("%d records and %d bytes: the log says %s", records, garbage, left.logged.String())
			}
			for i := range 5 {
				if s := left.publish(1); s.Err != nil || s.Base != offset(records+i) {
					t.Errorf("%d records and %d bytes: got offset %d (%v)", records, garbage, s.Base, s.Err)
				}
			}
			left.verify()
			left.restart()
			left.verify()
		}
	}
}

// On a weak level a segment that was finished says that those in front of it were, though
// the seal of one of them is gone: what does not check there is damage, and nothing behind
// it is cut.
func TestSealedSegmentsBehindADamagedOne(t *testing.T) {
	r := newRig(t, small(partition.OS))
	for range 14 {
		r.publish(1)
	}
	r.sync()
	const places = 80
	check(t, r.disk.FlipBit(dir+"/seals", 8*places+100)) // the seal of the first segment, behind the head
	check(t, r.disk.FlipBit(dir+"/00000000000000000000.log", 8*130))
	left := &rig{book: r.book, t: t, disk: r.disk, cfg: r.cfg, now: r.now, eager: true}
	left.open(nil, false)
	entries, gaps := readPast(t, left.log, 0)
	if len(gaps) != 1 || gaps[0] != (gap{1, 2}) || len(entries) < 11 {
		t.Errorf("%d of 14 records are there, and gaps %v\n%s", len(entries), gaps, left.logged.String())
	}
}
