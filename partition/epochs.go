package partition

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

const epochsName = "leader-epoch-checkpoint"

// epochs are the leader epochs of a log, oldest first. They stand in every batch;
// the file, in Kafka's format, saves looking there and lets Kafka open the
// directory:
//
//	0            version
//	2            entries
//	0 0          epoch, its first offset
//	3 4096
type epochs []segment.EpochStart

// noteEpochLocked notes the first append of an epoch. The file is derived and not
// synced; that it cannot be written is of no consequence here.
func (l *Log) noteEpochLocked(base record.Offset) {
	if l.noted && l.notedEpoch == l.epoch {
		return
	}
	l.noted, l.notedEpoch = true, l.epoch
	e := l.loadEpochs()
	if n := len(e); n == 0 || e[n-1].Epoch < l.epoch {
		e = append(e, segment.EpochStart{Epoch: l.epoch, Start: base})
	}
	l.saveEpochs(e)
}

// trimEpochsLocked forgets epochs that ended below the log start.
func (l *Log) trimEpochsLocked(start record.Offset) {
	if e := l.loadEpochs(); len(e) > 0 && e[0].Start < start {
		l.saveEpochs(e.trim(start))
	}
}

func (l *Log) saveEpochs(e epochs) {
	if err := e.save(l.env.FS, l.dir); err != nil {
		l.log.Warn("cannot write the leader epochs", "partition", l.name, "err", err)
	}
}

// loadEpochs reads the file, or the batches where it says nothing of use.
func (l *Log) loadEpochs() epochs {
	e := readEpochs(l.env.FS, l.dir)
	if len(e) > 0 {
		return e
	}
	for _, s := range l.segments() {
		e = s.AppendEpochs(e)
	}
	return e
}

// EpochEnd is the offset behind the last record of a leader epoch or of one before it. What
// was read below it in that epoch still stands there; what was read at or past it a crash
// has taken, and other records have its offsets, or will. Where damage hides the end it is
// an offset before it.
func (l *Log) EpochEnd(epoch record.Epoch) record.Offset {
	for _, s := range l.segments() {
		if s.Size() == 0 || s.LastEpoch() <= epoch {
			continue
		}
		for _, e := range s.AppendEpochs(nil) {
			if e.Epoch > epoch {
				return e.Start
			}
		}
		return s.Base()
	}
	return l.LogEnd()
}

// trim forgets epochs that ended below start; the one that start lies in then
// begins there.
func (e epochs) trim(start record.Offset) epochs {
	for len(e) > 1 && e[1].Start <= start {
		e = e[1:]
	}
	e = slices.Clone(e)
	if len(e) > 0 && e[0].Start < start {
		e[0].Start = start
	}
	return e
}

func (e epochs) save(fsys vfs.FS, dir string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "0\n%d\n", len(e))
	for _, s := range e {
		fmt.Fprintf(&b, "%d %d\n", s.Epoch, s.Start)
	}
	return replaceFile(fsys, dir+"/"+epochsName, b.Bytes())
}

// readEpochs reads the file; what it cannot make sense of is no epochs.
func readEpochs(fsys vfs.FS, dir string) epochs {
	data, err := vfs.ReadFile(fsys, dir+"/"+epochsName, math.MaxInt64)
	if err != nil {
		return nil
	}
	var version, n int
	r := bytes.NewReader(data)
	if _, err := fmt.Fscan(r, &version, &n); err != nil || version != 0 || n < 0 {
		return nil
	}
	var e epochs
	for range n {
		var s segment.EpochStart
		if _, err := fmt.Fscan(r, &s.Epoch, &s.Start); err != nil {
			return nil
		}
		if k := len(e); s.Epoch < 0 || s.Start < 0 || (k > 0 && (s.Epoch <= e[k-1].Epoch || s.Start < e[k-1].Start)) {
			return nil
		}
		e = append(e, s)
	}
	return e
}

const tmpSuffix = ".tmp"

// replaceFile puts data in the place of a derived file, all or nothing for a
// reader. It is not made durable.
func replaceFile(fsys vfs.FS, name string, data []byte) error {
	tmp := name + tmpSuffix
	f, err := fsys.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = fsys.Rename(tmp, name)
	}
	if err != nil {
		fsys.Remove(tmp)
	}
	return err
}
