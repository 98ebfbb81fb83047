package partition

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/varvelog/varve/internal/twin"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// Inspection is what the directory of a log says of it to who must change nothing
// there: what Open goes by, before it looks at a record.
type Inspection struct {
	// Known says that the metadata was read: Start and Sparse are those of the log.
	// Without it they are 0 and true, as for a log that was copied from a Kafka
	// broker.
	Known  bool
	Start  record.Offset
	Sparse bool

	gap gap

	Checkpoint *Checkpoint // nil, or what the last checkpoint says of these very files

	Seals map[record.Offset]segment.Seal // those that check, by base offset
	Bases []record.Offset                // of the log files, in order

	// Leftovers are the base offsets of empty log files that a failed roll has left within
	// another segment: Open removes them. They are none of Bases.
	Leftovers []record.Offset

	taken bool // the next start takes the files over, and believes no seal

	// Metadata is what is wrong with the metadata, and costs something once the
	// other file goes too. Derived is what is wrong with the seals: the next open
	// after a crash reads more, and that is all.
	Metadata, Derived []Flaw
}

// Flaw is something wrong with a file of a log that is not one of its segments.
type Flaw struct {
	Name   string     // of the file, in the directory of the log
	At     record.Pos // first byte concerned, 0 for the whole file
	Reason string
}

// Inspect looks at a directory as Open does, but changes nothing, and goes on where
// Open would refuse; after a clean stop, which left says, as Claim and Open do. cp is
// what the last checkpoint has of the log, nil where it has nothing. An error is one of
// the file system. A log may be open and at work meanwhile: then the parts of the answer
// are not of one moment.
func Inspect(fsys vfs.FS, dir string, cp *Checkpoint, left Left) (Inspection, error) {
	in := Inspection{Sparse: true}
	var err error
	if in.Bases, err = listLogs(fsys, dir); err != nil {
		return in, err
	}
	body := in.metadata(fsys, dir)
	if cp != nil && (!in.Known || cp.Taken == body.Taken) {
		in.Checkpoint = cp
	}
	if cp != nil && !in.Known && len(in.Metadata) == 0 {
		in.flawed(MetadataName, "is missing, and so is its copy")
	}
	if body.Stopped != 0 {
		left = Left{Stop: Clean, Marked: time.Unix(0, body.Stopped)}
	}
	if in.Checkpoint != nil && left.Stop == Clean {
		c := comparison{fs: fsys, dir: dir, bases: in.Bases, st: &cp.Active, start: cp.Start, marked: left.Marked, id: body.ID, taken: body.Taken, sparse: cp.Sparse}
		in.claim(&c, cp)
	}
	if err := in.seals(fsys, dir, &body); err != nil {
		return in, err
	}
	return in, in.leftovers(fsys, dir)
}

// leftovers takes what Open would remove out of the bases.
func (in *Inspection) leftovers(fsys vfs.FS, dir string) (err error) {
	out := outline{fs: fsys, dir: dir, seals: in.Seals, sparse: in.Sparse}
	if in.Checkpoint != nil {
		out.known = in.Checkpoint.Active
	}
	if in.Leftovers, err = out.leftovers(in.Bases); err == nil {
		in.Bases = slices.DeleteFunc(in.Bases, func(base record.Offset) bool { return slices.Contains(in.Leftovers, base) })
	}
	return err
}

// claim is what Claim would make of the log. A segment that cannot be read is met again
// by who reads it.
func (in *Inspection) claim(c *comparison, cp *Checkpoint) {
	found, err := c.run()
	switch {
	case err != nil:
	case found == others && in.Known && cp.Active.Next > 0:
		in.flawed(path.Base(c.stranger), "is not as it was left at the stop: the partition cannot be opened while it is there")
	case found == others:
		if !in.Known && len(in.Bases) > 0 {
			in.Start = in.Bases[0]
		}
		in.Checkpoint, in.Known, in.Sparse, in.taken = nil, true, true, true
	case !in.Known:
		in.Known, in.Start, in.Sparse = true, cp.Start, cp.Sparse
	}
}

// metadata reads the two files of the metadata.
func (in *Inspection) metadata(fsys vfs.FS, dir string) (body metadataBody) {
	name := path.Join(dir, MetadataName)
	doc, stale, err := twin.Read(fsys, name, identity(fsys, dir))
	if errors.Is(err, fs.ErrNotExist) {
		return body // the seals tell whether that is a loss
	}
	if err == nil {
		body, err = decodeMetadata(doc.Body)
	}
	if err != nil {
		in.flawed(MetadataName, strings.TrimPrefix(err.Error(), fsys.Path(name)+": "))
		return metadataBody{}
	}
	if stale != "" {
		reason := strings.TrimPrefix(doc.Mended, fsys.Path(stale)+": ")
		if _, err := fsys.Stat(stale); errors.Is(err, fs.ErrNotExist) {
			reason = "is missing"
		}
		in.flawed(path.Base(stale), reason)
	}
	if body.Swapping {
		in.flawed(MetadataName, "says that damage is being set aside: the next start ends it")
	}
	in.Known, in.Start, in.Sparse, in.gap = true, body.LogStart, body.Sparse, body.Gap
	return body
}

func (in *Inspection) flawed(name, reason string) {
	in.Metadata = append(in.Metadata, Flaw{Name: name, Reason: reason})
}

// seals reads the seals of the log with that metadata.
func (in *Inspection) seals(fsys vfs.FS, dir string, body *metadataBody) error {
	if in.taken {
		return nil
	}
	f := sealFile{fs: fsys, name: path.Join(dir, sealsName), id: body.ID, taken: body.Taken}
	data, err := vfs.ReadFile(fsys, f.name, math.MaxInt64)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !in.Known && len(in.Metadata) == 0 {
		in.flawed(MetadataName, "is missing, and so is its copy")
	}
	if in.Known && f.isForeign(data) {
		in.Derived = append(in.Derived, Flaw{Name: sealsName, Reason: "is that of another log"})
		return nil
	}
	in.Seals = make(map[record.Offset]segment.Seal, len(data)/segment.SealSize)
	for at := 0; at < len(data); at += segment.SealSize {
		place := data[at:min(at+segment.SealSize, len(data))]
		s, err := segment.DecodeSeal(place)
		switch {
		case err == nil:
			in.Seals[s.Base] = s // of several the last one counts
		case at == 0 && (!in.Known || bytes.Equal(place, f.head())): // it is no seal, but the head
		default:
			in.Derived = append(in.Derived, Flaw{Name: sealsName, At: record.Pos(at), Reason: err.Error()})
		}
	}
	return nil
}

// Past is where a log whose last segment ends at an offset goes on: behind a gap that was
// accepted there, if there is one.
func (in *Inspection) Past(end record.Offset) record.Offset { return in.gap.past(end) }

// Missing returns the seals of the segments that are not there and ought to be, in
// order. As for Open a seal is out of date where a file claims offsets of it, or a
// seal before it does, or the log start is behind it; where that is not known, the
// first file is taken for it.
func (in *Inspection) Missing() []segment.Seal {
	start := in.Start
	if !in.Known && len(in.Bases) == 0 {
		return nil
	} else if !in.Known {
		start = in.Bases[0]
	}
	var missing []segment.Seal
	var reached record.Offset
	for _, s := range sortedSeals(in.Seals) {
		i, there := slices.BinarySearch(in.Bases, s.Base)
		switch covered := there || i < len(in.Bases) && in.Bases[i] < s.Next; {
		case there:
			reached = max(reached, s.Next)
		case covered || s.Base < reached || s.Next <= start || s.Size == 0:
		default:
			reached = s.Next
			missing = append(missing, s)
		}
	}
	return missing
}
