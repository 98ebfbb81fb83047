package record

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The golden files are batches made by Apache Kafka's own Java client, each
// with a description in JSON of what the client reads back from them.
const goldenDir = "testdata/golden"

type goldenFile struct {
	Batches []goldenBatch `json:"batches"`
}

type goldenBatch struct {
	BaseOffset      Offset         `json:"baseOffset"`
	Length          int32          `json:"length"`
	LeaderEpoch     Epoch          `json:"leaderEpoch"`
	Magic           int8           `json:"magic"`
	CRC             uint32         `json:"crc"`
	Attributes      Attributes     `json:"attributes"`
	LastOffsetDelta int32          `json:"lastOffsetDelta"`
	BaseTimestamp   int64          `json:"baseTimestamp"`
	MaxTimestamp    int64          `json:"maxTimestamp"`
	ProducerID      int64          `json:"producerId"`
	ProducerEpoch   int16          `json:"producerEpoch"`
	BaseSequence    int32          `json:"baseSequence"`
	Count           int32          `json:"count"`
	Codec           string         `json:"codec"`
	LogAppendTime   bool           `json:"logAppendTime"`
	Transactional   bool           `json:"transactional"`
	Control         bool           `json:"control"`
	Records         []goldenRecord `json:"records"`
}

type goldenRecord struct {
	Offset    Offset         `json:"offset"`
	Timestamp int64          `json:"timestamp"`
	Key       []byte         `json:"key"` // null stays nil
	Value     []byte         `json:"value"`
	Headers   []goldenHeader `json:"headers"`
}

type goldenHeader struct {
	Key   string
	Value []byte
}

func (h *goldenHeader) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&h.Key, &h.Value})
}

func (g *goldenRecord) record() Record {
	r := Record{Offset: g.Offset, Timestamp: g.Timestamp, Key: g.Key, Value: g.Value}
	for _, h := range g.Headers {
		r.Headers = append(r.Headers, Header(h))
	}
	return r
}

// goldenFiles calls f with the bytes and the description of every golden file.
func goldenFiles(t testing.TB, f func(name string, data []byte, want goldenFile)) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(goldenDir, "*.bin"))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 20 {
		t.Fatalf("%d golden files in %s, want 20 at least", len(names), goldenDir)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(strings.TrimSuffix(name, ".bin") + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var want goldenFile
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f(strings.TrimSuffix(filepath.Base(name), ".bin"), data, want)
	}
}

func TestGolden(t *testing.T) {
	shapes := map[string]int{}
	goldenFiles(t, func(name string, data []byte, want goldenFile) {
		t.Run(name, func(t *testing.T) {
			for i, w := range want.Batches {
				b, err := Parse(data)
				if err != nil {
					t.Fatalf("batch %d: %v", i, err)
				}
				checkGoldenHeader(t, &b, &w)
				records := checkGoldenRecords(t, &b, &w)
				if w.Codec == "none" && dense(&w) && !b.Attributes.DeleteHorizon() {
					checkRebuilt(t, &b, records)
					shapes["rebuilt"]++
				}
				shapes[w.Codec]++
				data = data[b.Size():]
			}
			if len(data) != 0 {
				t.Errorf("%d bytes after the last batch", len(data))
			}
		})
	})
	for _, s := range []string{"rebuilt", "none", "gzip", "snappy", "lz4", "zstd"} {
		if shapes[s] < 5 {
			t.Errorf("%d golden batches are %s, want 5 at least", shapes[s], s)
		}
	}
}

func checkGoldenHeader(t *testing.T, b *Batch, w *goldenBatch) {
	t.Helper()
	got := goldenBatch{
		BaseOffset: b.BaseOffset, Length: b.Length, LeaderEpoch: b.LeaderEpoch, Magic: b.Magic,
		CRC: b.CRC, Attributes: b.Attributes, LastOffsetDelta: b.LastOffsetDelta,
		BaseTimestamp: b.BaseTimestamp, MaxTimestamp: b.MaxTimestamp,
		ProducerID: b.ProducerID, ProducerEpoch: b.ProducerEpoch, BaseSequence: b.BaseSequence,
		Count: b.Count, Codec: b.Attributes.Codec().String(),
		LogAppendTime: b.Attributes.LogAppendTime(), Transactional: b.Attributes.Transactional(),
		Control: b.Attributes.Control(), Records: w.Records,
	}
	wantJSON, _ := json.Marshal(w)
	gotJSON, _ := json.Marshal(got)
	if !bytes.Equal(gotJSON, wantJSON) {
		t.Errorf("header\n got %s\nwant %s", gotJSON, wantJSON)
	}
	if err := b.Verify(); err != nil {
		t.Error(err)
	}
	if codec, err := ParseCodec(w.Codec); err != nil || codec != b.Attributes.Codec() {
		t.Errorf("codec %v (%v), want %s", codec, err, w.Codec)
	}
}

func checkGoldenRecords(t *testing.T, b *Batch, w *goldenBatch) []Record {
	t.Helper()
	payload, err := b.Payload(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	sameBothWays(t, b, payload)
	records := decode(t, b)
	if len(records) != len(w.Records) {
		t.Fatalf("%d records, want %d", len(records), len(w.Records))
	}
	for i := range records {
		sameRecord(t, i, records[i], w.Records[i].record())
	}
	return records
}

func dense(w *goldenBatch) bool {
	for i, r := range w.Records {
		if r.Offset != w.BaseOffset+Offset(i) {
			return false
		}
	}
	return w.Count > 0 && w.LastOffsetDelta == w.Count-1
}

// checkRebuilt builds the batch again from its records and wants the bytes Kafka made.
func checkRebuilt(t *testing.T, b *Batch, records []Record) {
	t.Helper()
	o := BatchOptions{
		Codec:         b.Attributes.Codec(),
		LogAppendTime: b.Attributes.LogAppendTime(),
		AppendTime:    b.MaxTimestamp,
		Epoch:         b.LeaderEpoch,
		HasProducer:   b.ProducerID >= 0,
		ProducerID:    b.ProducerID,
		ProducerEpoch: b.ProducerEpoch,
		BaseSequence:  b.BaseSequence,
		Transactional: b.Attributes.Transactional(),
		Control:       b.Attributes.Control(),
	}
	if o.LogAppendTime {
		// What a producer had set is still in the bytes, below what readers see.
		plain := *b
		plain.Attributes &^= flagLogAppendTime
		records = decode(t, &plain)
	}
	var bld Builder
	bld.Reset(nil, b.BaseOffset, o)
	for _, r := range records {
		bld.Add(r.Timestamp, r.Key, r.Value, r.Headers)
	}
	if got := bld.Finish(); !bytes.Equal(got, b.Bytes()) {
		t.Errorf("rebuilt batch differs\n got %x\nwant %x", clip(got), clip(b.Bytes()))
	}
}

func clip(b []byte) []byte { return b[:min(len(b), 256)] }
