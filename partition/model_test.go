package partition_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
)

// TestLogAgreesWithASlice takes random steps with a log and with a plain slice of
// records beside it. After each they hold the same.
func TestLogAgreesWithASlice(t *testing.T) { rapid.Check(t, modelProgram) }

func FuzzLogAgreesWithASlice(f *testing.F) { f.Fuzz(rapid.MakeFuzz(modelProgram)) }

func modelProgram(t *rapid.T) {
	m := newModel(t)
	steps := map[string]func(*rapid.T){
		"publish": m.publish, "publish many": m.publishMany, "conditional": m.conditional,
		"roll by age": m.rollByAge, "trim": m.trim, "retain": m.retain, "tidy": m.tidy,
		"restart": m.restart, "kill": m.kill, "power cut": m.powerCut, "clock": m.clock,
		"read": m.read, "find time": m.findTime, "": m.check,
	}
	t.Repeat(steps)
}

// model is a log and the records it should hold, by offset; those below start are
// gone.
type model struct {
	*rig
	recs    []record.Record
	start   offset
	durable int // records that a power cut leaves
	cp      *partition.Checkpoint
}

func newModel(t *rapid.T) *model {
	cfg := small(rapid.SampledFrom([]partition.Level{partition.Fsync, partition.Interval, partition.OS}).Draw(t, "level"))
	cfg.SegmentBytes = rapid.Int64Range(64, 2000).Draw(t, "segment.bytes")
	cfg.AppendTime = rapid.Bool().Draw(t, "append time")
	cfg.MaxBatchBytes = rapid.IntRange(400, 4000).Draw(t, "max.message.bytes")
	cfg.Index.Interval = rapid.IntRange(1, 500).Draw(t, "index.interval.bytes")
	cfg.Index.MaxBytes = rapid.IntRange(24, 200).Draw(t, "segment.index.bytes")
	return &model{rig: newRig(t, cfg)}
}

// draw makes a record.
func (m *model) draw(t *rapid.T) record.Record {
	bytes := func(name string) []byte {
		switch n := rapid.IntRange(-1, 40).Draw(t, name); {
		case n < 0:
			return nil
		default:
			m.serial++
			return fmt.Appendf(make([]byte, 0, n+8), "%0*d", n, m.serial)[:n:n]
		}
	}
	rec := record.Record{Key: bytes("key"), Value: bytes("value")}
	rec.Timestamp = rapid.OneOf(
		rapid.SampledFrom([]int64{0, record.NoTimestamp, -5, 1 << 62}), rapid.Int64Range(1_699_999_999_000, 1_700_000_001_000),
	).Draw(t, "timestamp")
	for range rapid.IntRange(0, 2).Draw(t, "headers") {
		rec.Headers = append(rec.Headers, record.Header{Key: "h", Value: bytes("header")})
	}
	return rec
}

func (m *model) request(t *rapid.T) *sent {
	recs := rapid.SliceOfN(rapid.Custom(m.draw), 1, 5).Draw(t, "records")
	s := m.send(0, func(a *partition.Append) {
		a.Records, a.Size = recs, record.BatchOverhead
		for _, r := range recs {
			a.Size += 36 + len(r.Key) + len(r.Value)
			for _, h := range r.Headers {
				a.Size += 10 + len(h.Key) + len(h.Value)
			}
		}
		a.Codec = rapid.SampledFrom([]record.Codec{record.None, record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd}).Draw(t, "codec")
		if rapid.Bool().Draw(t, "finished") {
			a.Batch = finishedBatch(recs, a.Codec, m.now)
		}
	})
	s.vals = nil
	return s
}

func finishedBatch(recs []record.Record, codec record.Codec, now int64) *record.Batch {
	var b record.Builder
	b.Reset(nil, 0, record.BatchOptions{Codec: codec})
	for i := range recs {
		if recs[i].Timestamp == 0 {
			recs[i].Timestamp = now
		}
		b.Add(recs[i].Timestamp, recs[i].Key, recs[i].Value, recs[i].Headers)
	}
	batch, err := record.Parse(b.Finish())
	if err != nil {
		panic(err)
	}
	return &batch
}

// hand gives requests to the log, together, and enters what became of them.
func (m *model) hand(t *rapid.T, reqs ...*sent) {
	for _, s := range reqs {
		m.log.Enqueue(&s.Append)
	}
	m.drain()
	m.step()
	for _, s := range reqs {
		if !s.told {
			t.Fatalf("a request was not told")
		}
		var large *partition.TooLargeError
		switch next := offset(len(m.recs)); {
		case errors.As(s.Err, &large):
			if large.Size <= m.cfg.MaxBatchBytes {
				t.Fatalf("%v", s.Err)
			}
			continue
		case s.Expect >= 0 && s.Expect != next:
			var conflict *partition.ConflictError
			if !errors.As(s.Err, &conflict) || conflict.Next != next {
				t.Fatalf("expecting %d at %d gives %v", s.Expect, next, s.Err)
			}
			continue
		case s.Err != nil || s.Base != next:
			t.Fatalf("got offset %d (%v), expected %d", s.Base, s.Err, next)
		}
		for _, rec := range s.Records {
			rec.Offset = offset(len(m.recs))
			if m.cfg.AppendTime {
				rec.Timestamp = s.Time
			}
			m.recs = append(m.recs, rec)
		}
	}
	if m.cfg.Level == partition.Fsync {
		m.durable = len(m.recs)
	}
}

func (m *model) publish(t *rapid.T) { m.hand(t, m.request(t)) }

func (m *model) publishMany(t *rapid.T) {
	var reqs []*sent
	for range rapid.IntRange(2, 6).Draw(t, "requests") {
		reqs = append(reqs, m.request(t))
	}
	m.hand(t, reqs...)
}

func (m *model) conditional(t *rapid.T) {
	var reqs []*sent
	for range rapid.IntRange(1, 3).Draw(t, "requests") {
		s := m.request(t)
		s.Expect = offset(len(m.recs) + rapid.IntRange(-1, 3).Draw(t, "off by"))
		if s.Expect < 0 {
			s.Expect = 0
		}
		reqs = append(reqs, s)
	}
	m.hand(t, reqs...)
}

func (m *model) rollByAge(*rapid.T) {
	m.now += 2 * m.cfg.SegmentAge.Milliseconds()
	check(m.t, m.log.RollIfDue())
	m.step()
}

func (m *model) trim(t *rapid.T) {
	to := rapid.Int64Range(0, int64(len(m.recs))+2).Draw(t, "to")
	start, err := m.log.Trim(offset(to))
	m.step()
	if out := new(partition.OutOfRangeError); offset(to) > offset(len(m.recs)) {
		if !errors.As(err, &out) {
			t.Fatalf("trim to %d of %d: %v", to, len(m.recs), err)
		}
		return
	}
	m.start = max(m.start, offset(to))
	if err != nil || start != m.start {
		t.Fatalf("trim to %d: the start is %d (%v), expected %d", to, start, err, m.start)
	}
}

// retain lets retention take what it will, which must be whole segments from the
// front that leave no less than asked for.
func (m *model) retain(t *rapid.T) {
	cfg := m.cfg
	cfg.RetentionBytes = rapid.Int64Range(0, 3000).Draw(t, "retention.bytes")
	check(m.t, m.log.Configure(cfg))
	before := m.log.Stats()
	_, err := m.log.Retain()
	check(m.t, err)
	check(m.t, m.log.Configure(m.cfg))
	m.step()
	var bytes int64
	want := before.Start
	for i, s := range slices.Backward(before.Segments) {
		if i < len(before.Segments)-1 && bytes >= cfg.RetentionBytes {
			want = max(want, s.Next)
			break
		}
		bytes += s.Bytes
	}
	if m.start = m.log.Start(); m.start != want {
		t.Fatalf("retention of %d bytes moved the start to %d, expected %d: %+v", cfg.RetentionBytes, m.start, want, before.Segments)
	}
}

func (m *model) tidy(*rapid.T) { m.rig.tidy() }

func (m *model) clock(t *rapid.T) { m.now += rapid.Int64Range(-10_000, 10_000).Draw(t, "by") }

func (m *model) restart(*rapid.T) {
	cp, err := m.log.Close()
	check(m.t, err)
	m.durable = len(m.recs)
	m.open(&cp, true)
	m.cp = &cp
}

func (m *model) kill(t *rapid.T) { m.reopen(t, m.disk.Clone(), len(m.recs)) }

func (m *model) powerCut(t *rapid.T) {
	how := vfs.CrashOptions{
		Seed:     rapid.Uint64().Draw(t, "seed"),
		Unsynced: vfs.Unsynced(rapid.IntRange(0, 4).Draw(t, "unsynced")), Names: vfs.Names(rapid.IntRange(0, 3).Draw(t, "names")),
	}
	m.reopen(t, m.disk.Crash(how), m.durable)
}

func (m *model) reopen(t *rapid.T, disk *vfs.Mem, atLeast int) {
	if rapid.Bool().Draw(t, "forget the checkpoint") {
		m.cp = nil
	}
	m.disk = disk
	m.open(m.cp, false)
	end := int(m.log.End())
	if end < max(atLeast, int(m.start)) || end > max(len(m.recs), int(m.start)) {
		t.Fatalf("a start ends at %d, there were %d records and at least %d had to stay", end, len(m.recs), atLeast)
	}
	m.recs = m.recs[:min(end, len(m.recs))]
	for len(m.recs) < end { // the log start is ahead of what is left
		m.recs = append(m.recs, record.Record{Offset: offset(len(m.recs))})
	}
	m.durable = end
	m.cp = m.snapshot()
	m.wrote, m.told, m.high = map[offset]string{}, 0, 0
	if line := m.logged.with("level=ERROR"); len(line) > 0 {
		t.Fatalf("the start says %v", line)
	}
}

// check compares all there is.
func (m *model) check(t *rapid.T) {
	if m.log.Start() != m.start || m.log.LogEnd() != offset(len(m.recs)) || m.log.End() != m.log.LogEnd() {
		t.Fatalf("there is [%d, %d), %d to be seen; expected [%d, %d)", m.log.Start(), m.log.LogEnd(), m.log.End(), m.start, len(m.recs))
	}
	m.compare(t, m.start, 1<<20)
	st := m.log.Stats()
	var bytes int64
	next := st.Segments[0].Base
	for i, s := range st.Segments {
		bytes += s.Bytes
		if s.Base != next && next > m.start || s.Sealed != (i < len(st.Segments)-1) {
			t.Fatalf("segment %d of %+v", i, st.Segments)
		}
		next = s.Next
	}
	if bytes != st.Bytes || next != offset(len(m.recs)) && next > m.start {
		t.Fatalf("stats are %+v", st)
	}
}

// compare reads from an offset, in pieces.
func (m *model) compare(t *rapid.T, from offset, most int) {
	var c partition.Cursor
	next := from
	for {
		chunk, err := m.log.Read(nil, most, next, &c)
		if err != nil {
			t.Fatalf("read at %d: %v", next, err)
		}
		if len(chunk.Data) == 0 {
			break
		}
		for data := chunk.Data; len(data) > 0; {
			b, err := record.Parse(data)
			check(m.t, err)
			data = data[b.Size():]
			payload, err := b.Payload(nil, 0)
			check(m.t, err)
			it := b.Records(payload)
			for got := (record.Record{}); it.Next(&got); {
				if got.Offset < next {
					continue
				}
				if got.Offset != next {
					t.Fatalf("read offset %d, expected %d", got.Offset, next)
				}
				m.same(t, got)
				next++
			}
		}
	}
	if next != offset(len(m.recs)) && next < offset(len(m.recs)) {
		t.Fatalf("reading from %d ended at %d of %d", from, next, len(m.recs))
	}
}

// same compares one record. A time that was left to the log is learnt.
func (m *model) same(t *rapid.T, got record.Record) {
	want := &m.recs[got.Offset]
	if want.Timestamp == 0 && !m.cfg.AppendTime {
		want.Timestamp = got.Timestamp
	}
	if a, b := fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", *want); a != b {
		t.Fatalf("read %s, published %s", a, b)
	}
}

func (m *model) read(t *rapid.T) {
	from := rapid.Int64Range(0, int64(len(m.recs))+1).Draw(t, "from")
	if out := new(partition.OutOfRangeError); offset(from) < m.start || offset(from) > offset(len(m.recs)) {
		var c partition.Cursor
		_, err := m.log.Read(nil, 100, offset(from), &c)
		if !errors.As(err, &out) || out.Start != m.start || out.End != offset(len(m.recs)) {
			t.Fatalf("reading at %d of [%d, %d) gives %v", from, m.start, len(m.recs), err)
		}
		return
	}
	m.compare(t, offset(from), rapid.IntRange(1, 5000).Draw(t, "most"))
}

// findTime looks a time up, and scans for it.
func (m *model) findTime(t *rapid.T) {
	m.check(t) // learns the times
	times := map[int64]bool{0: true, -10: true, 1 << 62: true, 1_700_000_000_000: true}
	for _, r := range m.recs {
		times[r.Timestamp], times[r.Timestamp+1] = true, true
	}
	ts := rapid.SampledFrom(slices.Sorted(maps.Keys(times))).Draw(t, "time")
	want, any := offset(0), false
	for _, r := range m.recs[min(int(m.start), len(m.recs)):] {
		if r.Timestamp >= ts && r.Timestamp != record.NoTimestamp {
			want, any = r.Offset, true
			break
		}
	}
	got, found, err := m.log.FindTime(ts, 0)
	if err != nil || found != any || got != want && any {
		t.Fatalf("time %d is found at %d (%t, %v), a scan finds %d (%t)", ts, got, found, err, want, any)
	}
}
