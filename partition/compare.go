package partition

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path"
	"time"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// Left is how an engine left its directory.
type Left struct {
	Stop   Stop
	Marked time.Time // by the file system: when the mark of a clean stop was made
}

// remains is how the files of a log compare with what was left at a clean stop.
type remains uint8

const (
	asLeft  remains = iota
	fewer           // some of it is not there
	rubbish         // it is there, and there are bytes behind it that are no batch
	others          // there is more than that, or something else
)

// comparison looks at the files of a log after a clean stop. Only what is newer than the
// mark, or has not the length that it was left with, is opened.
type comparison struct {
	fs     vfs.FS
	dir    string
	bases  []record.Offset
	st     *segment.State // the active segment, as it was left
	start  record.Offset  // the log start, as it was left
	marked time.Time
	id     string // of the log, "" where that is not known
	taken  uint8  // how often it was taken over
	sparse bool   // offsets may be missing

	stranger string // the first file that is not as it was left, for others
}

func (c *comparison) run() (remains, error) {
	for n := len(c.bases); n > 0 && c.bases[n-1] > c.st.Base; n-- {
		c.stranger = c.logName(c.bases[n-1])
		if empty, err := isEmpty(c.fs, c.stranger); !empty || err != nil {
			return others, err
		}
		c.bases = c.bases[:n-1] // a failed roll has left it, see outline
	}
	if put, err := c.anyPut(); put || err != nil {
		return others, err
	}
	c.stranger = c.logName(c.st.Base)
	return c.active()
}

// anyPut looks for a file that came after the mark, in front of the active segment, and
// is not the one that a seal of the log speaks of.
func (c *comparison) anyPut() (bool, error) {
	if dir, err := c.fs.Stat(c.dir); err != nil || !c.isNew(dir) {
		return false, err
	}
	known, err := c.seals()
	if err != nil {
		return false, err
	}
	for i, base := range c.bases {
		if base == c.st.Base {
			continue
		}
		c.stranger = c.logName(base)
		info, err := c.fs.Stat(c.logName(base))
		if err != nil {
			return false, err
		}
		if !c.isNew(info) {
			continue
		}
		seal, ok := known[base]
		if !ok && info.Size() == 0 && isWithin(sortedSeals(known), base) {
			continue // see outline
		}
		if !ok && c.id != "" { // its seal may be lost, or it was away when the others were sealed
			next := c.st.Base
			if i+1 < len(c.bases) {
				next = c.bases[i+1]
			}
			if fits, err := c.fits(base, next, record.Pos(info.Size())); !fits || err != nil {
				return true, err
			}
			continue
		}
		if !ok || c.id == "" && seal.Next <= c.start { // or was deleted, which nothing but the metadata says for good
			return true, nil
		}
		if owned, err := c.isOf(&seal, record.Pos(info.Size())); !owned || err != nil {
			return true, err
		}
	}
	return false, nil
}

// isOf says whether a file is that of a seal, damaged perhaps.
func (c *comparison) isOf(seal *segment.Seal, size record.Pos) (bool, error) {
	f, err := c.fs.OpenFile(c.logName(seal.Base), os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if seal.Next <= c.start { // it was deleted, and will be again
		return seal.Is(f, size)
	}
	owned, err := seal.Owns(f, size)
	if err != nil || !owned || size <= seal.Size {
		return owned, err
	}
	behind := segment.State{Size: seal.Size}
	grown, err := behind.Surplus(f, size)
	return !grown, err
}

// fits says whether a file without a seal may be the one of these offsets, and not
// deleted.
func (c *comparison) fits(base, next record.Offset, size record.Pos) (bool, error) {
	f, err := c.fs.OpenFile(c.logName(base), os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer f.Close()
	end, fits, err := segment.Fits(f, size, base, next, !c.sparse)
	return fits && end > c.start, err
}

// seals are those of the log; of one of which the id is lost, those that are there.
func (c *comparison) seals() (map[record.Offset]segment.Seal, error) {
	f := sealFile{fs: c.fs, name: path.Join(c.dir, sealsName), id: c.id, taken: c.taken}
	if c.id != "" {
		seals, _, err := f.read()
		return seals, err
	}
	data, err := vfs.ReadFile(f.fs, f.name, math.MaxInt64)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return decodeSeals(data), nil
}

func (c *comparison) isNew(info fs.FileInfo) bool { return vfs.Changed(info).After(c.marked) }

func (c *comparison) logName(base record.Offset) string {
	return path.Join(c.dir, segment.FileName(base)+segment.LogSuffix)
}

// active looks at the active segment.
func (c *comparison) active() (remains, error) {
	info, err := c.fs.Stat(c.logName(c.st.Base))
	there := err == nil && info.Mode().IsRegular()
	switch size := int64(c.st.Size); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return others, err
	case !there && size > 0:
		return fewer, nil
	case !there, info.Size() == size && (size == 0 || !c.isNew(info)):
		return asLeft, nil
	case size == 0: // whatever it is
		return others, nil
	}
	f, err := c.fs.OpenFile(c.logName(c.st.Base), os.O_RDONLY)
	if err != nil {
		return others, err
	}
	defer f.Close()
	size := record.Pos(info.Size())
	owned, err := c.st.Owns(f, size)
	switch {
	case !owned || err != nil:
		return others, err
	case size < c.st.Size:
		return fewer, nil
	case size == c.st.Size:
		return asLeft, nil
	}
	begins, err := c.st.Begins(f, size)
	if !begins || err != nil {
		return others, err
	}
	if batches, err := c.st.Surplus(f, size); batches || err != nil {
		return others, err
	}
	return rubbish, nil
}
