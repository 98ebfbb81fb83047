package rows

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/bench/measure"
)

func TestValuesAreOfTheirSizeAndDiffer(t *testing.T) {
	for _, size := range []int{10, 100, 1_000_000} {
		all := values(5, size)
		for i, v := range all {
			if len(v) != size {
				t.Errorf("value %d is of %d bytes, want %d", i, len(v), size)
			}
			if i > 0 && bytes.Equal(v, all[i-1]) {
				t.Errorf("of %d bytes, values %d and %d are alike", size, i-1, i)
			}
		}
	}
}

// Every way of reading gives the records that every way of appending took.
func TestReadersCountWhatWasAppended(t *testing.T) {
	err := withPartition(t.TempDir(), varve.OS, func(p *varve.Partition) error {
		if err := fill(p, 1000); err != nil {
			return err
		}
		batch := values(batchRecords, recordBytes)
		if _, err := p.PublishBatch(context.Background(), encoded(batch)); err != nil {
			return err
		}
		for name, read := range map[string]func(*varve.Partition) (int, error){
			"Records": readRecords, "Poll": readPoll, "lent": readLent, "batches": readBatches,
		} {
			if n, err := read(p); n != 1000+batchRecords || err != nil {
				t.Errorf("%s: %d records, %v", name, n, err)
			}
		}
		i := 0
		for rec, err := range p.Records(context.Background(), varve.Last(batchRecords)) {
			if err != nil || !bytes.Equal(rec.Value, batch[i]) {
				t.Fatalf("record %d is %q, %v", i, rec.Value, err)
			}
			i++
		}
		return readGroups(p, 3, 1000+batchRecords)
	})
	if err != nil {
		t.Error(err)
	}
}

func TestFloorReaderReadsAll(t *testing.T) {
	c, end, err := floorReader(t.TempDir(), 10_000)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	for range 2 { // it may be read again
		if _, err := c.Run(""); err != nil {
			t.Error(err)
		}
	}
}

// A durable floor goes round in its file: its length never changes.
func TestDurableFloorKeepsItsLength(t *testing.T) {
	const bytes = 2 << 20
	l, err := openFloor(t.TempDir(), bytes)
	if err != nil {
		t.Fatal(err)
	}
	defer l.File.Close()
	for range 40 {
		if err := l.Append(make([]byte, 100<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := l.File.Stat(); err != nil || info.Size() != bytes {
		t.Errorf("%v, %v", info, err)
	}
}

func TestServedFloorTellsEveryCaller(t *testing.T) {
	send, end, err := served(t.TempDir(), 4)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := together(time.Nanosecond, 4, func(int, int) error { return send([]byte("x")) }); err != nil {
		t.Error(err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

func TestRateCountsAndEnds(t *testing.T) {
	calls, finished := 0, false
	f, err := rateUntil(time.Nanosecond, 5, func() error { calls++; return nil }, func() error { finished = true; return nil })
	if err != nil || calls != warmUp+8 || !finished || f["rec/s"] <= 0 {
		t.Errorf("%d calls, finished %v, %v, %v", calls, finished, f, err)
	}
	bad := errors.New("bad")
	if _, err := rate(time.Hour, 1, func() error { return bad }); !errors.Is(err, bad) {
		t.Error(err)
	}
}

func TestTogetherEndsWithAnError(t *testing.T) {
	var calls atomic.Int64
	bad := errors.New("bad")
	_, err := together(time.Nanosecond, 3, func(w, call int) error {
		calls.Add(1)
		if w == 1 {
			return bad
		}
		return nil
	})
	if !errors.Is(err, bad) || calls.Load() < 3 {
		t.Errorf("%d calls, %v", calls.Load(), err)
	}
}

// A row comes to figures of all its contenders and to verdicts that bear its name.
func TestRowsComeToVerdicts(t *testing.T) {
	for _, row := range All {
		switch row.Name {
		case "floor", "append-async", "allocations", "commit": // the others take seconds, to make their topics
		default:
			continue
		}
		e := &Env{Dir: t.TempDir(), Rounds: 1, Scale: 0.001, Quick: true, Log: io.Discard}
		table, err := row.Run(e)
		if err != nil {
			t.Errorf("%s: %v", row.Name, err)
			continue
		}
		if table.Name != row.Name || len(table.Figures) < 2 || len(table.Verdicts) == 0 {
			t.Errorf("%s: %+v", row.Name, table)
		}
		for _, f := range table.Figures {
			if f.Spread == (measure.Spread{}) {
				t.Errorf("%s: no figure of %s", row.Name, f.Who)
			}
		}
	}
}

// Every reader that follows ends, with all records read.
func TestFollowersEnd(t *testing.T) {
	err := withPartition(t.TempDir(), varve.OS, func(p *varve.Partition) error {
		records, appends, all, err := followed(p, 20, 10)
		if records != 11*batchRecords || appends > all {
			t.Errorf("%d records, %v, %v", records, appends, all)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Every group gets every record, in every round, and members that come and go share all
// partitions.
func TestGroupsAreServed(t *testing.T) {
	err := withEngine(t.TempDir(), quiet(), varve.TopicConfig{Partitions: 6, Config: atLevel(varve.OS)}, func(e *varve.Engine) error {
		if err := filled(e, 200); err != nil {
			return err
		}
		c := pushing(e, "three", 3, 6*200, varve.ConsumeOptions{ByKey: true})
		for range 2 {
			f, err := c.Run("")
			if err != nil || f["rec/s"] <= 0 {
				t.Errorf("%v, %v", f, err)
			}
		}
		f, err := rebalances(e, 6, 3)
		if f["leave"] <= 0 || f["join"] <= 0 {
			t.Errorf("%v", f)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Only what is listed is a child.
func TestChildArguments(t *testing.T) {
	if is, _ := Child([]string{"-quick"}); is {
		t.Error("flags are taken for a child")
	}
	if is, err := Child([]string{"child", "nobody"}); !is || err == nil {
		t.Errorf("%v, %v", is, err)
	}
}
