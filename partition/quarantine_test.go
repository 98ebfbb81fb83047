package partition_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
)

const inflated = 1 << 20

var keeper = partition.Keeper{Dir: partition.QuarantineName, Now: time.UnixMilli(1_700_000_000_000)}

func survey(t tb, fsys vfs.FS, cp *partition.Checkpoint) *partition.Quarantine {
	t.Helper()
	q, err := partition.Survey(fsys, slog.New(slog.DiscardHandler), "t/0", dir, cp, inflated)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return q
}

// stopped is the disk of a log that was stopped cleanly, and what the stop kept of it.
func stopped(t tb, r *rig) (*vfs.Mem, *partition.Checkpoint) {
	t.Helper()
	r.tidy()
	cp, err := r.log.Close()
	if err != nil {
		t.Fatalf("%v", err)
	}
	return r.disk.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept, Names: vfs.NamesKept}), &cp
}

// reopened is what readers are given of a log after an unclean stop.
func (r *rig) reopened(t tb, m *vfs.Mem, cp *partition.Checkpoint) (left *rig, entries []entry, gaps []gap) {
	t.Helper()
	left = &rig{book: r.book, t: t, disk: m, cfg: r.cfg, now: r.now, eager: true}
	left.open(cp, false)
	entries, gaps = readPast(t, left.log, left.log.Start())
	for i := range entries {
		entries[i].epoch = 0
	}
	return left, entries, gaps
}

// checkKept sees that the bytes of a damaged disk are in files of their own.
func checkKept(t tb, m, damaged *vfs.Mem, found []partition.Damage) {
	t.Helper()
	for _, d := range found {
		if d.IsMissing() {
			continue
		}
		old, err := damaged.ReadFile(fmt.Sprintf("%s/%020d.log", dir, d.Base))
		if err != nil {
			t.Fatalf("%v", err)
		}
		stem := fmt.Sprintf("quarantine/t-0-%020d-position-%d-to-%d", d.Base, d.At, d.End-1)
		if d.From < d.To {
			stem += fmt.Sprintf("-offsets-%d-to-%d", d.From, d.To-1)
		}
		kept, err := m.ReadFile(stem + ".bytes")
		if err != nil || !bytes.Equal(kept, old[d.At:d.End]) {
			t.Errorf("%v: kept are %d bytes of %d (%v)", d, len(kept), d.End-d.At, err)
		}
		if doc, err := m.ReadFile(stem + ".json"); err != nil || !bytes.Contains(doc, fmt.Appendf(nil, `"position": %d,`, d.At)) {
			t.Errorf("%v: it is described by %q (%v)", d, doc, err)
		}
	}
}

// checkSetAside sets all damage of a stopped log aside: what could be read before can be
// read after it, under the same offsets, and nothing else is told of, or can be found.
func (r *rig) checkSetAside(t tb, m *vfs.Mem, cp *partition.Checkpoint) []partition.Damage {
	t.Helper()
	damaged := m.Clone()
	_, before, told := r.reopened(t, m.Clone(), cp)
	q := survey(t, m, cp)
	found := q.Found
	if len(found) == 0 {
		if len(told) > 0 {
			t.Errorf("readers are told of %v, and nothing is found", told)
		}
		q.Close()
		return nil
	}
	kept, err := q.SetAside(keeper)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for i, d := range found {
		if (kept[i] == "") != d.IsMissing() {
			t.Errorf("%v is kept in %q", d, kept[i])
		}
	}
	q.Close()
	checkKept(t, m, damaged, found)
	left := r.checkClean(t, m, cp, before, found)
	// Also where the checkpoint is lost.
	if lost, _, gaps := r.reopened(t, m.Clone(), nil); len(gaps) > 0 || lost.log.End() != cp.Active.Next {
		t.Errorf("without a checkpoint the end is %d, gaps %v", lost.log.End(), gaps)
	}
	first := left.log.End()
	if s := left.publish(1); s.Err != nil || s.Base != first {
		t.Errorf("the next record has offset %d (%v), the end was %d", s.Base, s.Err, first)
	}
	last, cp2 := stopped(t, left)
	q = survey(t, last, cp2)
	defer q.Close()
	if len(q.Found) > 0 {
		t.Errorf("found after it: %v", q.Found)
	}
	return found
}

// checkClean opens a log without damage, from which some was taken.
func (r *rig) checkClean(t tb, m *vfs.Mem, cp *partition.Checkpoint, before []entry, found []partition.Damage) *rig {
	t.Helper()
	left, after, gaps := r.reopened(t, m, cp)
	if left.log.Start() != cp.Start || left.log.End() != cp.Active.Next {
		t.Errorf("there is [%d, %d), there was [%d, %d)", left.log.Start(), left.log.End(), cp.Start, cp.Active.Next)
	}
	if len(gaps) > 0 {
		t.Errorf("readers are still told of %v; found was %v", gaps, found)
	}
	there := map[offset]bool{}
	for _, e := range after {
		there[e.off] = true
		if e.val != r.wrote[e.off] {
			t.Errorf("offset %d holds %q, it was %q", e.off, e.val, r.wrote[e.off])
		}
	}
	for _, e := range before {
		// What an iteration of records gives before it fails goes with its batch.
		if !there[e.off] && !inAny(found, e.off) {
			t.Errorf("offset %d could be read and is gone; found was %v", e.off, found)
		}
	}
	for off := left.log.Start(); off < left.log.End(); off++ {
		if there[off] == inAny(found, off) {
			t.Errorf("offset %d: there %t; found was %v", off, there[off], found)
		}
	}
	for _, level := range []string{"level=ERROR", "level=WARN"} {
		for _, line := range left.logged.with(level) {
			if !strings.Contains(line, "being set aside at the stop") && !strings.Contains(line, "restored from its copy") {
				t.Errorf("logged: %s", line)
			}
		}
	}
	for _, f := range m.Files() {
		if strings.HasSuffix(f, ".swap") {
			t.Errorf("%s is left", f)
		}
	}
	return left
}

func inAny(found []partition.Damage, off offset) bool {
	return slices.ContainsFunc(found, func(d partition.Damage) bool { return d.From <= off && off < d.To })
}

// batched is a log of some segments of several batches of three records each, compressed
// or not.
func batched(t tb, codec record.Codec) *rig {
	cfg := small(partition.Fsync)
	cfg.SegmentBytes = 700
	r := newRig(t, cfg)
	for range 14 {
		r.publish(3, func(a *partition.Append) { a.Codec = codec })
	}
	return r
}

func logFiles(m *vfs.Mem) (files []string) {
	for _, f := range m.Files() {
		if data, _ := m.ReadFile(f); strings.HasSuffix(f, ".log") && len(data) > 0 {
			files = append(files, f)
		}
	}
	return files
}

// TestQuarantineOfAnyFlippedBit flips a bit in each byte of a log in turn.
func TestQuarantineOfAnyFlippedBit(t *testing.T) {
	for name, codec := range map[string]record.Codec{"plain": record.None, "zstd": record.Zstd} {
		t.Run(name, func(t *testing.T) {
			r := batched(t, codec)
			whole, cp := stopped(t, r)
			files := logFiles(whole)
			if len(files) < 3 {
				t.Fatalf("there are only the segments %v", files)
			}
			q := survey(t, whole.Clone(), cp)
			if len(q.Found) > 0 {
				t.Fatalf("found in a whole log: %v", q.Found)
			}
			q.Close()
			for _, f := range files {
				data, _ := whole.ReadFile(f)
				for at := 0; at < len(data); at += thin() {
					m := whole.Clone()
					check(t, m.FlipBit(f, int64(8*at+(at*5)%8)))
					what := trial{t, fmt.Sprintf("byte %d of %s", at, f)}
					if found := r.checkSetAside(what, m, cp); len(found) != 1 {
						what.Errorf("found %v", found)
					}
					if t.Failed() {
						t.FailNow()
					}
				}
			}
		})
	}
}

// TestQuarantineOfSeveral damages a log in several places at once, and in ways that leave
// nothing of some bytes.
func TestQuarantineOfSeveral(t *testing.T) {
	flip := func(base offset, at int) func(m *vfs.Mem) error {
		return func(m *vfs.Mem) error { return m.FlipBit(fmt.Sprintf("%s/%020d.log", dir, base), int64(8*at)) }
	}
	file := func(base offset) string { return fmt.Sprintf("%s/%020d.log", dir, base) }
	type way = func(m *vfs.Mem) error
	for name, c := range map[string]struct {
		ways    []way
		lost    []gap // of the offsets
		missing int
	}{
		"first and last of a segment":    {[]way{flip(3, 70), flip(3, 230)}, []gap{{3, 4}, {5, 6}}, 0},
		"all of a segment":               {[]way{flip(3, 70), flip(3, 150), flip(3, 230)}, []gap{{3, 6}}, 0},
		"first segment":                  {[]way{flip(0, 70), flip(0, 150), flip(0, 230)}, []gap{{0, 3}}, 0},
		"first of the log":               {[]way{flip(0, 70)}, []gap{{0, 1}}, 0},
		"first of the active segment":    {[]way{flip(15, 70)}, []gap{{15, 16}}, 0},
		"last of the log":                {[]way{flip(15, 150)}, []gap{{16, 17}}, 0},
		"all of the active segment":      {[]way{flip(15, 70), flip(15, 150)}, []gap{{15, 17}}, 0},
		"the end over two segments":      {[]way{flip(12, 230), flip(15, 70), flip(15, 150)}, []gap{{14, 17}}, 0},
		"one in each segment":            {[]way{flip(0, 150), flip(3, 70), flip(6, 230), flip(9, 150), flip(12, 70), flip(15, 70)}, []gap{{1, 2}, {3, 4}, {8, 9}, {10, 11}, {12, 13}, {15, 16}}, 0},
		"a length, and a base offset":    {[]way{flip(3, 90), flip(9, 87)}, []gap{{4, 5}, {10, 11}}, 0},
		"zeros":                          {[]way{func(m *vfs.Mem) error { return m.WriteFile(file(6), make([]byte, 240)) }}, []gap{{6, 9}}, 0},
		"shorter by a part of a batch":   {[]way{func(m *vfs.Mem) error { return m.Truncate(file(6), 200) }}, []gap{{8, 9}}, 0},
		"shorter by a batch":             {[]way{func(m *vfs.Mem) error { return m.Truncate(file(6), 160) }}, []gap{{8, 9}}, 1},
		"the active one shorter":         {[]way{func(m *vfs.Mem) error { return m.Truncate(file(15), 100) }}, []gap{{16, 17}}, 0},
		"empty":                          {[]way{func(m *vfs.Mem) error { return m.Truncate(file(6), 0) }}, []gap{{6, 9}}, 1},
		"missing":                        {[]way{func(m *vfs.Mem) error { return m.Remove(file(6)) }}, []gap{{6, 9}}, 1},
		"the first missing":              {[]way{func(m *vfs.Mem) error { return m.Remove(file(0)) }}, []gap{{0, 3}}, 1},
		"the active one missing":         {[]way{func(m *vfs.Mem) error { return m.Remove(file(15)) }}, []gap{{15, 17}}, 1},
		"missing, and no seals":          {[]way{func(m *vfs.Mem) error { return m.Remove(file(6)) }, func(m *vfs.Mem) error { return m.Remove(dir + "/seals") }}, []gap{{6, 9}}, 1},
		"missing, and damage elsewhere":  {[]way{func(m *vfs.Mem) error { return m.Remove(file(6)) }, flip(12, 70)}, []gap{{6, 9}, {12, 13}}, 1},
		"no seals":                       {[]way{flip(3, 150), flip(15, 70), func(m *vfs.Mem) error { return m.Remove(dir + "/seals") }}, []gap{{4, 5}, {15, 16}}, 0},
		"no indexes":                     {[]way{flip(3, 150), func(m *vfs.Mem) error { return m.Remove(dir + "/00000000000000000003.index") }}, []gap{{4, 5}}, 0},
		"everything":                     {[]way{func(m *vfs.Mem) error { return wipe(m, logFiles(m)) }}, []gap{{0, 17}}, 0},
		"bytes behind, no seals":         {[]way{func(m *vfs.Mem) error { return grow(m, file(6), "garbage") }, func(m *vfs.Mem) error { return m.Remove(dir + "/seals") }}, nil, 0},
		"bytes behind the end of a file": {[]way{func(m *vfs.Mem) error { return grow(m, file(6), "garbage") }}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := damaged(t, partition.Fsync)
			m, cp := stopped(t, r)
			for _, way := range c.ways {
				check(t, way(m))
			}
			found := r.checkSetAside(t, m, cp)
			missing := 0
			for _, d := range found {
				if d.IsMissing() {
					missing++
				}
			}
			for off := offset(0); off < 17; off++ {
				want := slices.ContainsFunc(c.lost, func(g gap) bool { return g.from <= off && off < g.to })
				if got := inAny(found, off); got != want {
					t.Errorf("offset %d: lost %t", off, got)
				}
			}
			if missing != c.missing || len(found) == 0 {
				t.Errorf("%d missing, found is %v", missing, found)
			}
		})
	}
}

func wipe(m *vfs.Mem, files []string) error {
	for _, f := range files {
		data, err := m.ReadFile(f)
		if err != nil {
			return err
		}
		if err := m.WriteFile(f, make([]byte, len(data))); err != nil {
			return err
		}
	}
	return nil
}

func grow(m *vfs.Mem, file, by string) error {
	data, err := m.ReadFile(file)
	if err != nil {
		return err
	}
	return m.WriteFile(file, append(data, by...))
}

// A batch with a right checksum whose records do not decode is damage as well, and one
// that inflates to more than is asked for is not.
func TestQuarantineDecodesRecords(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.Gzip} {
		t.Run(codec.String(), func(t *testing.T) { quarantineUndecodable(t, codec) })
	}
}

func quarantineUndecodable(t *testing.T, codec record.Codec) {
	r := batched(t, codec)
	big := strings.Repeat("x", 2*inflated)
	s := r.publish(1, func(a *partition.Append) {
		a.Codec = record.Gzip
		a.Records = []record.Record{{Timestamp: 1000, Value: []byte(big)}}
	})
	check(t, s.Err)
	r.publish(1)
	m, cp := stopped(t, r)
	q := survey(t, m, cp)
	if len(q.Found) > 0 {
		t.Errorf("found in a whole log: %v", q.Found)
	}
	q.Close()
	garbled(t, m, dir+"/00000000000000000000.log")
	q = survey(t, m, cp)
	defer q.Close()
	if len(q.Found) != 1 || !strings.HasPrefix(q.Found[0].Reason, "records: ") || q.Found[0].From != 0 || q.Found[0].To != 3 {
		t.Fatalf("found %v", q.Found)
	}
}

// garbled spoils the records of the first batch of a file and makes its checksum right.
func garbled(t tb, m *vfs.Mem, file string) {
	data, err := m.ReadFile(file)
	if err != nil {
		t.Fatalf("%v", err)
	}
	b, err := record.Parse(data)
	if err != nil {
		t.Fatalf("%v", err)
	}
	raw := data[:b.Size()]
	for i := record.BatchOverhead; i < len(raw); i++ {
		raw[i] = 0xff
	}
	sum := crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli))
	raw[17], raw[18], raw[19], raw[20] = byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum)
	if err := m.WriteFile(file, data); err != nil {
		t.Fatalf("%v", err)
	}
}

// TestQuarantineSurvivesEveryCrash cuts the power at every call of a quarantine that
// changes the disk. What could be read can be read; and either the damage is told as
// before, or it is set aside and its bytes are kept. In both cases it can be done anew.
func TestQuarantineSurvivesEveryCrash(t *testing.T) {
	for name, spoil := range map[string]func(m *vfs.Mem) error{
		"sealed, active and missing": func(m *vfs.Mem) error {
			for base, at := range map[offset]int{3: 150, 9: 87, 12: 230, 15: 150} {
				if err := m.FlipBit(fmt.Sprintf("%s/%020d.log", dir, base), int64(8*at)); err != nil {
					return err
				}
			}
			return m.Remove(dir + "/00000000000000000006.log")
		},
		"whole segments": func(m *vfs.Mem) error {
			return wipe(m, []string{dir + "/00000000000000000000.log", dir + "/00000000000000000015.log"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := damaged(t, partition.Fsync)
			m, cp := stopped(t, r)
			check(t, spoil(m))
			m = m.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept, Names: vfs.NamesKept})
			_, before, told := r.reopened(t, m.Clone(), cp)
			q := survey(t, m.Clone(), cp)
			found := q.Found
			q.Close()
			outcomes, seeds := map[string]int{}, 5
			if thin() > 1 {
				seeds = 1
			}
			for n := 1; ; n += thin() {
				disk, done := cutAt(t, m, cp, n)
				for _, how := range cuts(seeds) {
					what := trial{t, fmt.Sprintf("cut at call %d, %s, names %s, seed %d", n, how.Unsynced, how.Names, how.Seed)}
					outcomes[r.checkCut(what, disk.Crash(how), m, cp, before, told, found)]++
					if t.Failed() {
						t.FailNow()
					}
				}
				outcomes[r.checkCut(trial{t, fmt.Sprintf("killed at call %d", n)}, disk.Clone(), m, cp, before, told, found)]++
				if done {
					break
				}
			}
			t.Log(outcomes)
			if outcomes["told"] == 0 || outcomes["set aside"] == 0 {
				t.Errorf("outcomes are %v", outcomes)
			}
		})
	}
}

// cutAt lets the power go off at the nth call of a quarantine; done when it made fewer.
func cutAt(t tb, m *vfs.Mem, cp *partition.Checkpoint, n int) (disk *vfs.Mem, done bool) {
	disk = m.Clone()
	calls := 0
	fsys := vfs.NewFaulty(disk, func(op vfs.Op) vfs.Fault {
		if changes(op.Kind) {
			calls++
		}
		if calls >= n {
			return vfs.Fault{Err: errPower}
		}
		return vfs.Fault{}
	})
	q, err := partition.Survey(fsys, slog.New(slog.DiscardHandler), "t/0", dir, cp, inflated)
	if err == nil {
		defer q.Close()
		_, err = q.SetAside(keeper)
	}
	if done = calls < n; done && err != nil {
		t.Fatalf("%v", err)
	}
	return disk, done
}

func (r *rig) checkCut(t tb, left, damaged *vfs.Mem, cp *partition.Checkpoint, before []entry, told []gap, found []partition.Damage) string {
	t.Helper()
	again := left.Clone()
	_, entries, gaps := r.reopened(t, left.Clone(), cp)
	if !slices.Equal(entries, before) {
		t.Errorf("there is %v, there was %v", entries, before)
	}
	outcome := "told"
	if len(gaps) == 0 {
		outcome = "set aside"
		checkKept(t, left, damaged, found)
		r.checkClean(t, left, cp, before, found)
	} else if !slices.Equal(gaps, told) {
		t.Errorf("readers are told of %v, it was %v", gaps, told)
	}
	q := survey(t, again, cp)
	defer q.Close()
	if len(q.Found) > 0 {
		if outcome == "set aside" {
			t.Errorf("it is set aside, and found: %v", q.Found)
		}
		if _, err := q.SetAside(keeper); err != nil {
			t.Errorf("%v", err)
		}
	}
	checkKept(t, again, damaged, found)
	r.checkClean(t, again, cp, before, found)
	return outcome
}

// A disk that refuses a call leaves the log as it was, or is one that the next start
// goes on with; nothing half done lies about.
func TestQuarantineOnAFullDisk(t *testing.T) {
	r, _ := damaged(t, partition.Fsync)
	m, cp := stopped(t, r)
	check(t, m.FlipBit(dir+"/00000000000000000003.log", 8*150))
	_, before, told := r.reopened(t, m.Clone(), cp)
	for room := int64(0); room < 4000; room += 100 {
		left := m.Clone()
		q := survey(t, left, cp)
		left.Limit(left.Used() + room)
		_, err := q.SetAside(keeper)
		left.Limit(-1)
		q.Close()
		what := trial{t, fmt.Sprintf("%d bytes of room, %v", room, err)}
		if outcome := r.checkCut(what, left, m, cp, before, told, q.Found); outcome == "told" {
			if err == nil {
				what.Errorf("it is told")
			}
			for _, f := range left.Files() {
				if strings.HasSuffix(f, ".swap") {
					what.Errorf("%s is left", f)
				}
			}
		}
	}
}

// Bytes that were kept before under the same name, and are others, stay.
func TestQuarantineKeepsWhatItKept(t *testing.T) {
	r, _ := damaged(t, partition.Fsync)
	m, cp := stopped(t, r)
	check(t, m.FlipBit(dir+"/00000000000000000003.log", 8*150))
	const name = "quarantine/t-0-00000000000000000003-position-80-to-159-offsets-4-to-4"
	check(t, m.WriteFile(name+".bytes", bytes.Repeat([]byte("x"), 80)))
	q := survey(t, m, cp)
	defer q.Close()
	kept, err := q.SetAside(keeper)
	if err != nil || len(kept) != 1 || kept[0] != name+"-2.bytes" {
		t.Errorf("kept in %v (%v)", kept, err)
	}
	if old, err := m.ReadFile(name + ".bytes"); err != nil || string(old) != strings.Repeat("x", 80) {
		t.Errorf("what was kept is %q (%v)", old, err)
	}
	if _, err := m.Stat(name + ".json"); err == nil {
		t.Error("it is described by what is said of others")
	}
}

// When the metadata says that the new files count, their names are on the disk: who takes
// up the log after a power cut puts all of them in their places, or none.
func TestQuarantineNamesItsFilesFirst(t *testing.T) {
	r, _ := damaged(t, partition.Fsync)
	m, cp := stopped(t, r)
	for base, at := range map[offset]int{3: 150, 9: 87} {
		check(t, m.FlipBit(fmt.Sprintf("%s/%020d.log", dir, base), int64(8*at)))
	}
	m = m.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept, Names: vfs.NamesKept})
	saves := 0
	q := survey(t, vfs.NewFaulty(m, func(op vfs.Op) vfs.Fault {
		swaps := 0
		for _, name := range m.Files() {
			if strings.HasSuffix(name, ".swap") {
				swaps++
			}
		}
		if swaps < 2 || op.Kind != vfs.OpWrite || !strings.HasPrefix(op.Name, dir+"/"+partition.MetadataName) {
			return vfs.Fault{}
		}
		saves++
		for _, name := range m.Crash(vfs.CrashOptions{Names: vfs.NamesLost}).Files() {
			if strings.HasSuffix(name, ".swap") {
				swaps--
			}
		}
		if swaps > 0 {
			t.Errorf("%s is written, and a power cut takes %d of the new files", op.Name, swaps)
		}
		return vfs.Fault{}
	}), cp)
	defer q.Close()
	if _, err := q.SetAside(keeper); err != nil || saves == 0 {
		t.Errorf("%d writes of the metadata, %v", saves, err)
	}
}
