package main

import (
	"bytes"
	"testing"

	"github.com/varvelog/varve"
)

// The next run finds nothing left of the one before.
func TestWorkQueue(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		var out bytes.Buffer
		if err := run(t.Context(), &out, dir); err != nil {
			t.Fatal(err)
		}
		if want := "300 jobs of 10 customers: 300 done, 10 of them twice, 0 out of order, 0 left\n"; out.String() != want {
			t.Errorf("it printed\n%s\nwant\n%s", out.String(), want)
		}
	}
}

func TestLedgerNoticesOrder(t *testing.T) {
	finished := false
	l := &ledger{last: map[string]int{}, finish: func() { finished = true }}
	for _, n := range []string{"0", "2", "1", "1"} {
		l.do(&varve.Record{Key: []byte("c"), Value: []byte(n)})
	}
	if l.done != 2 || l.wrong != 1 || l.twice != 1 || !finished {
		t.Errorf("done %d, out of order %d, twice %d", l.done, l.wrong, l.twice)
	}
}
