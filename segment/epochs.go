package segment

import "github.com/varvelog/varve/record"

// EpochStart says with which offset a leader epoch begins.
type EpochStart struct {
	Epoch record.Epoch
	Start record.Offset
}

// AppendEpochs adds the epochs that begin in the segment to those of the
// segments before it. Only a segment in which the epoch changes is read.
func (s *Segment) AppendEpochs(e []EpochStart) []EpochStart {
	if s.Size() == 0 {
		return e
	}
	add := func(epoch record.Epoch, start record.Offset) {
		if n := len(e); n == 0 || e[n-1].Epoch < epoch {
			e = append(e, EpochStart{epoch, start})
		}
	}
	add(record.Epoch(s.firstEpoch.Load()), s.base)
	if s.firstEpoch.Load() == s.lastEpoch.Load() {
		return e
	}
	h, err := s.pin()
	if err != nil {
		return e
	}
	defer h.unpin()
	if x := s.headsOf(h.file); x != nil && x.epochs != nil {
		for _, turn := range x.epochs {
			add(turn.Epoch, turn.Start)
		}
		return e
	}
	w := s.walk(h, s.Size())
	w.Batch = func(b *record.Batch, _ record.Pos) bool {
		add(b.LeaderEpoch, b.BaseOffset)
		return true
	}
	if err := w.Run(); err != nil {
		return e // what was found so far; the rest is found by the next who asks
	}
	return e
}
