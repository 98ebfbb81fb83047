package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/checkpoint"
	"github.com/varvelog/varve/internal/twin"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/segment"
	"github.com/varvelog/varve/wal"
)

// crashedLog is a data directory of an engine that was killed. Its only partition has
// several segments, of which the first are sealed and the others may be lost.
type crashedLog struct {
	dir   string
	lines []string
}

func newCrashedLog(t *testing.T) *crashedLog { return newTrimmedLog(t, 0) }

func newTrimmedLog(t *testing.T, start varve.Offset) *crashedLog {
	t.Helper()
	c := &crashedLog{dir: filepath.Join(t.TempDir(), "data")}
	for i := range 40 {
		c.lines = append(c.lines, fmt.Sprint("line ", i))
	}
	if err := crash(c.dir, "orders", map[string]string{"segment.bytes": "600"}, c.lines, start); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *crashedLog) partition() string { return filepath.Join(c.dir, "topics", "orders", "0") }

// unsealed are the log files of which no seal says that the disk has them.
func (c *crashedLog) unsealed(t *testing.T) (paths []string) {
	t.Helper()
	in, err := partition.Inspect(vfs.Dir(c.partition()), ".", nil, partition.Left{})
	if err != nil {
		t.Fatal(err)
	}
	for _, base := range in.Bases {
		if _, sealed := in.Seals[base]; !sealed {
			paths = append(paths, filepath.Join(c.partition(), segment.FileName(base)+segment.LogSuffix))
		}
	}
	if len(in.Bases) < 4 || len(paths) == 0 {
		t.Fatalf("%d segments, %d of them without a seal", len(in.Bases), len(paths))
	}
	return paths
}

// verifyText verifies the directory and returns what is printed.
func (c *crashedLog) verifyText(t *testing.T) (text string, faults int64) {
	t.Helper()
	found, err := findPartitions([]string{filepath.Join(c.dir, "topics")}, true)
	if err == nil {
		err = found.putBack(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	v := &verify{ctx: context.Background(), app: &app{out: &output{w: &out}, err: &out}, bar: &progress{}}
	if err := v.run(found); (err != nil) != (v.faults > 0) {
		t.Fatal(err)
	}
	return out.String(), v.faults
}

// stored opens the engine and returns all lines.
func (c *crashedLog) stored(t *testing.T) (lines []string) {
	t.Helper()
	e, err := varve.Open(c.dir, varve.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	topic, err := e.Topic("orders")
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range topic.Records(context.Background(), varve.Earliest()) {
		if err != nil {
			t.Log(err)
			continue
		}
		lines = append(lines, string(r.Value))
	}
	return lines
}

// Whatever a power cut leaves of the files that are not sealed, verify finds the log
// that the next start makes of it, and changes nothing itself.
func TestVerifySeesWhatTheJournalPutsBack(t *testing.T) {
	each := func(do func(path string, data []byte) error) func(paths []string) error {
		return func(paths []string) (err error) {
			for _, path := range paths {
				data, rerr := os.ReadFile(path)
				err = errors.Join(err, rerr, do(path, data))
			}
			return err
		}
	}
	rewrite := func(change func(data []byte) []byte) func([]string) error {
		return each(func(path string, data []byte) error { return os.WriteFile(path, change(data), 0o600) })
	}
	for name, spoil := range map[string]func(paths []string) error{
		"nothing":   func([]string) error { return nil },
		"names":     each(func(path string, _ []byte) error { return os.Remove(path) }),
		"last name": func(paths []string) error { return os.Remove(paths[len(paths)-1]) },
		"empty":     rewrite(func([]byte) []byte { return nil }),
		"cut":       rewrite(func(data []byte) []byte { return data[:len(data)/2+3] }),
		"zeros":     rewrite(func(data []byte) []byte { clear(data); return data }),
		"a hole":    rewrite(func(data []byte) []byte { clear(data[len(data)/3 : len(data)/2]); return data }),
		"stale":     rewrite(func(data []byte) []byte { return bytes.Repeat([]byte{7}, len(data)) }),
		"no index": each(func(path string, _ []byte) error {
			base := strings.TrimSuffix(path, segment.LogSuffix)
			os.Remove(base + segment.IndexSuffix)
			os.Remove(base + segment.TimeIndexSuffix)
			return os.Truncate(path, 10)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrashedLog(t)
			if err := spoil(c.unsealed(t)); err != nil {
				t.Fatal(err)
			}
			c.check(t)
			c.checkWhole(t)
			c = newCrashedLog(t)
			os.Remove(filepath.Join(c.partition(), "seals")) // if the last one was made before the kill
			if err := spoil(c.unsealed(t)); err != nil {
				t.Fatal(err)
			}
			c.check(t)
			c.checkWhole(t)
		})
	}
}

// check holds what verify says of a log of which nothing is lost against the engine.
func (c *crashedLog) check(t *testing.T) {
	t.Helper()
	before := snapshot(t, c.dir)
	text, faults := c.verifyText(t)
	if faults > 0 || !strings.Contains(text, ", 40 records, offsets 0 to 39, ") ||
		!strings.Contains(text, " puts back 40 frames of the journal\n") {
		t.Errorf("%d faults\n%s", faults, text)
	}
	if snapshot(t, c.dir) != before {
		t.Error("verify has changed something")
	}
	if got := c.stored(t); strings.Join(got, ",") != strings.Join(c.lines, ",") {
		t.Errorf("the engine has %q", got)
	}
}

// checkWhole is for when the engine has stopped: there is nothing to say any more.
func (c *crashedLog) checkWhole(t *testing.T) {
	t.Helper()
	if text, faults := c.verifyText(t); faults > 0 || strings.Contains(text, "warning") {
		t.Errorf("after the start: %d faults\n%s", faults, text)
	}
}

// Nobody waits for the indexes of a segment: after a crash they may lack, be short or be
// of something else, sealed or not. After a clean stop that is a fault.
func TestVerifyDoesNotMissIndexesAfterACrash(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"missing": os.Remove,
		"empty":   func(path string) error { return os.Truncate(path, 0) },
		"torn":    func(path string) error { return os.Truncate(path, 5) },
		"zeros":   func(path string) error { return os.WriteFile(path, make([]byte, 24), 0o600) },
		"stale":   func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte{7}, 24), 0o600) },
	} {
		for _, sealed := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " ", sealed), func(t *testing.T) {
				c := newCrashedLog(t)
				if !sealed && os.Remove(filepath.Join(c.partition(), "seals")) != nil {
					t.Fatal("there are no seals")
				}
				if n := c.eachIndex(t, spoil); n < 4 {
					t.Fatalf("%d index files", n)
				}
				text, _ := c.verifyText(t)
				c.eachIndex(t, func(path string) error {
					if strings.Count(text, path+": ") > 1 {
						return fmt.Errorf("more than one warning of %s", path)
					}
					return nil
				})
				if sealed && !strings.Contains(text, "index: warning: ") { // else an empty one may be right
					t.Errorf("no warning\n%s", text)
				}
				if c.check(t); !sealed { // the start has made them anew
					c.checkWhole(t)
				}
				c.eachIndex(t, spoil)
				if text, faults := c.verifyText(t); faults == 0 {
					t.Errorf("no fault after a clean stop\n%s", text)
				}
			})
		}
	}
}

// eachIndex does something to each index file, and says how many there were.
func (c *crashedLog) eachIndex(t *testing.T, do func(path string) error) (n int) {
	t.Helper()
	for _, suffix := range []string{segment.IndexSuffix, segment.TimeIndexSuffix} {
		paths, err := filepath.Glob(filepath.Join(c.partition(), "*"+suffix))
		for _, path := range paths {
			err = errors.Join(err, do(path))
			n++
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// Segments that a trim has removed stay so, though the journal has them still.
func TestVerifyPutsNothingBackBelowTheStart(t *testing.T) {
	c := newTrimmedLog(t, 20)
	if err := os.Remove(filepath.Join(c.partition(), "seals")); err != nil {
		t.Fatal(err)
	}
	text, faults := c.verifyText(t)
	if faults > 0 || !strings.Contains(text, ", offsets 16 to 39, ") && !strings.Contains(text, ", offsets 20 to 39, ") {
		t.Errorf("%d faults\n%s", faults, text)
	}
	if got := c.stored(t); strings.Join(got, ",") != strings.Join(c.lines[20:], ",") {
		t.Errorf("the engine has %q", got)
	}
}

// Where the journal does not have it any more, it is missing: the round behind says
// that it was there.
func TestVerifyMissesWhatTheJournalHasLost(t *testing.T) {
	c := newCrashedLog(t)
	paths := c.unsealed(t)
	last := paths[len(paths)-1]
	if err := os.Remove(last); err != nil {
		t.Fatal(err)
	}
	files, err := journalIn(c.dir)
	if err != nil || len(files.names) != 1 {
		t.Fatal(files, err)
	}
	base, _, _ := parseSegmentName(filepath.Base(last))
	path := files.paths[files.names[0]]
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for round := int(base); round < 40; round++ { // each publish has a page
		data[4096*(1+round)+40+64+20] ^= 1
	}
	write(t, path, data)
	text, faults := c.verifyText(t)
	lost := int64(40 - int(base))
	want := fmt.Sprintf("%s: position 0, offset %d: records are missing that were there, says the journal (offsets %d to 39 cannot be read)", last, base, base)
	if faults != lost+1 || !strings.Contains(text, want) {
		t.Errorf("%d faults, %d rounds are damaged; want %s\n%s", faults, lost, want, text)
	}
}

// Damage to rounds that no log needs any more is none.
func TestVerifyPassesOverWhatTheCheckpointHas(t *testing.T) {
	c := newCrashedLog(t)
	s, err := storeAt(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	s.logs = make(map[wal.Log]checkpoint.Entry)
	for id := range s.catalog().topics {
		s.logs[wal.Log{Topic: id}] = checkpoint.Entry{Round: 10}
	}
	path := filepath.Join(c.dir, journalName, "0000000001.wal")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for round, want := range map[int]int{1: 0, 9: 0, 10: 1, 39: 1} { // counted from 0
		bad := bytes.Clone(data)
		bad[4096*(1+round)+40+64+20] ^= 1
		write(t, path, bad)
		f := &found{stores: []*store{s}}
		if err := f.putBack(context.Background()); err != nil {
			t.Fatal(err)
		}
		faults := 0
		for _, n := range f.notes {
			if n.Type == "fault" {
				faults++
			}
		}
		if faults != want {
			t.Errorf("round %d: %+v", round+1, f.notes)
		}
	}
}

// Pieces that are put back lie over the file and over each other, and between them
// and the end of a shorter file are zeros.
func TestMendedFile(t *testing.T) {
	dir := t.TempDir()
	s := &segmentFiles{dir: dir, back: &putBack{}}
	path := s.path(segment.LogSuffix)
	write(t, path, []byte("abcdefgh"))
	at, err := vfs.Dir(dir).OpenFile(filepath.Base(path), os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	for _, p := range []piece{{0, []byte("abc")}, {2, []byte("cdXf")}, {4, []byte("efg")}, {10, []byte("kl")}} {
		if err := s.back.add(at, p.pos, p.data); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.back.pieces) != 3 {
		t.Errorf("kept %v", s.back.pieces)
	}
	want := "abcdefgh\x00\x00kl"
	f, size, err := s.open()
	if err != nil || size != int64(len(want)) {
		t.Fatal(size, err)
	}
	defer f.Close()
	for from := range len(want) {
		for to := from; to <= len(want)+2; to++ {
			buf := bytes.Repeat([]byte{0xff}, to-from)
			n, err := f.ReadAt(buf, int64(from))
			if got := string(buf[:n]); got != want[from:min(to, len(want))] || (err != nil) != (to > len(want)) {
				t.Fatalf("[%d,%d): %q, %v", from, to, got, err)
			}
		}
	}
}

// A file that is longer than what is put back keeps its end.
func TestMendedFileKeepsItsEnd(t *testing.T) {
	s := &segmentFiles{dir: t.TempDir(), back: &putBack{pieces: []piece{{2, []byte("XY")}}}}
	write(t, s.path(segment.LogSuffix), []byte("abcdefgh"))
	f, size, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, 9)
	if n, _ := f.ReadAt(buf, 0); size != 8 || string(buf[:n]) != "abXYefgh" {
		t.Errorf("%d bytes, %q", size, buf[:n])
	}
}

// snapshot is everything in a tree.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintln(&all, path)
		if d.IsDir() {
			return nil
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(&all, "%d %08x\n", len(data), crc32Update(0, data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// A large append is synced in the segment itself: the journal has where, and that it
// was there.
func TestJournalOfALargeAppend(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := crash(dir, "orders", nil, []string{"small", strings.Repeat("x", 300_000)}, 0); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a := &app{out: &output{w: &out}, dir: dir}
	c := a.walDumpCommand()
	c.SetArgs([]string{"--frames"})
	if err := c.ExecuteContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "topics", "orders", "0", "00000000000000000000.log")
	info, err := os.Stat(log)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("    direct orders/0, segment 0: %s at position 73, next offset 2\n", count(info.Size()-73, "byte"))
	if !strings.Contains(out.String(), want) || strings.Count(out.String(), "    data orders/0") != 1 {
		t.Errorf("want %s\n%s", want, out.String())
	}
	if err := os.Truncate(log, 73); err != nil {
		t.Fatal(err)
	}
	v := &crashedLog{dir: dir}
	text, faults := v.verifyText(t)
	lost := log + ": position 0, offset 1: records are missing that were there, says the journal (offsets 1 to 1 cannot be read)\n"
	if faults != 1 || !strings.Contains(text, lost) || !strings.Contains(text, " puts back 1 frame of the journal\n") {
		t.Errorf("%d faults\n%s", faults, text)
	}
}

// A topic of which the journal alone speaks, and whose directory was taken away after a
// kill, is missing; one with the directory of a deleted topic is not, nor is anything of a
// directory of before those were kept.
func TestVerifyMissesTopicsOfTheJournal(t *testing.T) {
	c := newCrashedLog(t)
	doc, wrong := topicAt(filepath.Join(c.dir, topicsName, "orders"))
	if wrong != nil {
		t.Fatal(wrong)
	}
	topics := filepath.Join(c.dir, topicsName)
	if err := errors.Join(os.RemoveAll(filepath.Join(topics, "orders")), os.RemoveAll(filepath.Join(c.dir, "checkpoint"))); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%s: topic with id %s is missing: the journal has 1 partition of it\n", topics, doc.ID)
	if text, faults := c.verifyText(t); faults != 1 || !strings.Contains(text, want) {
		t.Errorf("%d faults:\n%s", faults, text)
	}
	deleted := filepath.Join(topics, deletedPrefix+doc.ID)
	if err := os.Mkdir(deleted, 0o700); err != nil {
		t.Fatal(err)
	}
	if text, faults := c.verifyText(t); faults > 0 {
		t.Errorf("beside the directory of a deleted topic:\n%s", text)
	}
	if err := os.Remove(deleted); err != nil {
		t.Fatal(err)
	}
	if err := twin.Save(vfs.Dir(c.dir), formatName, 9, []byte(`{"version":2}`)); err != nil {
		t.Fatal(err)
	}
	if text, faults := c.verifyText(t); faults > 0 {
		t.Errorf("of version 2:\n%s", text)
	}
}
