package cli

import (
	"fmt"
	"strings"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/wal"
)

// dumpJournal heads what a file of the journal holds.
type dumpJournal struct {
	Type    string `json:"type"` // "file"
	Path    string `json:"path"`
	Number  uint64 `json:"number,omitempty"` // in its name
	Bytes   int64  `json:"bytes"`
	Rounds  int64  `json:"rounds"`
	Damaged string `json:"damaged,omitempty"`
}

func (f *dumpJournal) text() string {
	s := fmt.Sprintf("%s  %s, %s", f.Path, bytesText(f.Bytes), count(f.Rounds, "round"))
	if f.Damaged != "" {
		s += "\n  damaged: " + f.Damaged
	}
	return s
}

type dumpRound struct {
	Type       string `json:"type"`            // "round"
	Number     uint64 `json:"round,omitempty"` // left out where its header is lost
	Position   int64  `json:"position"`
	Frames     int    `json:"frames"` // those that are there
	Last       bool   `json:"last,omitempty"`
	Damaged    string `json:"damaged,omitempty"`
	Unfinished string `json:"unfinished,omitempty"`
}

func (r *dumpRound) text() string {
	var s strings.Builder
	name := "round"
	if r.Number > 0 {
		name = fmt.Sprintf("round %d", r.Number)
	}
	fmt.Fprintf(&s, "  %s at position %d: %s", name, r.Position, count(int64(r.Frames), "frame"))
	if r.Number > 0 && r.Frames == 0 && r.Damaged == "" && r.Unfinished == "" {
		s.WriteString(", a closing mark")
	}
	if r.Last {
		s.WriteString(", the last")
	}
	if r.Unfinished != "" {
		s.WriteString(", unfinished: " + r.Unfinished)
	}
	if r.Damaged != "" {
		s.WriteString(", damaged: " + r.Damaged)
	}
	return s.String()
}

type dumpFrame struct {
	Type      string        `json:"type"`            // "frame"
	Kind      string        `json:"kind"`            // "data", "direct", "cut"
	Topic     string        `json:"topic,omitempty"` // where there is one with the id
	TopicID   string        `json:"topic_id"`
	Partition int32         `json:"partition"`
	Base      record.Offset `json:"base_offset"` // of the segment
	Position  record.Pos    `json:"position"`    // in its log file
	Bytes     int64         `json:"bytes"`
	Next      record.Offset `json:"next_offset"`
	TakenBack int64         `json:"taken_back,omitempty"` // bytes behind those, by the next round
	Damaged   bool          `json:"damaged,omitempty"`
}

func newDumpFrame(f *wal.Frame, topics map[[16]byte]namedTopic) *dumpFrame {
	id := f.Log.Topic
	l := &dumpFrame{
		Type: "frame", Kind: "data", Topic: topics[id].name, Partition: f.Log.Partition,
		TopicID: idText(id),
		Base:    f.Base, Position: f.Pos, Bytes: f.Length, Next: f.Next, TakenBack: f.TakenBack,
	}
	switch f.Kind {
	case wal.Direct:
		l.Kind = "direct"
	case wal.Cut:
		l.Kind = "cut"
	default:
		l.Damaged = f.Payload == nil && f.Length > 0
	}
	return l
}

func (f *dumpFrame) text() string {
	topic := f.Topic
	if topic == "" {
		topic = f.TopicID
	}
	s := fmt.Sprintf("    %s %s/%d, segment %d: %s at position %d, next offset %d",
		f.Kind, topic, f.Partition, f.Base, count(f.Bytes, "byte"), f.Position, f.Next)
	if f.TakenBack > 0 {
		s += fmt.Sprintf(", %s behind them taken back", count(f.TakenBack, "byte"))
	}
	if f.Damaged {
		s += ", damaged"
	}
	return s
}
