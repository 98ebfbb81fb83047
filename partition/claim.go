package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"time"

	"github.com/varvelog/varve/internal/twin"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// everything is the durable end of a log of which nothing may be taken for torn.
const everything record.Offset = math.MaxInt64

// Claim says whose the files of a log are, while the mark of a clean stop stands:
// without the mark nothing tells a file that somebody put there from one that a
// crash left. The answer is kept in the metadata, for an opening that is cut short
// and begun again without the mark.
//
//	the files are             metadata is there   it is lost
//	as they were left         nothing to note     made anew from the checkpoint
//	fewer, or shorter         nothing to note     made anew from the checkpoint
//	others, more, or longer   refused             taken over
//	of no known checkpoint    nothing is torn     taken over, unless seals show that it is lost
//
// Others are refused until they are gone, for what stands in the way may be the only
// copy of what is missing, under another name. In a log that never had a record they
// are taken over: nothing of it can be missing.
//
// cp is what the last checkpoint kept of the log, nil where it kept nothing. Claim is to
// be called for Stopped and Clean, and again if the mark was not taken away after it. It
// changes nothing but the metadata, and bytes behind the end of the log that are no batch.
func Claim(env Env, name, dir string, cp *Checkpoint, left Left) (*Claimed, error) {
	listed, err := list(env.FS, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return new(Claimed), nil // Open says so
	}
	l := newLog(env, name, dir)
	if err == nil {
		err = l.meta.load(l)
	}
	damaged := errors.Is(err, twin.ErrDamaged)
	if err != nil && !damaged {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	found, err := l.claim(listed.bases, cp, left, damaged)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	if l.meta.generation == 0 {
		return new(Claimed), nil
	}
	return &Claimed{listed: &listed, meta: l.meta, whole: found == asLeft || found == rubbish}, nil
}

// Claimed is what Claim has seen of a log, for Open to go on with. The zero Claimed has
// seen nothing: that of a log without a record that was just made.
type Claimed struct {
	listed *listing // nil: nothing was seen
	meta   metadata
	whole  bool // the file of the active segment has the length that it was left with
}

// claim is Claim with the names of the files, and with metadata that may be damaged. It
// says how the files compare with what was left, others where that is not known.
func (l *Log) claim(bases []record.Offset, cp *Checkpoint, left Left, damaged bool) (remains, error) {
	lost := damaged || l.meta.generation == 0
	if l.meta.body.Stopped != 0 {
		left = Left{Stop: Clean, Marked: time.Unix(0, l.meta.body.Stopped)}
	}
	if left.Stop != Clean || cp == nil || !lost && cp.Taken != l.meta.body.Taken {
		if lost || len(bases) == 0 {
			return others, nil // where it is lost, Open takes it over, or says what is missing
		}
		return others, l.nothingTorn()
	}
	c := comparison{fs: l.env.FS, dir: l.dir, bases: bases, st: &cp.Active, start: cp.Start, marked: left.Marked, id: l.meta.body.ID, taken: l.meta.body.Taken, sparse: cp.Sparse}
	found, err := c.run()
	if err == nil && found == rubbish {
		err = l.cutRubbish(&cp.Active)
	}
	switch {
	case err != nil:
		return found, err
	case found == others && !lost && cp.Active.Next > 0:
		return found, l.refuse(c.stranger, left.Marked)
	case found == others:
		return found, l.takeOver(bases, cp)
	case lost:
		l.log.Error("metadata is lost, making it anew from the checkpoint", "partition", l.name,
			"dir", l.env.FS.Path(l.dir))
		return found, l.meta.save(l, metadataBody{ID: newID(), LogStart: cp.Start, Sparse: cp.Sparse, Taken: cp.Taken})
	case l.meta.body.Stopped != 0: // the mark, by which more could be told, is gone since
		return found, l.nothingTorn()
	}
	return found, nil
}

// nothingTorn notes that of the files as they are nothing is torn.
func (l *Log) nothingTorn() error {
	body := l.meta.body
	body.Durable, body.Stopped = everything, 0
	if body == l.meta.body {
		return nil
	}
	return l.meta.save(l, body)
}

// refuse notes when the log was left, for the next start to compare it again, and says
// what is in the way.
func (l *Log) refuse(stranger string, marked time.Time) error {
	body := l.meta.body
	if body.Stopped = marked.UnixNano(); body != l.meta.body {
		seals := sealFile{fs: l.env.FS, name: l.dir + "/" + sealsName}
		if there, err := seals.exists(); err != nil {
			return err
		} else if there {
			if err := seals.sync(); err != nil { // by which its own files will be known
				return err
			}
		}
		if err := l.meta.save(l, body); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s is not as it was left at the stop: bring back what was there, or move it away; "+
		"files of another log belong into a partition that never had a record", l.env.FS.Path(stranger))
}

// takeOver notes that the files of the log are somebody else's, or may be: gaps of
// their offsets are none that can be told from a compacted log's, nothing of them is
// torn, and no checkpoint and no seal of before speaks of them. Without metadata the
// files alone say where the log starts; cp is nil, or of the log whose place they take.
func (l *Log) takeOver(bases []record.Offset, cp *Checkpoint) error {
	body, why := l.meta.body, "they are not as they were left at the stop"
	if l.meta.generation == 0 {
		body, why = metadataBody{}, "it has no metadata"
		if len(bases) > 0 {
			body.LogStart = bases[0]
		}
		if cp != nil {
			body.Taken = cp.Taken
		}
	}
	if body.ID == "" {
		body.ID = newID()
	}
	body.Sparse, body.Durable = true, everything
	body.Taken++
	l.log.Warn("taking over the files of a partition as they are", "partition", l.name,
		"dir", l.env.FS.Path(l.dir), "log start", body.LogStart, "why", why)
	return l.meta.save(l, body)
}

// cutRubbish cuts what is behind the end of the log and no batch: nobody wants it, and
// it is in the way.
func (l *Log) cutRubbish(st *segment.State) error {
	name := l.dir + "/" + segment.FileName(st.Base) + segment.LogSuffix
	f, err := l.env.FS.OpenFile(name, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	l.log.Warn("cut bytes behind the end of a segment", "partition", l.name, "path", l.env.FS.Path(name),
		"position", st.Size, "bytes", size-int64(st.Size))
	if err := f.Truncate(int64(st.Size)); err != nil {
		return err
	}
	return f.Sync()
}
