package partition

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// Damage is a range of a segment that cannot be read.
type Damage struct {
	Base    record.Offset // of the segment
	Path    string        // of its file
	At, End record.Pos    // bytes of the file, [At, End); none where nothing is left of it
	From    record.Offset // offsets that are lost, [From, To); none behind the end of a segment
	To      record.Offset
	Reason  string
}

// IsMissing says that there are no bytes that could be kept.
func (d *Damage) IsMissing() bool { return d.At == d.End }

// Quarantine takes damage out of the log in a directory by hand, and keeps the bytes.
//
// It works on a log that nobody has open and that was stopped cleanly, so that the journal
// has nothing of it. Survey looks, SetAside acts:
//
//  1. The damaged bytes are copied into files of their own, which are synced.
//  2. Each damaged segment is written anew without them, beside itself, and synced.
//  3. One save of the metadata says that those files count. From here on the log is one
//     with gaps, where a jump of offsets is no damage, and the checkpoint is one of
//     other files, because what it says of the active segment is not so any more.
//  4. The files take their places; the seals of what was there are forgotten first.
//
// Cut short before 3 nothing has changed, and the damage is told as before; after it Open
// does 4. Offsets stay what they are, and those that were given out are not given out
// again. Indexes and seals are made by who opens the log next.
//
// Whoever calls SetAside takes the mark of a clean stop away first: under it the new
// files would be taken for ones that somebody put there.
type Quarantine struct {
	Found []Damage // in order of the log

	log   *Log
	swaps []swap
	ended gap // of what is missing at the end, if anything is
}

// swap is a segment that is to be written anew.
type swap struct {
	base    record.Offset
	path    string
	found   segment.Survey
	missing bool // there is no file, or no segment at all
}

// Survey reads a log from end to end. name is its name in messages, cp what the clean
// stop kept of it. maxInflated bounds what a batch may inflate to, see
// [segment.Segment.Survey]. What cannot be read for any other reason than damage is an
// error. The caller closes what is returned.
func Survey(fsys vfs.FS, logger *slog.Logger, name, dir string, cp *Checkpoint, maxInflated int) (*Quarantine, error) {
	if cp == nil {
		return nil, fmt.Errorf("survey %s: no checkpoint says where it ends: open it and stop it cleanly", name)
	}
	env := Env{
		FS: fsys, Files: segment.NewFiles(4), Journal: idle{}, Runner: idle{}, Logger: logger,
		Now: func() int64 { return cp.LastTime },
	}
	l, err := Open(env, name, dir, Config{RetentionAge: -1, RetentionBytes: -1}, cp, nil, nil)
	if err != nil {
		return nil, err
	}
	q := &Quarantine{log: l}
	if err := q.survey(maxInflated); err != nil {
		q.Close()
		return nil, fmt.Errorf("survey %s: %w", name, err)
	}
	return q, nil
}

// idle does nothing: nothing is appended to the log, and what is to be tidied up can wait.
type idle struct{}

func (idle) Commit(*Log)       {}
func (idle) Settle(*Log) error { return nil }
func (idle) Drain(*Log)        {}
func (idle) Tidy(*Log)         {}

// Close gives the files back.
func (q *Quarantine) Close() { q.log.release() }

func (q *Quarantine) survey(maxInflated int) error {
	l := q.log
	next, end := l.Start(), l.LogEnd()
	good := next // behind the last record that stays
	for _, s := range l.segments() {
		if s.Size() == 0 {
			continue // the active one, or one that never held a batch
		}
		q.gap(next, s.Base(), false)
		one := swap{base: s.Base(), path: s.Path()}
		var err error
		if one.found, err = s.Survey(maxInflated); err != nil {
			damage, ok := IsDamage(err)
			if !ok {
				return err
			}
			one.missing = true
			one.found = segment.Survey{Next: damage.To, Holes: []segment.Hole{
				{Damage: segment.Damage{Reason: damage.Reason}, From: damage.From, To: damage.To},
			}}
		}
		short := one.found.Next < s.Next() && !l.sparse.Load() // its seal will not do any more
		if short || len(one.found.Holes) > 0 {
			q.swaps = append(q.swaps, one)
		}
		last := q.note(&one)
		if one.found.Batches > 0 {
			good = last
		}
		q.gap(one.found.Next, s.Next(), false)
		next = max(next, one.found.Next, s.Next())
	}
	q.gap(l.meta.body.Gap.past(next), end, true)
	if good = max(good, l.Start()); len(q.Found) > 0 && good < end {
		q.ended = gap{good, end}
	}
	return nil
}

// note notes what was found in a segment, and returns the offset behind its last batch.
func (q *Quarantine) note(s *swap) (good record.Offset) {
	good = s.found.Next
	for _, x := range s.found.Holes {
		q.Found = append(q.Found, Damage{
			Base: s.base, Path: s.path, At: x.At, End: x.Resume, From: x.From, To: x.To, Reason: x.Reason,
		})
	}
	for _, x := range slices.Backward(s.found.Holes) {
		if x.To >= good {
			good = min(good, x.From)
		}
	}
	return good
}

// gap notes that no file has the offsets of a range. Between the segments of a log with
// gaps nothing tells that they are lost; at its end the checkpoint does.
func (q *Quarantine) gap(from, to record.Offset, atEnd bool) {
	if from >= to || !atEnd && q.log.sparse.Load() {
		return
	}
	path := q.log.env.FS.Path(q.log.dir + "/" + segment.FileName(from) + segment.LogSuffix)
	q.Found = append(q.Found, Damage{Base: from, Path: path, From: from, To: to, Reason: "records are missing"})
}

// SetAside takes what was found out of the log. It returns the names of the files that
// keep the bytes, by the index in Found; "" where there are none. It may be called once.
// After an error the next Open finds the log as it was, or ends what was begun; where
// names are returned with it, it is the latter.
func (q *Quarantine) SetAside(keep Keeper) (kept []string, err error) {
	l := q.log
	kept = make([]string, len(q.Found))
	for i := range q.Found {
		if d := &q.Found[i]; !d.IsMissing() {
			if kept[i], err = q.keep(keep, d); err != nil {
				return nil, fmt.Errorf("keep the bytes of %s from position %d on: %w", d.Path, d.At, err)
			}
		}
	}
	bases, err := q.writeAnew()
	if err == nil {
		err = q.commit()
	}
	if err != nil {
		return nil, errors.Join(err, l.removeIfUnsaid(bases))
	}
	return kept, l.endSwap(bases)
}

func (q *Quarantine) keep(keep Keeper, d *Damage) (string, error) {
	f, err := q.log.env.FS.OpenFile(q.log.dir+"/"+segment.FileName(d.Base)+segment.LogSuffix, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return keep.keep(q.log.env.FS, q.log.name, d, io.NewSectionReader(f, int64(d.At), int64(d.End-d.At)))
}

// removeIfUnsaid removes files that do not count. Where it is not known whether the
// metadata says that they do, the next start finds out.
func (l *Log) removeIfUnsaid(bases []record.Offset) error {
	body, err := readMetadata(l.env.FS, l.dir)
	if err != nil || body.Swapping {
		return err
	}
	return l.removeSwaps(bases)
}

// commit makes the new files count, all of them at once.
func (q *Quarantine) commit() error {
	l := q.log
	body := l.meta.body
	body.LogStart = l.Start() // also where only the checkpoint knew
	body.Sparse, body.Swapping = true, true
	body.Taken++
	body.Durable = max(body.Durable, l.LogEnd()) // nothing below is torn
	if q.ended != (gap{}) {
		body.Gap = q.ended
	}
	if err := l.meta.save(l, body); err != nil {
		return err
	}
	l.seals.taken = body.Taken
	return nil
}

// writeAnew writes the damaged segments without their damage, beside them.
func (q *Quarantine) writeAnew() (bases []record.Offset, err error) {
	l := q.log
	for i := range q.swaps {
		s := &q.swaps[i]
		bases = append(bases, s.base)
		if err := q.writeSwap(s); err != nil {
			return bases, fmt.Errorf("write %s without its damage: %w", s.path, err)
		}
	}
	return bases, l.env.FS.SyncDir(l.dir)
}

func (q *Quarantine) writeSwap(s *swap) (err error) {
	fsys := q.log.env.FS
	to, err := fsys.OpenFile(swapName(q.log.dir, s.base), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	defer to.Close() // its error is of no consequence behind that of the sync
	if s.missing || s.found.Batches == 0 {
		return to.Sync()
	}
	from, err := fsys.OpenFile(q.log.dir+"/"+segment.FileName(s.base)+segment.LogSuffix, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer from.Close()
	var at, size record.Pos
	for _, x := range s.found.Holes {
		if err := copyRange(to, size, io.NewSectionReader(from, int64(at), int64(x.At-at))); err != nil {
			return err
		}
		size += x.At - at
		at = x.Resume
	}
	if err := copyRange(to, size, io.NewSectionReader(from, int64(at), int64(s.found.Size-at))); err != nil {
		return err
	}
	size += s.found.Size - at
	if err := to.Sync(); err != nil {
		return err
	}
	return checkSwap(to, size, s.found.Batches)
}

// checkSwap reads a new file back: it holds the batches that were found, and no more.
func checkSwap(f vfs.File, size record.Pos, want int) error {
	n, sc := 0, segment.NewScanner(f, 0, size)
	for sc.Next() {
		n++
	}
	if err := sc.Err(); err != nil {
		return err
	}
	if n != want {
		return fmt.Errorf("has %d batches, expected %d", n, want)
	}
	return nil
}

// copyRange copies all of r to a position, in pieces.
func copyRange(to vfs.File, at record.Pos, r *io.SectionReader) error {
	buf := make([]byte, min(copyWindow, r.Size()))
	for left := r.Size(); left > 0; {
		part := buf[:min(int64(len(buf)), left)]
		if _, err := io.ReadFull(r, part); err != nil {
			return err
		}
		if _, err := to.WriteAt(part, int64(at)); err != nil {
			return err
		}
		at += record.Pos(len(part))
		left -= int64(len(part))
	}
	return nil
}

const copyWindow = 1 << 20
