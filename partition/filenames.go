package partition

import (
	"errors"
	"fmt"
	"os"
	"path"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// checkNames looks for log files that begin with other offsets than their names say, after
// a stop that was no clean one. No crash makes one: somebody gave it another name, and it
// may be the only copy of what it has, so nothing is written into it, cut or deleted. A file
// with a seal is held against that when it is read, unless it is below the log start.
func checkNames(fsys vfs.FS, dir string, bases []record.Offset, seals map[record.Offset]segment.Seal, body *metadataBody) error {
	for i, base := range bases {
		if seal, sealed := seals[base]; sealed && seal.Next > body.LogStart {
			continue
		}
		name := path.Join(dir, segment.FileName(base)+segment.LogSuffix)
		heads, err := firstBatches(fsys, name, 2)
		if err != nil {
			return err
		}
		var next record.Offset // that of the next file
		if i+1 < len(bases) {
			next = bases[i+1]
		}
		if len(heads) > 0 && isMisnamed(base, next, heads, body.Sparse) {
			return fmt.Errorf("%s begins with offset %d: give it its name back, or move it away", fsys.Path(name), heads[0].Base)
		}
	}
	return nil
}

// isMisnamed says that the first batches of a file are not of the offsets that follow on
// its name, or, where offsets may be missing, not of those up to the next file's name. No
// checksum covers the offset of a batch: it takes two that follow on to tell a name from a
// flip; of one, it has to be more than a bit. A next of 0 is none.
func isMisnamed(base, next record.Offset, heads []segment.Head, sparse bool) bool {
	first := heads[0]
	inside := func(off record.Offset) bool { return off >= base && (next == 0 || off < next) }
	if first.Base == base || sparse && inside(first.Base) {
		return false
	}
	last := base // that the first batch may have
	if sparse && next > 0 {
		last = next - 1
	}
	switch {
	case len(heads) == 1:
		return !segment.IsFlipped(first.Base, base, last)
	case sparse:
		return !inside(heads[1].Base)
	}
	return heads[1].Base == first.Base+first.Count
}

// firstBatches are the heads of up to n batches that a file begins with, as far as they
// check.
func firstBatches(fsys vfs.FS, name string, n int) (heads []segment.Head, err error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	sc := segment.NewScanner(f, 0, record.Pos(size))
	for len(heads) < n && sc.Next() {
		heads = append(heads, segment.HeadOf(sc.Batch().Bytes()))
	}
	var d *segment.Damage
	if err := sc.Err(); err != nil && !errors.As(err, &d) {
		return nil, err
	}
	return heads, nil
}
