package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/varvelog/varve"
)

func TestReplay(t *testing.T) {
	var out bytes.Buffer
	o := options{records: 20_000, partitions: 4, seed: 1, dir: t.TempDir()}
	if err := run(t.Context(), &out, o); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"publish ", "from start", "from offset", "from time", "every replay equals"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("report lacks %q:\n%s", want, out.String())
		}
	}
}

// A replay that finds anything else than what was published must fail: one
// record more, one changed, one moved, a time off.
func TestReplayNoticesADifference(t *testing.T) {
	for name, spoil := range map[string]func(l *ledger){
		"a record too many": func(l *ledger) { l.partitions[0] = l.partitions[0][:len(l.partitions[0])-1] },
		"a record missing":  func(l *ledger) { l.partitions[0] = append(l.partitions[0], entry{hash: 1, time: firstEvent}) },
		"another record":    func(l *ledger) { l.partitions[0][7].hash++ },
		"another order": func(l *ledger) {
			p := l.partitions[0]
			p[7], p[8] = p[8], p[7]
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := options{records: 200, partitions: 1, seed: 2, dir: t.TempDir()}
			l := newLedger(o.partitions)
			if err := publish(t.Context(), &bytes.Buffer{}, o, l); err != nil {
				t.Fatal(err)
			}
			spoil(l)
			engine, err := varve.Open(o.dir, quiet())
			if err != nil {
				t.Fatal(err)
			}
			defer engine.Close()
			topic, err := engine.Topic(topicName)
			if err != nil {
				t.Fatal(err)
			}
			if err := replays(l)[0].run(t.Context(), &bytes.Buffer{}, topic, l); !errors.Is(err, errMismatch) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestOrderOfAUser(t *testing.T) {
	rec := func(key, value string) *varve.Record {
		return &varve.Record{Key: []byte(key), Value: []byte(value)}
	}
	last := map[string]int64{}
	for _, r := range []*varve.Record{
		rec("u1", `{"seq":5,"x":1}`), rec("u2", `{"seq":1,"x":1}`), rec("u1", `{"seq":6,"x":1}`),
	} {
		if err := inOrder(last, r); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []*varve.Record{rec("u1", `{"seq":6,"x":1}`), rec("u1", `{"seq":8,"x":1}`), rec("u2", `{}`)} {
		if err := inOrder(last, r); !errors.Is(err, errMismatch) {
			t.Errorf("%s: got %v", r.Value, err)
		}
	}
}

// The events are what the report says: of every size, the same for a seed.
func TestEvents(t *testing.T) {
	a, b := newEvents(3), newEvents(3)
	least, most := 1<<30, 0
	for range 100_000 {
		e, f := a.next(), b.next()
		if !bytes.Equal(e.value, f.value) || e.user != f.user || e.time != f.time {
			t.Fatal("the same seed made different events")
		}
		least, most = min(least, len(e.value)), max(most, len(e.value))
	}
	if least < smallest || least > 2*smallest || most > largest || most < largest*9/10 {
		t.Errorf("sizes %d to %d, want about %d to %d", least, most, smallest, largest)
	}
}
