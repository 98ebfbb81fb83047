package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
	"github.com/varvelog/varve/wal"
)

// replay finds out what the next start puts back from the journal of a data
// directory whose last engine did not stop cleanly, and what of that is damaged. It
// has package partition do it, on a file system that keeps what is written.
type replay struct {
	ctx    context.Context
	store  *store
	topics map[[16]byte]namedTopic
	wanted map[wal.Log]bool   // logs that are looked at
	unread uint64             // rounds up to here no log needs
	others map[wal.Log]uint64 // logs of no topic that is there: the last round that has them

	into   *restoring
	logs   map[wal.Log]*partition.Replay
	ends   map[wal.Log]journalEnd
	nexts  map[string]record.Offset // behind the last record of log files, by name
	frames int64                    // put back, in all logs
	faults []fault
}

// flushBytes is how much a log is given before it is compared with the file.
const flushBytes = 1 << 20

// putBack takes account of the journals of the data directories that the partitions
// are in, and notes what there is to say of them.
func (f *found) putBack(ctx context.Context) error {
	for _, s := range f.stores {
		notes, err := f.replay(ctx, s)
		if err != nil {
			return err
		}
		f.notes = append(f.notes, notes...)
	}
	return nil
}

func (f *found) replay(ctx context.Context, s *store) ([]fault, error) {
	dir := filepath.Join(s.dir, journalName)
	files, err := journalIn(s.dir)
	if err != nil {
		return []fault{unreadable(dir, 0, -1, err)}, nil
	}
	r := &replay{
		ctx: ctx, store: s, topics: s.catalog().topics, wanted: make(map[wal.Log]bool),
		into:   &restoring{FS: vfs.Dir(s.dir), files: make(map[string]*putBack)},
		others: make(map[wal.Log]uint64),
		logs:   make(map[wal.Log]*partition.Replay), ends: make(map[wal.Log]journalEnd), nexts: make(map[string]record.Offset),
	}
	r.unread = r.covered()
	for i := range f.parts {
		if p := &f.parts[i]; p.store == s {
			r.wanted[p.key] = true
		}
	}
	var old *wal.Old
	if s.left.Stop != partition.Crashed { // nothing in it is read again
		old, err = wal.List(files, ".")
	} else if old, err = files.read(r.visit); err == nil {
		err = r.flush()
	}
	if stop := interrupted(ctx); stop != nil {
		return nil, stop
	}
	if err != nil {
		return []fault{unreadable(pathOf(err, dir), 0, -1, err)}, nil
	}
	for i := range f.parts {
		if p := &f.parts[i]; p.store == s && !p.gone {
			r.mend(p)
		}
	}
	return r.notes(files, old), nil
}

// pathOf is the file that an error of the file system is about.
func pathOf(err error, otherwise string) string {
	var p *fs.PathError
	if errors.As(err, &p) && filepath.Ext(p.Path) == wal.Suffix {
		return filepath.Join(otherwise, filepath.Base(p.Path)) // as the user wrote it
	}
	return otherwise
}

// notes are what there is to say of the journal.
func (r *replay) notes(files *journalFiles, old *wal.Old) []fault {
	notes := r.faults
	for _, err := range old.Missing(r.store.covered()) {
		f := files.missing(err)
		if r.store.left.Stop == partition.Crashed {
			f.Reason += ": what the journal alone had there is lost"
		} else {
			f = warning(f.Path, f.Reason+": nothing in it is needed")
		}
		notes = append(notes, *f)
	}
	if r.store.left.Stop == partition.Crashed {
		notes = append(notes, r.absent(old)...)
		what := "nothing of the journal has to be put back"
		if r.frames > 0 {
			what = "the next start puts back " + count(r.frames, "frame") + " of the journal"
		}
		notes = append(notes, *warning(r.store.dir, "was not stopped cleanly, or is in use: "+what))
	}
	return notes
}

// absent are the topics that the next start misses.
func (r *replay) absent(old *wal.Old) []fault {
	if !r.store.asked || r.store.version < deletionsLast {
		return nil
	}
	spoken := make(map[wal.Log]bool)
	for log, round := range r.others {
		if round > old.Released() {
			spoken[log] = true
		}
	}
	return r.store.missing(spoken)
}

// covered is the round up to which the files of every log have everything, says the
// checkpoint: what is wrong with rounds up to there harms nobody.
func (r *replay) covered() uint64 {
	least, any := uint64(0), false
	for id, t := range r.topics {
		for i := range t.partitions {
			round := r.store.logs[wal.Log{Topic: id, Partition: int32(i)}].Round
			if !any || round < least {
				least, any = round, true
			}
		}
	}
	return least
}

// visit takes in one round, as a start does.
func (r *replay) visit(round wal.Round) error {
	if err := interrupted(r.ctx); err != nil {
		return err
	}
	if round.Damaged != "" && !round.Last && (round.Number == 0 || round.Number > r.unread) {
		reason := "round of the journal: " + round.Damaged
		if round.Number > 0 {
			reason = fmt.Sprintf("round %d of the journal: %s", round.Number, round.Damaged)
		}
		r.faults = append(r.faults, fault{Type: "fault", Path: round.Path, Position: round.Pos, Offset: -1, Reason: reason})
	}
	for i := range round.Frames {
		f := &round.Frames[i]
		t, known := r.topics[f.Log.Topic]
		if !known {
			r.others[f.Log] = max(r.others[f.Log], round.Number)
		}
		isNew := round.Number == 0 || round.Number > r.store.logs[f.Log].Round
		if !known || int(f.Log.Partition) >= t.partitions || !isNew {
			continue
		}
		if end := r.ends[f.Log]; (!round.Last || round.Damaged == "") && f.Next > end.next {
			r.ends[f.Log] = journalEnd{f.Base, f.Next}
		}
		if f.Kind != wal.Data || f.Payload == nil {
			continue
		}
		r.frames++
		if err := r.data(t.name, f); err != nil {
			return err
		}
	}
	return nil
}

// data puts back one frame, if its log is looked at.
func (r *replay) data(topic string, f *wal.Frame) error {
	if !r.wanted[f.Log] {
		return nil
	}
	log, ok := r.logs[f.Log]
	if !ok {
		var err error
		if log, err = partition.NewReplay(r.into, partitionDir(topic, f.Log.Partition)); err != nil {
			log = nil // it cannot be opened either; whoever looks at it says why
		}
		r.logs[f.Log] = log
	}
	if log == nil {
		return nil
	}
	name := partitionDir(topic, f.Log.Partition) + "/" + segment.FileName(f.Base) + segment.LogSuffix
	r.nexts[name] = max(r.nexts[name], f.Next)
	if err := log.Data(f.Base, f.Pos, f.Payload, f.Next); err != nil || log.Pending() < flushBytes {
		return err
	}
	return log.Flush()
}

func (r *replay) flush() error {
	for _, log := range r.logs {
		if log == nil {
			continue
		}
		if err := log.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// partitionDir is where a partition lies in a data directory.
func partitionDir(topic string, index int32) string {
	return topicsName + "/" + topic + "/" + strconv.Itoa(int(index))
}

// mend lets the segments of a partition be read as the next start will find them.
func (r *replay) mend(p *partitionFiles) {
	p.synced = r.ends[p.key]
	dir := partitionDir(r.topics[p.key.Topic].name, p.key.Partition)
	for name, back := range r.into.files {
		at := filepath.Base(name)
		base, _, ok := parseSegmentName(at)
		if filepath.ToSlash(filepath.Dir(name)) != dir || !ok || len(back.pieces) == 0 {
			continue
		}
		i := slices.IndexFunc(p.segments, func(s segmentFiles) bool { return s.base == base })
		switch {
		case i >= 0:
			p.segments[i].log, p.segments[i].back = true, back
		case p.whole && r.nexts[name] > p.start():
			p.segments = append(p.segments, segmentFiles{dir: p.dir, base: base, log: true, back: back})
		}
	}
	slices.SortFunc(p.segments, func(a, b segmentFiles) int { return cmp.Compare(a.base, b.base) })
	if n := len(p.segments); n > 0 && p.whole {
		p.segments[n-1].last = true
	}
}

// start is the log start, as far as it is known.
func (p *partitionFiles) start() record.Offset {
	in, err := p.inspect()
	if err != nil {
		return 0
	}
	return in.Start
}
