package cli

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// partition checks one partition: what is kept beside its segments, the segments,
// and that none of them is missing.
func (v *verify) partition(p *partitionFiles) error {
	v.part = partitionReport{Type: "partition", Path: p.dir}
	v.path, v.index, v.derived = "", nil, p.derived()
	if err := v.inspect(p); err != nil {
		return err
	}
	if err := v.leftovers(p); err != nil {
		return err
	}
	walk := newLogWalk(v.ctx, !v.kept.Sparse, v, v.bar.add)
	if err := v.segments(walk, p); err != nil {
		return err
	}
	if err := v.tail(walk, p); err != nil {
		return err
	}
	if v.json {
		return writeJSON(v.app.out, &v.part)
	}
	_, err := fmt.Fprintln(v.app.out, v.part.text())
	return err
}

// inspect reads what is kept of a partition, and tells what is wrong with that.
func (v *verify) inspect(p *partitionFiles) (err error) {
	if v.kept, err = p.inspect(); err != nil {
		return v.fault(p.barred(err))
	}
	for _, f := range v.kept.Metadata {
		if err := v.fault(*wholeFile(filepath.Join(p.dir, f.Name), f.Reason)); err != nil {
			return err
		}
	}
	if p.ours && !p.gone && !v.kept.Known && len(v.kept.Metadata) == 0 {
		w := warning(filepath.Join(p.dir, partition.MetadataName), "is missing: the partition is taken for one that was copied from a Kafka broker")
		if err := v.fault(*w); err != nil {
			return err
		}
	}
	for _, f := range v.kept.Derived {
		w := warning(filepath.Join(p.dir, f.Name), f.Reason)
		w.Position = int64(f.At)
		if err := v.fault(*w); err != nil {
			return err
		}
	}
	return nil
}

// leftovers passes over the empty files that a failed roll has left: they are no segments.
func (v *verify) leftovers(p *partitionFiles) (err error) {
	p.segments = slices.DeleteFunc(p.segments, func(s segmentFiles) bool {
		if !v.isLeftover(p, &s) || err != nil {
			return false
		}
		err = v.fault(*warning(s.path(segment.LogSuffix), "is empty, and within another segment: a failed roll has left it"))
		return true
	})
	if n := len(p.segments); n > 0 && p.whole {
		p.segments[n-1].last = true
	}
	return err
}

// isLeftover goes by the journal too, which may have what a file lacks.
func (v *verify) isLeftover(p *partitionFiles, s *segmentFiles) bool {
	if slices.Contains(v.kept.Leftovers, s.base) {
		return true
	}
	if _, sealed := v.kept.Seals[s.base]; sealed || s.back != nil || s.base <= p.synced.base || s.base >= p.synced.next {
		return false
	}
	info, err := os.Stat(s.path(segment.LogSuffix))
	return err == nil && info.Size() == 0
}

// segments checks the segments in order, and those that are not there.
func (v *verify) segments(walk *logWalk, p *partitionFiles) error {
	var missing []segment.Seal
	if p.whole && !p.gone {
		missing = v.kept.Missing()
	}
	first := record.Offset(math.MaxInt64)
	if len(p.segments) > 0 {
		first = p.segments[0].base
	}
	if len(missing) > 0 {
		first = min(first, missing[0].Base)
	}
	switch {
	case v.kept.Known && !v.kept.Sparse && p.whole:
		walk.chain.Next = min(first, v.kept.Start)
	case first < math.MaxInt64:
		walk.chain.Next = first
	}
	v.part.Start = walk.chain.Next
	for i := range p.segments {
		s := &p.segments[i]
		for len(missing) > 0 && missing[0].Base <= s.base {
			if err := v.missing(walk, p.dir, missing[0]); err != nil {
				return err
			}
			missing = missing[1:]
		}
		if err := v.next(walk, p, i); err != nil {
			return err
		}
	}
	for _, seal := range missing {
		if err := v.missing(walk, p.dir, seal); err != nil {
			return err
		}
	}
	return nil
}

// missing tells of a segment of which only the seal is there.
func (v *verify) missing(walk *logWalk, dir string, seal segment.Seal) error {
	path := filepath.Join(dir, segment.FileName(seal.Base)+segment.LogSuffix)
	if seal.Base < walk.chain.Next {
		return nil // out of date: a file has the offsets
	}
	if err := v.follows(walk, path, seal.Base); err != nil {
		return err
	}
	walk.chain.Next = seal.Next
	from := max(seal.Base, v.kept.Start)
	return v.fault(gone(path, from, seal.Next, "file is missing, its seal is there"))
}

// next checks the segment that comes next.
func (v *verify) next(walk *logWalk, p *partitionFiles, i int) error {
	s := &p.segments[i]
	switch {
	case s.log:
	case s.base < walk.chain.Next || i+1 < len(p.segments) && p.segments[i+1].base <= v.kept.Start:
		return nil // an index that a deletion has left, or one of a segment that was told of
	default:
		path := s.path(segment.LogSuffix)
		return v.fault(fault{Type: "fault", Path: path, Offset: int64(s.base), Reason: "file is missing, its index is there"})
	}
	if err := v.follows(walk, s.path(segment.LogSuffix), s.base); err != nil {
		return err
	}
	if err := v.segment(walk, s, p.beyond(i)); err != nil {
		return err
	}
	if v.barred { // that is told: what is in it is not missing
		v.barred = false
		walk.chain.Next = max(walk.chain.Next, p.after(i))
	}
	v.part.End = walk.chain.Next
	return nil
}

// after is where the segment behind one begins, or else where the log ended when the
// last checkpoint was made; 0 where that is not known.
func (p *partitionFiles) after(i int) record.Offset {
	switch {
	case i+1 < len(p.segments):
		return p.segments[i+1].base
	case p.known != nil:
		return p.known.Active.Next
	}
	return 0
}

// follows checks that a segment begins where the one before it ended, or where the
// log does.
func (v *verify) follows(walk *logWalk, path string, base record.Offset) error {
	next, damaged := walk.chain.Next, walk.open != nil
	if err := walk.close(base); err != nil {
		return err
	}
	switch from := max(next, v.kept.Start); {
	case base < next:
		return v.fault(fault{Type: "fault", Path: path, Offset: int64(base),
			Reason: fmt.Sprintf("segment begins at offset %d, below %d, the end of the segment before", base, next)})
	case base > from && !v.kept.Sparse && !damaged:
		return v.fault(gone(path, from, base, "records are missing before this segment"))
	}
	return nil
}

// tail checks that the log goes on to where the last checkpoint or the journal says it
// does: what they say was on stable storage.
func (v *verify) tail(walk *logWalk, p *partitionFiles) error {
	end := walk.chain.Next
	v.part.End = max(v.part.End, end)
	if p.gone {
		return v.absent(p)
	}
	known, who := p.synced, "journal"
	from := max(end, v.kept.Start)
	if p.known != nil {
		from = max(from, p.known.Start)
		if a := p.known.Active; a.Next >= known.next {
			known, who = journalEnd{a.Base, a.Next}, "checkpoint"
		}
	}
	from = v.kept.Past(from)
	switch {
	case !p.whole:
		return walk.close(0)
	case walk.open != nil:
		return walk.close(known.next)
	case known.next <= from:
		return nil
	}
	path := filepath.Join(p.dir, segment.FileName(known.base)+segment.LogSuffix)
	return v.fault(gone(path, from, known.next, "records are missing that were there, says the "+who))
}

// absent tells of a partition whose directory is missing.
func (v *verify) absent(p *partitionFiles) error {
	const reason = "partition is missing: its topic counts it"
	if p.known == nil || p.known.Active.Next <= p.known.Start {
		return v.fault(*wholeFile(p.dir, reason))
	}
	return v.fault(gone(p.dir, p.known.Start, p.known.Active.Next, reason))
}
