package cli

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/varvelog/varve/record"
)

// dumpFile heads what a file holds.
type dumpFile struct {
	Type  string        `json:"type"` // "segment", "index", "time_index"
	Path  string        `json:"path"`
	Base  record.Offset `json:"base_offset"`
	Bytes int64         `json:"bytes"`
}

func newDumpFile(kind, path string, base record.Offset) *dumpFile {
	f := &dumpFile{Type: kind, Path: path, Base: base}
	if info, err := os.Stat(path); err == nil {
		f.Bytes = info.Size()
	}
	return f
}

func (f *dumpFile) text() string { return fmt.Sprintf("%s  %s", f.Path, bytesText(f.Bytes)) }

type dumpBatch struct {
	Type          string        `json:"type"` // "batch"
	Position      record.Pos    `json:"position"`
	Bytes         int           `json:"bytes"`
	BaseOffset    record.Offset `json:"base_offset"`
	LastOffset    record.Offset `json:"last_offset"`
	Records       int32         `json:"records"`
	Epoch         record.Epoch  `json:"leader_epoch"`
	CRC           uint32        `json:"crc"`
	Codec         string        `json:"codec"`
	BaseTimestamp int64         `json:"base_timestamp"`
	MaxTimestamp  int64         `json:"max_timestamp"`
	LogAppendTime bool          `json:"log_append_time"`
	Transactional bool          `json:"transactional"`
	Control       bool          `json:"control"`
	ProducerID    int64         `json:"producer_id"`
	ProducerEpoch int16         `json:"producer_epoch"`
	BaseSequence  int32         `json:"base_sequence"`
}

func newDumpBatch(b *record.Batch, at record.Pos) *dumpBatch {
	return &dumpBatch{
		Type: "batch", Position: at, Bytes: b.Size(),
		BaseOffset: b.BaseOffset, LastOffset: b.LastOffset(), Records: b.Count,
		Epoch: b.LeaderEpoch, CRC: b.CRC, Codec: b.Attributes.Codec().String(),
		BaseTimestamp: b.BaseTimestamp, MaxTimestamp: b.MaxTimestamp,
		LogAppendTime: b.Attributes.LogAppendTime(),
		Transactional: b.Attributes.Transactional(), Control: b.Attributes.Control(),
		ProducerID: b.ProducerID, ProducerEpoch: b.ProducerEpoch, BaseSequence: b.BaseSequence,
	}
}

func (b *dumpBatch) text() string {
	var s strings.Builder
	fmt.Fprintf(&s, "  batch at position %d: offsets %d to %d, %s, %s, %s, epoch %d, largest time %s",
		b.Position, b.BaseOffset, b.LastOffset, count(int64(b.Records), "record"), count(int64(b.Bytes), "byte"),
		b.Codec, b.Epoch, timeText(b.MaxTimestamp))
	if b.LogAppendTime {
		s.WriteString(" of the append")
	}
	if b.ProducerID >= 0 {
		fmt.Fprintf(&s, ", producer %d epoch %d sequence %d", b.ProducerID, b.ProducerEpoch, b.BaseSequence)
	}
	if b.Transactional {
		s.WriteString(", transactional")
	}
	if b.Control {
		s.WriteString(", control")
	}
	fmt.Fprintf(&s, ", crc %08x", b.CRC)
	return s.String()
}

// dumpRecord is a record as consume prints it, with a type in front.
type dumpRecord struct {
	r       *record.Record
	control string // what a control record marks
}

func newDumpRecord(r *record.Record, control bool) *dumpRecord {
	d := &dumpRecord{r: r}
	if control {
		d.control = controlType(r.Key)
	}
	return d
}

func (d *dumpRecord) MarshalJSON() ([]byte, error) {
	dst := []byte(`{"type":"record",`)
	if d.control != "" {
		dst = append(dst, `"control":"`+d.control+`",`...)
	}
	// appendRecord begins with {"partition":0, of which a file knows nothing.
	object := appendRecord(nil, d.r)
	_, rest, _ := strings.Cut(string(object), ",")
	return append(dst, rest...), nil
}

func (d *dumpRecord) text() string {
	s := fmt.Sprintf("    %d  %s  ", d.r.Offset, timeText(d.r.Timestamp))
	if d.control != "" {
		return s + d.control
	}
	s += "key " + quoted(d.r.Key) + "  value " + quoted(d.r.Value)
	for _, h := range d.r.Headers {
		s += "  header " + quoted([]byte(h.Key)) + "=" + quoted(h.Value)
	}
	return s
}

// quoted writes bytes so that they stay on one line and of a bearable length.
func quoted(b []byte) string {
	const most = 120
	if b == nil {
		return "null"
	}
	if len(b) <= most {
		return strconv.Quote(string(b))
	}
	cut := most
	for cut > most-utf8.UTFMax && !utf8.RuneStart(b[cut]) {
		cut--
	}
	return strconv.Quote(string(b[:cut])) + "… (" + count(int64(len(b)), "byte") + ")"
}

// controlType names a control record after its key: version and type, both
// int16 (Kafka's ControlRecordType).
func controlType(key []byte) string {
	if len(key) < 4 {
		return "unknown"
	}
	switch n := int(key[2])<<8 | int(key[3]); n {
	case 0:
		return "abort"
	case 1:
		return "commit"
	default:
		return "type " + strconv.Itoa(n)
	}
}

type dumpIndexEntry struct {
	Type     string        `json:"type"` // "index_entry"
	Offset   record.Offset `json:"offset"`
	Position record.Pos    `json:"position"`
}

func (e *dumpIndexEntry) text() string {
	return fmt.Sprintf("  offset %d: position %d", e.Offset, e.Position)
}

type dumpTimeEntry struct {
	Type      string        `json:"type"` // "time_index_entry"
	Timestamp int64         `json:"timestamp"`
	Offset    record.Offset `json:"offset"`
}

func (e *dumpTimeEntry) text() string {
	return fmt.Sprintf("  %s: offset %d", timeText(e.Timestamp), e.Offset)
}
