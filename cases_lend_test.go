package varve_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/varvelog/varve"
)

// copyOf is a record that shares nothing with rec.
func copyOf(rec varve.Record) varve.Record {
	rec.Key, rec.Value, rec.Headers = bytes.Clone(rec.Key), bytes.Clone(rec.Value), slices.Clone(rec.Headers)
	for i, h := range rec.Headers {
		rec.Headers[i] = varve.Header{Key: strings.Clone(h.Key), Value: bytes.Clone(h.Value)}
	}
	return rec
}

// What a reader lends is right until its next call, and takes no new memory for what is
// read.
func TestLentRecordsShareMemory(t *testing.T) {
	r := newRig(t)
	p := r.one("durability=os")
	const n, size = 200, 20_000 // more than ten reads
	for i := range n {
		r.publish(p, varve.Record{Value: noise(i, size)})
	}
	rd, err := p.Reader(varve.Earliest())
	if err != nil {
		t.Fatal(err)
	}
	rd.Lend()
	var kept [][]byte // so that no memory is given out again
	places := map[*byte]bool{}
	for {
		rec, ok, err := rd.Poll()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		if !bytes.Equal(rec.Value, noise(int(rec.Offset), size)) {
			t.Errorf("record %d is not what was published", rec.Offset)
		}
		kept, places[&rec.Value[0]] = append(kept, rec.Value), true
	}
	if len(kept) != n || len(places) > n/2 {
		t.Errorf("%d records of %d were lent at %d places of memory", len(kept), n, len(places))
	}
}
