package cli

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/internal/twin"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// testLog is a partition directory written batch by batch, without the engine.
type testLog struct {
	dir  string
	next record.Offset
	// of the segment being written
	base    record.Offset
	log     []byte
	index   *index.Active
	headers uint32
	largest int64
	starts  []record.Pos // of the batches of the last segment written
}

// newTestLog makes the directory of one of varve's partitions, or of Kafka's.
func newTestLog(t testing.TB, varve bool) *testLog {
	t.Helper()
	topic := filepath.Join(t.TempDir(), "orders")
	l := &testLog{dir: filepath.Join(topic, "0")}
	if err := os.MkdirAll(topic, 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	if varve {
		body := `{"name":"orders","id":"00112233-4455-6677-8899-aabbccddeeff","partitions":1,"config":{}}`
		err = errors.Join(os.Mkdir(l.dir, 0o700), twin.Save(vfs.Dir(topic), "topic.json", 1, []byte(body)),
			twin.Save(vfs.Dir(l.dir), "partition.json", 1, []byte(`{"logStart":0}`)))
	} else {
		err = os.Mkdir(l.dir, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.roll(t)
	return l
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (l *testLog) path(base record.Offset, suffix string) string {
	return filepath.Join(l.dir, segment.FileName(base)+suffix)
}

// roll begins a new segment at the next offset.
func (l *testLog) roll(t testing.TB) {
	l.base, l.log, l.headers, l.largest, l.starts = l.next, nil, 0, segment.NoMaxTimestamp, nil
	l.index = index.Create(vfs.Dir(l.dir), segment.FileName(l.base), l.base, index.Options{Interval: 100})
}

// add appends a batch of n records of about size bytes each.
func (l *testLog) add(n, size int, o record.BatchOptions) {
	var b record.Builder
	b.Reset(nil, l.next, o)
	for i := range n {
		b.Add(1_700_000_000_000+int64(l.next)+int64(i), []byte("key"), bytes.Repeat([]byte{'v'}, size), nil)
	}
	l.raw(b.Finish())
}

func (l *testLog) raw(raw []byte) {
	b, err := record.Parse(raw)
	if err != nil {
		panic(err)
	}
	pos := record.Pos(len(l.log))
	l.starts = append(l.starts, pos)
	l.index.Append(b.LastOffset(), pos, len(raw), b.MaxTimestamp)
	l.headers = crc32Update(l.headers, raw[:17])
	l.largest = max(l.largest, b.MaxTimestamp)
	l.log = append(l.log, raw...)
	l.next = b.NextOffset()
}

// seal writes the segment's files, and with a seal also that.
func (l *testLog) seal(t testing.TB, seal bool) {
	t.Helper()
	mark, err := l.index.Seal()
	if err != nil {
		t.Fatal(err)
	}
	l.index.Close()
	write(t, l.path(l.base, ".log"), l.log)
	if !seal {
		return
	}
	s := segment.Seal{Base: l.base, Next: l.next, Size: record.Pos(len(l.log)), MaxTimestamp: l.largest, HeaderSum: l.headers, Dense: true, Index: mark}
	path := filepath.Join(l.dir, "seals")
	old, _ := os.ReadFile(path)
	write(t, path, s.Append(old))
}

// three writes a log of three segments with all codecs; the last is small.
func (l *testLog) three(t testing.TB, seal bool) []record.Offset {
	var bases []record.Offset
	for s := range 3 {
		bases = append(bases, l.base)
		for i := range 6 {
			l.add(1+i%3, 20+10*i, record.BatchOptions{Codec: record.Codec(i % 5), Epoch: record.Epoch(s)})
		}
		l.seal(t, seal)
		l.roll(t)
	}
	return bases
}

// runVerify verifies paths and returns the faults and the partitions it printed.
func runVerify(t testing.TB, paths ...string) (faults []fault, parts []partitionReport, err error) {
	t.Helper()
	found, err := findPartitions(paths, true)
	if err != nil {
		return nil, nil, err
	}
	var out bytes.Buffer
	v := &verify{ctx: context.Background(), app: &app{out: &output{w: &out}, err: &out}, json: true, bar: &progress{}}
	err = v.run(found)
	for line := range strings.Lines(out.String()) {
		var f fault
		var p partitionReport
		if jerr := json.Unmarshal([]byte(line), &f); jerr != nil {
			t.Fatalf("%s: %v", line, jerr)
		}
		switch f.Type {
		case "fault":
			faults = append(faults, f)
			continue
		case "warning":
			continue
		}
		if jerr := json.Unmarshal([]byte(line), &p); jerr != nil || p.Type != "partition" {
			t.Fatalf("%s: %v", line, jerr)
		}
		parts = append(parts, p)
	}
	if (err != nil) != (len(faults) > 0) {
		t.Fatalf("error %v with %d faults", err, len(faults))
	}
	return faults, parts, err
}

func TestVerifyWhole(t *testing.T) {
	for _, varve := range []bool{true, false} {
		l := newTestLog(t, varve)
		l.three(t, varve)
		faults, parts, err := runVerify(t, l.dir)
		if err != nil || len(parts) != 1 {
			t.Fatalf("%v %v", err, faults)
		}
		p := parts[0]
		if p.Segments != 3 || p.Batches != 18 || p.Records != 36 || p.Start != 0 || p.End != l.next {
			t.Errorf("%+v", p)
		}
	}
}

// With seals, no byte of a log or index can change unnoticed, and none can be
// cut off.
func TestVerifyNoticesEveryByte(t *testing.T) {
	l := newTestLog(t, true)
	bases := l.three(t, true)
	// The last segment has nothing behind it: there only its seal knows.
	for _, suffix := range []string{".log", ".index", ".timeindex"} {
		base := bases[1]
		if suffix == ".log" {
			base = bases[2]
		}
		path := l.path(base, suffix)
		whole, err := os.ReadFile(path)
		if err != nil || len(whole) == 0 {
			t.Fatal(len(whole), err)
		}
		check := func(what string, data []byte) {
			t.Helper()
			write(t, path, data)
			faults, _, _ := runVerify(t, l.dir)
			if len(faults) == 0 {
				t.Errorf("%s: %s went unnoticed", suffix, what)
			}
			for _, f := range faults {
				if f.Path == "" || f.Reason == "" || f.Position < 0 || f.Position > int64(len(data)) {
					t.Errorf("%s: %s: %+v", suffix, what, f)
				}
			}
		}
		for i := range whole {
			data := bytes.Clone(whole)
			data[i] ^= 1 << (i % 8)
			check(fmt.Sprintf("flip at %d", i), data)
			check(fmt.Sprintf("cut at %d", i), whole[:i])
		}
		check("zeros behind", append(bytes.Clone(whole), make([]byte, 4096)...))
		check("garbage behind", append(bytes.Clone(whole), "garbage"...))
		write(t, path, whole)
	}
	if faults, _, err := runVerify(t, l.dir); err != nil {
		t.Fatal("log was not restored: ", faults)
	}
}

// An index may say nothing but the truth and still not be what was written: then only
// the sum that the seal keeps of its bytes can tell.
func TestVerifyHoldsIndexesAgainstTheSeal(t *testing.T) {
	l := newTestLog(t, true)
	for range 12 {
		l.add(1, 20, record.BatchOptions{}) // less than the interval of the index
	}
	starts := l.starts
	l.seal(t, true)
	path := l.path(0, ".index")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first := binary.BigEndian.Uint32(data)
	if int(first)+1 == int(binary.BigEndian.Uint32(data[8:])) {
		t.Fatal("every batch has an entry")
	}
	binary.BigEndian.PutUint32(data, first+1) // the batch behind, which has none
	binary.BigEndian.PutUint32(data[4:], uint32(starts[first+1]))
	write(t, path, data)
	faults, _, _ := runVerify(t, l.dir)
	if len(faults) != 1 || faults[0].Path != path || faults[0].Reason != "index is not what was written, says the seal" {
		t.Errorf("%+v", faults)
	}
	// Nothing is wrong with it but that.
	if err := os.Remove(filepath.Join(l.dir, "seals")); err != nil {
		t.Fatal(err)
	}
	if faults, _, _ := runVerify(t, l.dir); len(faults) > 0 {
		t.Errorf("without the seal: %+v", faults)
	}
}

// A sealed segment whose index is gone is a fault, though it is the last one.
func TestVerifyMissesTheIndexOfASeal(t *testing.T) {
	l := newTestLog(t, true)
	for range 12 {
		l.add(1, 20, record.BatchOptions{})
	}
	l.seal(t, true)
	os.Remove(l.path(0, ".index"))
	faults, _, _ := runVerify(t, l.dir)
	if len(faults) != 1 || faults[0].Reason != indexMissing {
		t.Errorf("%+v", faults)
	}
}

// Each of several damaged batches is named, with where it is and what is lost.
func TestVerifyNamesEveryFault(t *testing.T) {
	l := newTestLog(t, true)
	for range 20 {
		l.add(10, 50, record.BatchOptions{})
	}
	starts := l.starts
	l.seal(t, true)
	data := bytes.Clone(l.log)
	for _, i := range []int{3, 9, 15, 16} { // the last two are one range
		data[starts[i]+100] ^= 1
	}
	binary.BigEndian.PutUint32(data[starts[12]+8:], 1<<20) // a length that leads past the end
	write(t, l.path(0, ".log"), data)

	faults, parts, _ := runVerify(t, l.path(0, ".log"))
	if len(faults) != 4 || parts[0].Records != 150 {
		t.Fatalf("%+v\n%+v", faults, parts)
	}
	for k, i := range []int{3, 9, 12, 15} {
		f, lost := faults[k], 10
		if i == 15 {
			lost = 20
		}
		if f.Position != int64(starts[i]) || f.Offset != int64(10*i) || f.To != int64(10*i+lost) {
			t.Errorf("batch %d: %+v", i, f)
		}
	}
}

func TestVerifyFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, l *testLog, bases []record.Offset)
		want  []string // in the reasons, in order
	}{
		{"missing segment", func(t *testing.T, l *testLog, bases []record.Offset) {
			for _, s := range []string{".log", ".index", ".timeindex"} {
				os.Remove(l.path(bases[1], s))
			}
		}, []string{"records are missing before this segment"}},
		{"missing log", func(t *testing.T, l *testLog, bases []record.Offset) {
			os.Remove(l.path(bases[1], ".log"))
		}, []string{"file is missing", "records are missing"}},
		{"missing indexes", func(t *testing.T, l *testLog, bases []record.Offset) {
			os.Remove(l.path(bases[0], ".index"))
			os.Remove(l.path(bases[1], ".timeindex"))
			os.Remove(l.path(bases[2], ".index")) // of the active segment: no fault
		}, []string{"index is missing", "index is missing"}},
		{"empty log", func(t *testing.T, l *testLog, bases []record.Offset) {
			write(t, l.path(bases[0], ".log"), nil)
		}, []string{"behind the last batch", "behind the last batch", "records are missing"}},
		{"torn end", func(t *testing.T, l *testLog, bases []record.Offset) {
			data, _ := os.ReadFile(l.path(bases[2], ".log"))
			write(t, l.path(bases[2], ".log"), data[:len(data)-7])
		}, []string{"unfinished write"}},
		{"few bytes of a batch", func(t *testing.T, l *testLog, bases []record.Offset) {
			data, _ := os.ReadFile(l.path(bases[2], ".log"))
			write(t, l.path(bases[2], ".log"), append(data, 1, 2, 3))
		}, []string{"3 bytes into a batch"}},
		{"zeros", func(t *testing.T, l *testLog, bases []record.Offset) {
			data, _ := os.ReadFile(l.path(bases[2], ".log"))
			write(t, l.path(bases[2], ".log"), append(data, make([]byte, 1<<20)...))
		}, []string{"zeros"}},
		{"old format", func(t *testing.T, l *testLog, bases []record.Offset) {
			data, _ := os.ReadFile(l.path(bases[0], ".log"))
			data[16] = 1
			write(t, l.path(bases[0], ".log"), data)
		}, []string{"before 0.11"}},
		{"unordered index", func(t *testing.T, l *testLog, bases []record.Offset) {
			data, _ := os.ReadFile(l.path(bases[0], ".index"))
			copy(data[8:], data[:8])
			write(t, l.path(bases[0], ".index"), data)
		}, []string{"order"}},
		{"index entry of another batch", func(t *testing.T, l *testLog, bases []record.Offset) {
			data, _ := os.ReadFile(l.path(bases[0], ".index"))
			data[3]++
			write(t, l.path(bases[0], ".index"), data)
		}, []string{"which ends with"}},
		{"base offset", func(t *testing.T, l *testLog, bases []record.Offset) {
			data, _ := os.ReadFile(l.path(bases[1], ".log"))
			data[3] ^= 1 // of the first batch; no checksum of its own covers it
			write(t, l.path(bases[1], ".log"), data)
		}, []string{"base offset is"}},
		{"index of another segment", func(t *testing.T, l *testLog, bases []record.Offset) {
			data := binary.BigEndian.AppendUint32(nil, 3)
			write(t, l.path(bases[0], ".index"), binary.BigEndian.AppendUint32(data, 77))
		}, []string{"where no batch begins"}},
		{"wrong time", func(t *testing.T, l *testLog, bases []record.Offset) {
			data, _ := os.ReadFile(l.path(bases[0], ".timeindex"))
			data[7]++
			write(t, l.path(bases[0], ".timeindex"), data)
		}, []string{"largest timestamp"}},
		{"a segment twice", func(t *testing.T, l *testLog, bases []record.Offset) {
			data, _ := os.ReadFile(l.path(bases[1], ".log"))
			os.Remove(l.path(bases[1], ".log"))
			for _, s := range []string{".index", ".timeindex"} {
				os.Remove(l.path(bases[1], s))
			}
			write(t, l.path(bases[1]-1, ".log"), data)
			for _, s := range []string{".index", ".timeindex"} {
				write(t, l.path(bases[1]-1, s), nil)
			}
		}, []string{"below", "base offset is"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newTestLog(t, true)
			c.spoil(t, l, l.three(t, false))
			faults, _, _ := runVerify(t, l.dir)
			ok := len(faults) == len(c.want)
			for i := 0; ok && i < len(c.want); i++ {
				ok = strings.Contains(faults[i].Reason, c.want[i])
			}
			if !ok {
				t.Errorf("got %+v\nwant %q", faults, c.want)
			}
		})
	}
}

// Compaction leaves gaps in Kafka's logs; a gap in one of varve's is a fault.
func TestVerifyGaps(t *testing.T) {
	for _, varve := range []bool{true, false} {
		l := newTestLog(t, varve)
		l.add(5, 10, record.BatchOptions{})
		l.next += 100
		l.add(5, 10, record.BatchOptions{})
		l.add(5, 10, record.BatchOptions{}) // one gap is one fault
		l.seal(t, false)
		l.next += 1000
		l.roll(t)
		l.add(5, 10, record.BatchOptions{})
		l.seal(t, false)
		faults, _, _ := runVerify(t, l.dir)
		if want := map[bool]int{true: 2, false: 0}[varve]; len(faults) != want {
			t.Errorf("varve's: %v: %+v", varve, faults)
		}
	}
}

// newGarbageLog is one of a batch with a right checksum and records that do not decode,
// behind one that does.
func newGarbageLog(t *testing.T) *testLog {
	l := newTestLog(t, true)
	l.add(1, 10, record.BatchOptions{})
	var b record.Builder
	b.Reset(nil, l.next, record.BatchOptions{})
	b.Add(1, nil, []byte("value"), nil)
	raw := b.Finish()
	raw[61] = 0x7f // the length of the first record
	binary.BigEndian.PutUint32(raw[17:], crc32Update(0, raw[21:]))
	l.raw(raw)
	l.seal(t, false)
	return l
}

func TestVerifyDecodesRecords(t *testing.T) {
	l := newGarbageLog(t)
	faults, _, _ := runVerify(t, l.dir)
	if len(faults) != 1 || !strings.HasPrefix(faults[0].Reason, "records:") {
		t.Errorf("%+v", faults)
	}
}

// A dump names the file, too, in which records do not decode.
func TestDumpNamesTheFileOfRecords(t *testing.T) {
	l := newGarbageLog(t)
	path, at := l.path(0, ".log"), int64(l.starts[1])
	found, err := findPartitions([]string{l.dir}, false)
	if err != nil {
		t.Fatal(err)
	}
	for asJSON, want := range map[bool]string{
		false: fmt.Sprintf("\n  damaged: %s: position %d, offset 1: records: ", filepath.Base(path), at),
		true:  fmt.Sprintf(`{"type":"fault","path":%q,"position":%d,"offset":1,"reason":"records: `, path, at),
	} {
		var out bytes.Buffer
		d := newDump(&out, asJSON, true)
		if err := errors.Join(d.all(context.Background(), found), d.out.Flush()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) || d.faults != 1 {
			t.Errorf("%d faults, want %s in\n%s", d.faults, want, out.String())
		}
	}
}

// A length that a flipped bit made large is not believed: memory stays at the
// window. A batch that is that large is read whole.
func TestScanMemory(t *testing.T) {
	l := newTestLog(t, true)
	l.add(1, 10, record.BatchOptions{})
	l.add(1, 3<<20, record.BatchOptions{})
	l.add(1, 10, record.BatchOptions{})
	sc := newLogScanner(bytes.NewReader(l.log), int64(len(l.log)), 0)
	for range 3 {
		if _, h, err := sc.next(); h != nil || err != nil {
			t.Fatal(h, err)
		}
	}
	data := make([]byte, 64<<20)
	copy(data, l.log[:l.starts[1]])
	binary.BigEndian.PutUint32(data[8:], 63<<20)
	sc = newLogScanner(bytes.NewReader(data), int64(len(data)), 0)
	_, h, err := sc.next()
	if h == nil || err != nil || cap(sc.buf) > scanWindow {
		t.Errorf("%v, %v, %d bytes of memory", h, err, cap(sc.buf))
	}
}

// Whatever the bytes are, scanning ends, and covers the file without overlap.
func FuzzScan(f *testing.F) {
	l := newTestLog(f, true)
	for i := range 6 {
		l.add(2, 20, record.BatchOptions{Codec: record.Codec(i % 5)})
	}
	f.Add(l.log, 0, byte(0))
	f.Add(l.log, 200, byte(1))
	f.Add(l.log[:len(l.log)-3], 8, byte(0x80))
	f.Add(make([]byte, 300), 0, byte(0))
	f.Fuzz(func(t *testing.T, data []byte, at int, flip byte) {
		data = bytes.Clone(data)
		if at >= 0 && at < len(data) {
			data[at] ^= flip
		}
		sc := newLogScanner(bytes.NewReader(data), int64(len(data)), 0)
		var p payloads
		for pos := record.Pos(0); ; pos = sc.pos {
			b, h, err := sc.next()
			if err != nil {
				if pos != record.Pos(len(data)) {
					t.Fatalf("ended at %d of %d: %v", pos, len(data), err)
				}
				return
			}
			if sc.pos <= pos || (h == nil && sc.pos-pos != record.Pos(b.Size())) {
				t.Fatalf("from %d to %d", pos, sc.pos)
			}
			if h == nil {
				p.each(&b, func(*record.Record) error { return nil })
				sc.low = b.NextOffset()
			}
		}
	})
}

func TestFindPartitions(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{
		"topics/orders/0/00000000000000000000.log", "topics/orders/2/00000000000000000000.log",
		"topics/orders/10/00000000000000000000.log", "topics/orders/10/00000000000000000005.log",
		"topics/orders/10/00000000000000000005.index", "topics/orders/10/seals", "topics/orders/10/abc.log",
		"topics/orders/10/0000000000000000000x.log", "topics/orders/10/-0000000000000000001.log",
		"topics/orders/topic.json", "kafka/orders-0/00000000000000000007.log", "LOCK", "empty/x",
		"topics/orders/11/partition.json", "kafka/orders-1/partition.metadata",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(root, name), nil)
	}
	describe := func(parts []partitionFiles) string {
		var s strings.Builder
		for _, p := range parts {
			rel, _ := filepath.Rel(root, p.dir)
			fmt.Fprintf(&s, "%s %v", filepath.ToSlash(rel), p.ours)
			for _, f := range p.segments {
				fmt.Fprintf(&s, " %d:%v%v%v%v", f.base, f.log, f.index, f.timeIndex, f.last)
			}
			s.WriteString("\n")
		}
		return strings.NewReplacer("true", "t", "false", "f").Replace(s.String())
	}
	for path, want := range map[string]string{
		".":                "kafka/orders-0 f 7:tfft\ntopics/orders/0 t 0:tfft\ntopics/orders/2 t 0:tfft\ntopics/orders/10 t 0:tfff 5:ttft\ntopics/orders/11 t\n",
		"topics/orders/11": "topics/orders/11 t\n",
		"topics/orders/10/00000000000000000005.index": "topics/orders/10 t 5:ttft\n",
	} {
		found, err := findPartitions([]string{filepath.Join(root, path)}, true)
		var parts []partitionFiles
		if found != nil {
			parts = found.parts
		}
		if got := describe(parts); err != nil || got != want {
			t.Errorf("%s: %v\n%s", path, err, got)
		}
	}
	elsewhere := filepath.Join(t.TempDir(), "orders-1") // in no data directory
	if err := os.Mkdir(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(elsewhere, "partition.metadata"), nil)
	for _, path := range []string{
		filepath.Join(root, "nothing"), filepath.Join(root, "LOCK"), filepath.Join(root, "topics/orders/10/abc.log"),
		elsewhere, filepath.Dir(elsewhere),
	} {
		if _, err := findPartitions([]string{path}, true); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
}

func TestCompareNatural(t *testing.T) {
	for _, sorted := range [][]string{
		{"orders", "orders/0", "orders/2", "orders/10", "orders/10/1", "ordersx"},
		{"a-1", "a-02", "a-3", "b-1"},
		{"a0", "a00b"},
	} {
		for i := range sorted {
			for j := range i {
				if compareNatural(sorted[j], sorted[i]) >= 0 || compareNatural(sorted[i], sorted[j]) <= 0 {
					t.Errorf("%q is not before %q", sorted[j], sorted[i])
				}
			}
		}
	}
}

func crc32Update(sum uint32, p []byte) uint32 { return crc32.Update(sum, castagnoli, p) }
