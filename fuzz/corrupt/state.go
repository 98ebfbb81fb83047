package main

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/wal"
)

// state is the directory as one way to stop leaves it, and what it holds.
//
//	stopped   a clean stop
//	killed    the process was killed: the files of the logs have everything
//	cut       a power cut: much is in the journal alone
//	unmarked  the same, a moment after the last round and in front of its mark
//
// It is not changed once it is made, and shared by all trials.
type state struct {
	name   string
	disk   *vfs.Mem
	files  map[string][]byte
	older  map[string][]version // of a file, oldest first; also of files that are gone
	parts  map[string]*part
	frames []frame
	sealed map[string]bool // log files
}

// moments are those of which there are older copies, in order.
var moments = []string{"stop", "day", "evening", "night"}

// version is a file as it was at an earlier moment.
type version struct {
	moment string
	data   []byte
}

// part is what a partition holds.
type part struct {
	name       string
	start, end record.Offset
	records    []stored // of [start, end)
	batches    []batch
	// durable is the offset below which a mark says that everything was on stable
	// storage, so that what is missing of it is damage and no torn end.
	durable record.Offset
	refused *refusal // by the file of its log; nil: nothing was
}

type stored struct {
	fact
	epoch record.Epoch
}

func (p *part) at(off record.Offset) *stored { return &p.records[off-p.start] }

// newState finds out what a directory holds, by opening a copy of it, and holds that
// against what was published.
func newState(name string, l *life) (*state, error) {
	disk := l.left[name].disk
	st := &state{name: name, disk: disk, files: map[string][]byte{}, older: map[string][]version{}, parts: map[string]*part{}, sealed: map[string]bool{}}
	if err := sortCheckpoint(disk); err != nil {
		return nil, err
	}
	for _, file := range disk.Files() {
		data, err := disk.ReadFile(file)
		if err != nil {
			return nil, err
		}
		st.files[file] = data
	}
	for _, moment := range moments {
		if moment == "night" && name != "stopped" {
			continue // that is later
		}
		if err := st.addOlder(moment, l.snapshot[moment]); err != nil {
			return nil, err
		}
	}
	recovered := disk.Clone()
	ids, err := st.readPartitions(recovered, l)
	if err == nil {
		err = st.keepsPromises(l.left[name].ends)
	}
	if err == nil {
		err = st.findBatches(recovered)
	}
	if err == nil {
		err = st.findFrames(ids)
	}
	if err == nil {
		err = st.findDurable(ids)
	}
	if err != nil {
		return nil, fmt.Errorf("state %s: %w", name, err)
	}
	return st, nil
}

func (st *state) addOlder(moment string, disk *vfs.Mem) error {
	for _, file := range disk.Files() {
		data, err := disk.ReadFile(file)
		if err != nil {
			return err
		}
		same := func(v version) bool { return bytes.Equal(v.data, data) }
		if now, ok := st.files[file]; ok && bytes.Equal(now, data) || slices.ContainsFunc(st.older[file], same) {
			continue
		}
		st.older[file] = append(st.older[file], version{moment, data})
	}
	return nil
}

// readPartitions opens a disk, which is then as recovery leaves it, and takes down what
// it holds.
func (st *state) readPartitions(disk *vfs.Mem, l *life) (map[wal.Log]string, error) {
	s, err := begin(disk)
	if err != nil {
		return nil, err
	}
	ids := map[wal.Log]string{}
	for _, topic := range s.engine.Topics() {
		for i := range topic.Partitions() {
			name := fmt.Sprintf("%s/%d", topic.Name(), i)
			ids[wal.Log{Topic: [16]byte(topic.ID()), Partition: int32(i)}] = name
			p, err := topic.Partition(i)
			if err == nil {
				st.parts[name], err = takeDown(p, name, l)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if lines := s.lines(); len(lines) > 0 {
		return nil, fmt.Errorf("the log says %q", lines)
	}
	return ids, s.engine.Close()
}

// takeDown reads a partition that is whole.
func takeDown(p *varve.Partition, name string, l *life) (*part, error) {
	v := lookAt(p)
	if v.refused != nil || len(v.faults)+len(v.gaps) > 0 {
		return nil, fmt.Errorf("is not whole: %v %v %v", v.refused, v.faults, v.gaps)
	}
	known := &part{name: name, start: v.start, end: v.end, refused: l.refused[name]}
	for off := v.start; off < v.end; off++ {
		if int(off) >= len(l.written[name]) {
			return nil, fmt.Errorf("offset %d was never published", off)
		}
		published := &l.written[name][off]
		if why := published.differs(v.records[off]); why != "" {
			return nil, fmt.Errorf("offset %d is not what was published: %s", off, why)
		}
		known.records = append(known.records, stored{*published, v.epochs[off]})
	}
	return known, nil
}

// keepsPromises says whether everything is there that a stop must not take: all of it
// when only the process ended, else what was acknowledged at level fsync.
func (st *state) keepsPromises(ends map[string]int) error {
	for name, p := range st.parts {
		all := st.name == "stopped" || st.name == "killed" || name[0] == 'f'
		if all && int(p.end) != ends[name] {
			return fmt.Errorf("%s ends at %d, acknowledged were %d", name, p.end, ends[name])
		}
	}
	return nil
}
