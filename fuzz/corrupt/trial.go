package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// outcome is what a mutation came to.
type outcome int

const (
	unchanged outcome = iota // nothing is lost
	gap                      // records are lost, and that is told
	refused                  // a partition, a topic or the directory does not open, and says why
	hidden                   // records are lost, and nothing could tell
	excused                  // see excuses
	outcomes
)

func (o outcome) String() string {
	return [...]string{"unchanged", "gap", "refused", "hidden", "excused"}[o]
}

// trial is one directory with something wrong: opened, read, written to, and once more.
type trial struct {
	st      *state
	what    string            // the mutation
	changed map[string][]byte // the files it wrote
	cost    cost
	outcome outcome

	missing map[string][]record.Offset // by partition, with the first engine
	added   map[string]record.Offset   // where the record that was published stands
}

// after is what each partition is given when it was read.
var after = fact{Time: 1_700_000_500_000, Key: []byte("after"), Value: []byte("all of it"), Headers: []varve.Header{{Key: "h"}}}

// run does the mutation and everything else. An error is a broken promise.
func (m *mutation) run(st *state) (outcome, error) {
	disk := st.disk.Clone()
	changed, err := m.apply(st, disk)
	if err != nil {
		return 0, err
	}
	t := &trial{st: st, what: m.String(), changed: changed, cost: costOf(*m, st, changed)}
	err = t.run(disk)
	return t.outcome, err
}

func (t *trial) worse(o outcome) { t.outcome = max(t.outcome, o) }

func (t *trial) run(disk *vfs.Mem) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	s, err := begin(disk)
	if err != nil {
		t.worse(refused)
		return t.mayRefuse("the directory", err, t.cost.directory)
	}
	t.missing, t.added = map[string][]record.Offset{}, map[string]record.Offset{}
	faults := t.eachPartition(s, lookAt, t.first)
	faults = append(faults, t.publish(s)...)
	// Half of the times the power goes off, and takes all that was not synced.
	cut := disk.Crash(vfs.CrashOptions{Names: vfs.NamesKept})
	if err := s.engine.Close(); err != nil {
		faults = append(faults, fmt.Errorf("close: %w", err))
	}
	how := "a stop"
	if t.powerGoesOff() {
		disk, how = cut, "a power cut"
	}
	said := s.lines()
	s, err = begin(disk)
	if err != nil {
		return errors.Join(append(faults, fmt.Errorf("it opened, and does not after %s: %w", how, err), t.log(said))...)
	}
	again := t.eachPartition(s, glanceAt, t.second)
	if err := s.engine.Close(); err != nil {
		again = append(again, fmt.Errorf("close: %w", err))
	}
	if len(again) > 0 {
		faults = append(faults, fmt.Errorf("after %s: %w", how, errors.Join(again...)))
	}
	if len(faults) > 0 {
		faults = append(faults, t.log(said), t.log(s.lines()))
	}
	return errors.Join(faults...)
}

// powerGoesOff chooses how the first engine ends: by the name of the trial, so that it is
// the same each time.
func (t *trial) powerGoesOff() bool {
	h := fnv.New32a()
	h.Write([]byte(t.what))
	return h.Sum32()&1 == 1
}

func (t *trial) log(lines []string) error {
	return fmt.Errorf("log: %s", strings.Join(lines, "\nlog: "))
}

// mayRefuse says what is wrong with a refusal: that it is none of those which the
// mutation may cost, or that it does not say what to look at.
func (t *trial) mayRefuse(what string, err error, may bool) error {
	if !may {
		return fmt.Errorf("%s is refused: %w", what, err)
	}
	for file := range t.changed {
		if strings.Contains(err.Error(), strings.TrimSuffix(file, copySuffix)) {
			return nil
		}
	}
	return fmt.Errorf("%s is refused, and that names no file which was touched: %w", what, err)
}

// eachPartition holds what an engine has against the state.
func (t *trial) eachPartition(
	s *session, look func(*varve.Partition) *view, check func(s *session, p *part, v *view) []error,
) (faults []error) {
	for _, name := range slices.Sorted(maps.Keys(t.st.parts)) {
		p, err := find(s.engine, name)
		known := t.st.parts[name]
		if err == nil {
			v := look(p)
			if err = v.refused; err == nil {
				for _, f := range v.faults {
					faults = append(faults, fmt.Errorf("%s: %s", name, f))
				}
				for _, err := range check(s, known, v) {
					faults = append(faults, fmt.Errorf("%s: %w", name, err))
				}
				continue
			}
		}
		t.worse(refused)
		if err := t.mayRefuse(name, err, t.cost.refuses(name)); err != nil {
			faults = append(faults, err)
		}
	}
	for _, topic := range s.engine.Topics() {
		if _, ok := t.st.parts[topic.Name()+"/0"]; !ok {
			faults = append(faults, fmt.Errorf("there is a topic %s", topic.Name()))
		}
	}
	return faults
}

func find(e *varve.Engine, name string) (*varve.Partition, error) {
	topic, number, _ := strings.Cut(name, "/")
	t, err := e.Topic(topic)
	if err != nil {
		return nil, err
	}
	return t.Partition(int(number[0] - '0'))
}

// first checks what the first engine hands out.
func (t *trial) first(s *session, p *part, v *view) (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	t.exact(p, v, fault)
	if v.start != p.start && len(v.records) > 0 {
		fault("it starts at %d, it did at %d", v.start, p.start)
	}
	may := t.cost.of(p)
	for off := p.start; off < p.end; off++ {
		if _, there := v.records[off]; there {
			continue
		}
		t.missing[p.name] = append(t.missing[p.name], off)
		if !may.has(off) {
			fault("offset %d is lost, which the mutation did not hit", off)
		}
		switch {
		case v.inGap(off), off >= v.end && told(s.lines(), p.name):
			t.worse(gap)
		case may.silently(off):
			t.worse(hidden)
		default:
			fault("offset %d is lost, and nobody is told", off)
		}
	}
	for _, g := range v.gaps {
		if len(t.missing[p.name]) == 0 && !t.cost.beyond(p.name, g.from) {
			fault("there is a gap from %d to %d, and nothing is missing", g.from, g.to)
		}
	}
	return faults
}

// exact checks what is handed out byte for byte.
func (t *trial) exact(p *part, v *view, fault func(string, ...any)) {
	for off, rec := range v.records {
		added, ok := t.added[p.name]
		switch {
		case ok && off == added:
			if why := after.differs(rec); why != "" {
				fault("offset %d is not what was published: %s", off, why)
			}
		case p.refused != nil && off == p.refused.at && p.refused.differs(rec) == "" && t.cost.mayReturn(p):
		case off < p.start || off >= p.end:
			fault("offset %d was never published, or trimmed: %q", off, rec.Value)
		default:
			was := p.at(off)
			if why := was.differs(rec); why != "" {
				fault("offset %d is not what was published: %s", off, why)
			}
			if epoch := v.epochs[off]; epoch != was.epoch {
				fault("offset %d has leader epoch %d, it had %d", off, epoch, was.epoch)
			}
		}
	}
}

// publish gives each partition that takes it one record more.
func (t *trial) publish(s *session) (faults []error) {
	for name, known := range t.st.parts {
		p, err := find(s.engine, name)
		if err != nil || p.Err() != nil {
			continue // judged already
		}
		off, err := p.Publish(context.Background(), varve.Record{Timestamp: after.Time, Key: after.Key, Value: after.Value, Headers: after.Headers})
		if err == nil {
			err = p.WaitDurable(context.Background(), p.LogEnd())
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("publish to %s: %w", name, err))
			continue
		}
		t.added[name] = off
		beyond := t.cost.beyond(name, known.end) || t.cost.mayReturn(known) && off == known.refused.at+1
		if off > known.end && !beyond || off < t.cost.of(known).torn && off < known.end {
			faults = append(faults, fmt.Errorf("the next record of %s has offset %d, the end was %d", name, off, known.end))
		}
	}
	return faults
}

// second checks that the next engine hands out the same, and what was published.
func (t *trial) second(s *session, p *part, v *view) (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	t.exact(p, v, fault)
	added, ok := t.added[p.name]
	if !ok {
		if t.cost.m.op != "copy" { // the first engine may have cut the copy
			fault("it opens now")
		}
		return faults
	}
	if v.records[added] == nil {
		fault("what was published at offset %d is gone", added)
	}
	for off := p.start; off < p.end; off++ {
		_, there := v.records[off]
		was := !slices.Contains(t.missing[p.name], off) || off == added
		if there != was {
			fault("offset %d: is there: %v; was there: %v", off, there, was)
		}
	}
	return faults
}
