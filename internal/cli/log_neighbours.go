package cli

import (
	"fmt"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// heads appends to dst those of the batches from a position on, as far as they
// look like batches, and at the end of the file those of the next file.
func (s *logScanner) heads(from record.Pos, dst []segment.Head) []segment.Head {
	const magicAt = 16
	for from < s.size && len(dst) < segment.Ahead {
		raw := s.glance(from)
		if len(raw) < record.BatchOverhead || raw[magicAt] != 2 {
			return dst
		}
		size, err := record.PeekSize(raw)
		if err != nil || size > int64(s.size-from) {
			return dst
		}
		dst = append(dst, segment.HeadOf(raw))
		from += record.Pos(size)
	}
	return append(dst, s.beyond[:min(len(s.beyond), segment.Ahead-len(dst))]...)
}

// glance returns the bytes of a header and leaves the window where it is, because
// the batch in it is still in use.
func (s *logScanner) glance(at record.Pos) []byte {
	if from := int64(at - s.bufAt); from >= 0 && from+record.BatchOverhead <= int64(len(s.buf)) {
		return s.buf[from:][:record.BatchOverhead]
	}
	raw := make([]byte, record.BatchOverhead)
	n, _ := s.f.ReadAt(raw, int64(at)) // an error comes back when the batch is read
	return raw[:n]
}

// firstHeads are those the log file of a segment begins with; of one that cannot be
// read, none.
func firstHeads(s *segmentFiles) []segment.Head {
	f, size, err := s.open()
	if err != nil {
		return nil
	}
	defer f.Close()
	return newLogScanner(f, size, 0).heads(0, nil)
}

// beyond are the first heads behind segment i.
func (p *partitionFiles) beyond(i int) []segment.Head {
	if i+1 >= len(p.segments) || !p.segments[i+1].log {
		return nil
	}
	return firstHeads(&p.segments[i+1])
}

// judge says why b cannot stand where it is, or "", and moves the chain on behind
// it. Nothing that is at fault is carried on: the next batch is held against the
// last one that was believed. placed says that b's base offset is.
func (w *logWalk) judge(b *record.Batch, behind []segment.Head) (why string, placed bool) {
	c := &w.chain
	n := record.Offset(b.LastOffsetDelta) + 1 // under the checksum
	var epochs []int64
	for _, h := range behind {
		epochs = append(epochs, int64(h.Epoch))
	}
	epochWhy := w.judgeEpoch(b.LeaderEpoch, epochs)
	believed := *b
	if epochWhy != "" {
		believed.LeaderEpoch = c.Epoch
	}
	if !c.Exact {
		why = segment.TooHigh(b, c.Next, 0, behind)
	}
	if why == "" {
		why = c.Accept(&believed)
	}
	if why == "" {
		return epochWhy, true
	}
	// The next one may be off by what is missing here without being a second fault.
	c.Next += n
	c.Exact = false
	return why, false
}

// judgeEpoch says why an epoch cannot stand between those before and behind it.
func (w *logWalk) judgeEpoch(epoch record.Epoch, behind []int64) string {
	before := w.chain.Epoch
	switch {
	case epoch < -1:
		return fmt.Sprintf("leader epoch is %d, which is none", epoch)
	case epoch < before:
		if len(behind) > 0 && int64(epoch) <= behind[0] && behind[0] < int64(before) {
			w.chain.Epoch = epoch // they agree against the one before: told once
		}
		return fmt.Sprintf("leader epoch %d is below %d, that of the batch before", epoch, before)
	case sticksOut(int64(epoch), int64(before), behind):
		return fmt.Sprintf("leader epoch %d is above %d, that of the batch behind", epoch, behind[0])
	}
	return ""
}

// sticksOut says that v is above what comes behind it, which itself is not below
// what was before, and that no second one behind takes v's part.
func sticksOut(v, before int64, behind []int64) bool {
	return len(behind) > 0 && before <= behind[0] && behind[0] < v && (len(behind) < 2 || behind[1] < v)
}
