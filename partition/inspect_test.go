package partition_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// lookingOnly fails every call that would change something.
func lookingOnly(m *vfs.Mem) vfs.FS {
	return vfs.NewFaulty(m, func(op vfs.Op) vfs.Fault {
		switch op.Kind {
		case vfs.OpOpen, vfs.OpRead, vfs.OpReadDir, vfs.OpStat, vfs.OpClose:
			return vfs.Fault{}
		}
		return vfs.Fault{Err: fmt.Errorf("%v is not looking", op.Kind)}
	})
}

// An inspection says what Open goes by, names what is wrong with each file that is
// no segment, and changes nothing.
func TestInspect(t *testing.T) {
	r, _ := damaged(t, partition.Fsync)
	r.trim(4)
	var places int64
	if data, err := r.disk.ReadFile(dir + "/seals"); err == nil {
		places = int64(len(data) / segment.SealSize)
	}
	second := (places - 4) * segment.SealSize // of five seals
	logName := func(base int) string { return fmt.Sprintf("%s/%020d.log", dir, base) }
	for _, c := range []struct {
		name     string
		spoil    func(m *vfs.Mem) error
		known    bool
		missing  []offset // base offsets
		metadata []string // names
		derived  []string
	}{
		{"whole", func(*vfs.Mem) error { return nil }, true, nil, nil, nil},
		{"segment gone", func(m *vfs.Mem) error { return m.Remove(logName(6)) }, true, []offset{6}, nil, nil},
		{"two segments gone", func(m *vfs.Mem) error { return errors.Join(m.Remove(logName(3)), m.Remove(logName(12))) }, true, []offset{3, 12}, nil, nil},
		{"active segment gone", func(m *vfs.Mem) error { return m.Remove(logName(15)) }, true, nil, nil, nil},
		{"another file has the offsets", func(m *vfs.Mem) error { return m.Rename(logName(6), logName(7)) }, true, nil, nil, nil},
		{"metadata damaged", func(m *vfs.Mem) error { return m.FlipBit(dir+"/partition.json", 99) }, true, nil, []string{"partition.json"}, nil},
		{"copy damaged", func(m *vfs.Mem) error { return m.FlipBit(dir+"/partition.json.copy", 99) }, true, nil, []string{"partition.json.copy"}, nil},
		{"copy gone", func(m *vfs.Mem) error { return m.Remove(dir + "/partition.json.copy") }, true, nil, []string{"partition.json.copy"}, nil},
		{"both damaged", func(m *vfs.Mem) error {
			return errors.Join(m.FlipBit(dir+"/partition.json", 99), m.FlipBit(dir+"/partition.json.copy", 99))
		}, false, nil, []string{"partition.json"}, nil},
		{"both gone", func(m *vfs.Mem) error {
			return errors.Join(m.Remove(dir+"/partition.json"), m.Remove(dir+"/partition.json.copy"))
		}, false, nil, []string{"partition.json"}, nil},
		{"copied from Kafka", func(m *vfs.Mem) error {
			return errors.Join(m.Remove(dir+"/partition.json"), m.Remove(dir+"/partition.json.copy"), m.Remove(dir+"/seals"))
		}, false, nil, nil, nil},
		{"seal damaged", func(m *vfs.Mem) error { return m.FlipBit(dir+"/seals", 8*second+100) }, true, nil, nil, []string{fmt.Sprintf("seals at %d", second)}},
		{"seal cut short", func(m *vfs.Mem) error { return m.Truncate(dir+"/seals", second+10) }, true, nil, nil, []string{fmt.Sprintf("seals at %d", second)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := r.disk.Clone()
			check(t, c.spoil(m))
			in, err := partition.Inspect(lookingOnly(m), dir, nil, partition.Left{})
			check(t, err)
			var missing []offset
			for _, s := range in.Missing() {
				missing = append(missing, s.Base)
			}
			var metadata, derived []string
			for _, f := range in.Metadata {
				metadata = append(metadata, f.Name)
			}
			for _, f := range in.Derived {
				derived = append(derived, fmt.Sprintf("%s at %d", f.Name, f.At))
			}
			start := offset(0)
			if c.known {
				start = 4
			}
			if in.Known != c.known || in.Sparse == c.known || in.Start != start ||
				fmt.Sprint(missing, metadata, derived) != fmt.Sprint(c.missing, c.metadata, c.derived) {
				t.Errorf("%+v\nmissing %v, metadata %v, derived %v", in, missing, metadata, derived)
			}
		})
	}
	if _, err := partition.Inspect(r.disk, "nowhere", nil, partition.Left{}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// A segment below the log start may go at any time: it is not missing.
func TestInspectMissesNothingTrimmed(t *testing.T) {
	r, _ := damaged(t, partition.Fsync)
	r.trim(6)
	in, err := partition.Inspect(r.disk, dir, nil, partition.Left{})
	check(t, err)
	if len(in.Seals) == 0 || in.Bases[0] != 6 || len(in.Missing()) != 0 {
		t.Errorf("%+v misses %+v", in, in.Missing())
	}
}

// After a clean stop an inspection says of a log what the next start will make of it:
// whose its files are, where it starts, whether its offsets may have gaps.
func TestInspectAfterACleanStop(t *testing.T) {
	r, _ := damaged(t, partition.Fsync)
	r.trim(4)
	cp, err := r.log.Close()
	check(t, err)
	next, err := copied(t, map[record.Offset][]record.Offset{30: {31, 35}}).ReadFile(dir + "/00000000000000000030.log")
	check(t, err)
	noMetadata := func(m *vfs.Mem) error {
		return errors.Join(m.Remove(dir+"/partition.json"), m.Remove(dir+"/partition.json.copy"))
	}
	another := func(m *vfs.Mem) error {
		return m.WriteFile(dir+"/00000000000000000030.log", next)
	}
	for _, c := range []struct {
		name   string
		change func(m *vfs.Mem) error
		start  record.Offset
		sparse bool // and taken over
		opens  bool
	}{
		{"as left", func(*vfs.Mem) error { return nil }, 4, false, true},
		{"no metadata", noMetadata, 4, false, true},
		{"active segment gone", func(m *vfs.Mem) error { return m.Remove(dir + "/00000000000000000015.log") }, 4, false, true},
		{"another file", another, 4, false, false},
		{"another file, no metadata", func(m *vfs.Mem) error { return errors.Join(another(m), noMetadata(m), m.Remove(dir+"/seals")) }, 3, true, true},
	} {
		m := r.disk.Clone()
		check(t, c.change(m))
		in, err := partition.Inspect(lookingOnly(m), dir, &cp, partition.Left{Stop: partition.Clean})
		check(t, err)
		if in.Start != c.start || in.Sparse != c.sparse || !in.Known || (in.Checkpoint == nil) != c.sparse {
			t.Errorf("%s: %+v", c.name, in)
		}
		left := &rig{book: r.book, t: t, disk: m, cfg: r.cfg, now: r.now, eager: true}
		for _, clean := range []bool{true, false} {
			said := fmt.Sprint(in.Metadata)
			err := left.tryOpen(&cp, clean)
			if (err == nil) != c.opens || strings.Contains(said, "cannot be opened") == c.opens {
				t.Errorf("%s: %v, and the inspection says %s", c.name, err, said)
			}
			if c.opens && left.log.Start() != c.start {
				t.Errorf("%s: the log starts at %d, expected %d", c.name, left.log.Start(), c.start)
			}
			if c.opens {
				break
			}
			in, err = partition.Inspect(lookingOnly(m), dir, &cp, partition.Left{}) // the mark is gone
			check(t, err)
		}
	}
}
