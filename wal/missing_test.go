package wal

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
)

// journalOf is a disk with so many rounds of 3,000 bytes, none of which was released.
func journalOf(t *testing.T, rounds int) (*vfs.Mem, *Journal) {
	t.Helper()
	m := disk(t)
	j := open(t, m)
	for n := range rounds {
		write(t, j, aFrame(n, 3000))
	}
	return m, j
}

// The file with the first rounds is gone, or has none any more: they are missed, unless
// the caller knows that they were not needed.
func TestFirstRoundsAreMissed(t *testing.T) {
	for name, harm := range map[string]func(*vfs.Mem, string) error{
		"removed":         func(m *vfs.Mem, name string) error { return m.Remove(name) },
		"cut to a header": func(m *vfs.Mem, name string) error { return m.Truncate(name, page) },
		"of another life": func(m *vfs.Mem, name string) error {
			return m.WriteFile(name, append(fileHead{number: 1, id: 7, size: minFileBytes}.encode(), make([]byte, minFileBytes-page)...))
		},
	} {
		m, j := journalOf(t, 40)
		if err := harm(m, fileName(dir, 1)); err != nil {
			t.Fatal(err)
		}
		rounds, old := readAll(t, m)
		first := j.live[0].last + 1
		if len(rounds) == 0 || rounds[0].Number != first || len(old.Damaged) > 0 {
			t.Fatalf("%s: %d rounds, %v", name, len(rounds), old.Damaged)
		}
		for covered, want := range map[uint64]string{
			0:         fmt.Sprintf("mem:/wal: rounds 1 to %d are missing", first-1),
			5:         fmt.Sprintf("mem:/wal: rounds 6 to %d are missing", first-1),
			first - 1: "",
			100:       "",
		} {
			got := ""
			for _, err := range old.Missing(covered) {
				got += err.Error()
			}
			if got != want {
				t.Errorf("%s, %d covered: %q, expected %q", name, covered, got, want)
			}
		}
	}
}

// Rounds that were released, or retired, are not missed in front of the others, wherever
// the power is cut: whatever takes them away says that they were not needed.
func TestReleasedRoundsAreNotMissedInFront(t *testing.T) {
	for cut := int64(1); ; cut++ {
		m := disk(t)
		var crashed []*vfs.Mem
		faulty := vfs.NewFaulty(m, func(op vfs.Op) vfs.Fault {
			if op.Seq < cut {
				return vfs.Fault{}
			}
			if op.Seq == cut {
				for seed := range uint64(3) {
					crashed = append(crashed, m.Crash(vfs.CrashOptions{Seed: seed, Unsynced: vfs.UnsyncedPages}))
				}
			}
			return vfs.Fault{Err: syscall.EIO}
		})
		err := livesOf(faulty)
		for seed, c := range crashed {
			if _, old := readAll(t, c); len(old.Missing(0)) > 0 {
				t.Fatalf("cut %d seed %d: %v", cut, seed, old.Missing(0))
			}
		}
		if err == nil {
			return
		}
	}
}

// livesOf has three engines in turn write rounds and release those of the last file but
// one. The first stops cleanly; the third retires what the second left.
func livesOf(fsys vfs.FS) error {
	after := uint64(7)
	for life := range 3 {
		old, err := Read(fsys, dir, func(Round) error { return nil })
		if err == nil && life == 1 {
			old, err = List(fsys, dir)
		}
		if err != nil {
			return err
		}
		j := Open(fsys, dir, Options{MaxBytes: MinBytes}, old, after)
		if life == 2 {
			err = j.Retire(j.Round())
		}
		for n := 0; n < 70 && err == nil; n++ {
			if _, err = j.Write([]Frame{aFrame(n, 3000)}); err == nil && n%20 == 19 {
				err = j.Release(j.Round())
			}
		}
		if after = j.Round(); life == 0 && err == nil {
			err = errors.Join(j.Retire(after), j.Shrink())
		}
		if err = errors.Join(err, j.Close()); err != nil {
			return err
		}
	}
	return nil
}

// A file that is shorter than it was made has been cut: that is told where no later round
// tells what is missing. What is left of it is not used for rounds that do not fit.
func TestCutFilesAreTold(t *testing.T) {
	for size := int64(page); size < minFileBytes; size += page/2 + 1 {
		m, j := journalOf(t, 24)
		j.Close()
		last, before := j.live[len(j.live)-1], j.live[len(j.live)-2]
		for _, name := range []string{last.name, before.name} {
			cut := m.Clone()
			if err := cut.Truncate(name, size); err != nil {
				t.Fatal(err)
			}
			rounds, old := readAll(t, cut)
			if whole := len(rounds) == 24 && name == before.name; whole == (len(old.Missing(0)) > 0) {
				t.Fatalf("%s is %d bytes, %d rounds are there, and it is said that %v", name, size, len(rounds), old.Missing(0))
			}
			again := Open(cut, dir, Options{MaxBytes: MinBytes}, old, 0)
			if err := again.Retire(again.Round()); err != nil {
				t.Fatal(err)
			}
			if _, old := readAll(t, cut); len(old.Missing(0)) > 0 {
				t.Fatalf("%s was %d bytes, and is retired: %v", name, size, old.Missing(0))
			}
			for range 3 {
				write(t, again, aFrame(1, int(again.MaxRound()-frameHeader-8)))
			}
			again.Close()
			if rounds, old := readAll(t, cut); len(rounds) != 3 || len(old.Missing(0)) > 0 {
				t.Fatalf("%s was %d bytes: %d rounds of 3 after it, %v", name, size, len(rounds), old.Missing(0))
			}
		}
	}
}

// A spare file that was made with a smaller limit, and does not take every round, is not
// used.
func TestSmallSparesAreNotUsed(t *testing.T) {
	m, j := journalOf(t, 3)
	if err := j.Retire(j.Round()); err != nil {
		t.Fatal(err)
	}
	j.Close()
	old, err := List(m, dir)
	if err != nil {
		t.Fatal(err)
	}
	j = Open(m, dir, Options{MaxBytes: 64 << 20}, old, 3)
	defer j.Close()
	write(t, j, aFrame(1, int(j.MaxRound()-frameHeader-8)))
	if _, old := readAll(t, m); len(old.files) != 1 {
		t.Errorf("%d files are left", len(old.files))
	}
}

// A release frees files of rounds up to that one, and not one round more, whatever is
// written into them then.
func TestReleaseFreesNoRoundMore(t *testing.T) {
	for released := range uint64(24) {
		m, j := journalOf(t, 24)
		check(t, j.Release(released))
		for n := range 24 {
			if _, err := j.Write([]Frame{aFrame(n, 3000)}); err != nil { // until all files are needed
				break
			}
		}
		check(t, j.Close())
		rounds, _ := readAll(t, m)
		if len(rounds) == 0 || rounds[0].Number > released+1 {
			t.Fatalf("%d rounds were released: the first of %d that are read is %+v", released, len(rounds), rounds[0].Number)
		}
		for i, r := range rounds {
			if r.Number != rounds[0].Number+uint64(i) {
				t.Fatalf("%d rounds were released: round %d follows %d", released, r.Number, rounds[i-1].Number)
			}
		}
	}
}

// A file that was removed may be there again after a power cut, with its rounds. What
// was written since is newer.
func TestRemovedFilesMayReturn(t *testing.T) {
	for released := uint64(0); released <= 24; released++ {
		m, j := journalOf(t, 24)
		check(t, j.Release(released))
		was := m.Clone()
		check(t, j.Retire(24))
		check(t, j.Shrink())
		check(t, j.Close())

		old, err := List(m, dir)
		check(t, err)
		j = Open(m, dir, Options{MaxBytes: MinBytes}, old, 0)
		write(t, j, aFrame(100, 10))
		write(t, j, aFrame(101, 10))
		check(t, j.Close())

		for _, name := range was.Files() {
			if _, err := m.ReadFile(name); err == nil {
				continue
			}
			data, err := was.ReadFile(name)
			check(t, err)
			check(t, m.WriteFile(name, data))
		}
		rounds, old := readAll(t, m)
		n := len(rounds)
		if n < 2 || !same(rounds[n-2].Frames[0], aFrame(100, 10)) || !same(rounds[n-1].Frames[0], aFrame(101, 10)) {
			t.Errorf("%d of 24 rounds were released: the %d that are read do not end with the last two", released, n)
		}
		if missing := old.Missing(0); len(missing) > 0 {
			t.Errorf("%d of 24 rounds were released: %v", released, missing)
		}
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What was released is noted by the next round, or by a retirement, and then read back
// after every power cut; by nothing earlier.
func TestNotedIsReadBack(t *testing.T) {
	m, j := journalOf(t, 40)
	check := func(what string, released, noted uint64) {
		t.Helper()
		if j.Released() != released || j.Noted() != noted {
			t.Errorf("%s: released are %d, noted %d, expected %d and %d", what, j.Released(), j.Noted(), released, noted)
		}
		for seed := range uint64(20) {
			cut := m.Crash(vfs.CrashOptions{Seed: seed, Unsynced: vfs.Unsynced(seed % 5), Names: vfs.Names(seed % 4)})
			if _, old := readAll(t, cut); old.Released() < noted {
				t.Errorf("%s: of %d rounds noted %d are read back", what, noted, old.Released())
			}
		}
	}
	check("at first", 0, 0)
	if err := j.Release(30); err != nil {
		t.Fatal(err)
	}
	check("released", 30, 0)
	write(t, j)
	check("and a mark", 30, 30)
	if err := j.Release(35); err != nil {
		t.Fatal(err)
	}
	check("released again", 35, 30)
	if err := j.Retire(41); err != nil {
		t.Fatal(err)
	}
	check("retired", 41, 41)
	_, old := readAll(t, m)
	if again := Open(m, dir, Options{}, old, 0); again.Noted() != 41 {
		t.Errorf("opened again, %d are noted", again.Noted())
	}
}
