package varve

import (
	"errors"

	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/wal"
)

// gathering is what goes into one round of the wal.
type gathering struct {
	j      *journal
	room   int64
	buf    []byte // the bytes of frames
	frames []wal.Frame
	tasks  []*logJournal
	carry  []*logJournal // those of which the frames have the bytes
	back   []*logJournal // of those, whose files have refused them
}

// dataBytes is what the bytes of a round take of one of the wal: with as many frames to
// take them back, of which one is used at most.
func dataBytes(r *partition.Round) (n int64) {
	for _, g := range r.Ranges {
		n += wal.FrameBytes(int64(g.To-g.From)) + wal.CutBytes
	}
	return n
}

// reserve makes room for a task, if need be by writing what there is.
func (g *gathering) reserve(size int64) {
	if size > g.room {
		g.write()
	}
	g.room -= size
}

// data enters the bytes of a round.
func (g *gathering) data(t *logJournal) {
	g.reserve(dataBytes(t.round))
	before := len(g.frames)
	for i := range t.round.Ranges {
		r := &t.round.Ranges[i]
		at := len(g.buf)
		g.buf = append(g.buf, make([]byte, r.To-r.From)...)
		if err := r.Read(g.buf[at:]); err != nil { // the files may still take them
			g.frames = g.frames[:before]
			g.j.files.add(t)
			return
		}
		g.frames = append(g.frames, frame(t, i, wal.Data))
		f := &g.frames[len(g.frames)-1]
		f.Payload = g.buf[at:]
	}
	g.tasks, g.carry = append(g.tasks, t), append(g.carry, t)
}

// direct enters that the files of a round have taken it to the disk.
func (g *gathering) direct(t *logJournal) {
	for i := range t.round.Ranges { // as many as there are segments: more than one round, maybe
		g.reserve(wal.FrameBytes(wal.DirectPayload))
		g.frames = append(g.frames, frame(t, i, wal.Direct))
	}
	g.tasks = append(g.tasks, t)
}

// frame is that of one range of a round. Of those in front of the last the offsets
// end where the next segment begins.
func frame(t *logJournal, i int, kind wal.Kind) wal.Frame {
	ranges := t.round.Ranges
	r, next := ranges[i], t.round.Next
	if i+1 < len(ranges) {
		next = ranges[i+1].Base
	}
	return wal.Frame{Kind: kind, Log: t.key, Base: r.Base, Pos: r.From, Next: next, Length: int64(r.To - r.From)}
}

// write writes the round and ends those of the logs.
func (g *gathering) write() {
	if len(g.frames) > 0 {
		ahead := len(g.carry) >= storeApart
		if ahead {
			g.j.ahead <- g.carry
		}
		err := g.j.write(g.frames)
		g.j.unmarked = g.j.unmarked || err == nil
		if errors.Is(err, wal.ErrFull) {
			for _, t := range g.carry {
				t.plain = true
				g.j.files.add(t)
			}
			g.tasks, err = without(g.tasks, g.carry), nil
		}
		for _, t := range g.tasks {
			if !t.round.End(err) {
				g.back = append(g.back, t)
			}
		}
		if ahead {
			<-g.j.stored
		}
		g.takeBack()
	}
	if cap(g.buf) > 4<<20 {
		g.buf = nil
	}
	clear(g.frames)
	clear(g.tasks)
	clear(g.carry)
	g.room, g.buf, g.frames, g.tasks, g.carry = g.j.wal.MaxRound(), g.buf[:0], g.frames[:0], g.tasks[:0], g.carry[:0]
}

// takeBack writes what files have refused of the round that was just written into the next
// one, to be taken back. Nothing comes between the two, and there is room for it.
func (g *gathering) takeBack() {
	if len(g.back) == 0 {
		return
	}
	clear(g.frames)
	g.frames = g.frames[:0]
	for _, t := range g.back {
		cut := frame(t, 0, wal.Cut)
		g.frames = append(g.frames, cut, cut) // see wal.CutBytes
	}
	err := g.j.write(g.frames)
	for _, t := range g.back {
		t.round.End(err)
	}
	clear(g.back)
	g.back = g.back[:0]
}

// without are the tasks of all that are not among some, in order.
func without(all, some []*logJournal) (rest []*logJournal) {
	for _, t := range all {
		if len(some) > 0 && some[0] == t {
			some = some[1:]
			continue
		}
		rest = append(rest, t)
	}
	return rest
}
