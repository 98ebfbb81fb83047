package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/wal"
)

// cutLast has the journal of a crashed directory end with a round whose last frame it takes
// back, and its segment as it was cut for that.
func cutLast(dir string) error {
	var rounds [][]wal.Frame
	_, err := wal.Read(vfs.Dir(dir), journalName, func(r wal.Round) error {
		for i := range r.Frames {
			r.Frames[i].Payload = slices.Clone(r.Frames[i].Payload)
		}
		rounds = append(rounds, r.Frames)
		return nil
	})
	if err != nil {
		return err
	}
	last := rounds[len(rounds)-2][0] // a mark is behind it
	err = errors.Join(os.RemoveAll(filepath.Join(dir, journalName)), os.Mkdir(filepath.Join(dir, journalName), 0o700),
		os.Truncate(filepath.Join(dir, "topics", "orders", "0", "00000000000000000000.log"), int64(last.Pos)))
	if err != nil {
		return err
	}
	j := wal.Open(vfs.Dir(dir), journalName, wal.Options{}, &wal.Old{}, 0)
	rounds[len(rounds)-1] = []wal.Frame{{Kind: wal.Cut, Log: last.Log, Base: last.Base, Pos: last.Pos, Next: last.Next - 1}}
	for _, frames := range append(rounds, nil) {
		if _, err := j.Write(frames); err != nil {
			return errors.Join(err, j.Close())
		}
	}
	return j.Close()
}

// What the journal took back is shown as that, and neither verify nor a start puts it back.
func TestJournalThatTakesBack(t *testing.T) {
	c := &crashedLog{dir: filepath.Join(t.TempDir(), "data")}
	if err := crash(c.dir, "orders", nil, []string{"one", "two", "three", "refused"}, 0); err != nil {
		t.Fatal(err)
	}
	if err := cutLast(c.dir); err != nil {
		t.Fatal(err)
	}
	code, out, stderr := runCommand("--dir", c.dir, "wal", "dump", "--frames")
	if code != 0 || strings.Count(out, "    cut orders/0, segment 0: 0 bytes at position 215, next offset 3\n") != 1 ||
		strings.Count(out, "    data orders/0, segment 0: 0 bytes at position 215, next offset 3, 75 bytes behind them taken back\n") != 1 {
		t.Errorf("exit code %d\n%s%s", code, out, stderr)
	}
	text, faults := c.verifyText(t)
	if faults > 0 || !strings.Contains(text, ", 3 records, offsets 0 to 2, ") || !strings.Contains(text, " puts back 3 frames of the journal\n") {
		t.Errorf("%d faults\n%s", faults, text)
	}
	if got := c.stored(t); strings.Join(got, ",") != "one,two,three" {
		t.Errorf("the engine has %q", got)
	}
	c.checkWhole(t)
}
