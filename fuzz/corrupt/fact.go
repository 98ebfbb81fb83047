package main

import (
	"bytes"
	"fmt"

	"github.com/varvelog/varve"
)

// fact is one record as it was published.
type fact struct {
	Time    int64
	Key     []byte
	Value   []byte
	Headers []varve.Header
}

// differs says in what a record that was read is not what was published, "" for
// nothing.
func (f *fact) differs(rec *varve.Record) string {
	switch {
	case rec == nil:
		return "it is not there"
	case rec.Timestamp != f.Time:
		return fmt.Sprintf("its time is %d, it was %d", rec.Timestamp, f.Time)
	case !same(rec.Key, f.Key):
		return fmt.Sprintf("its key is %q, it was %q", rec.Key, f.Key)
	case !same(rec.Value, f.Value):
		return fmt.Sprintf("its value is %q, it was %q", rec.Value, f.Value)
	case len(rec.Headers) != len(f.Headers):
		return fmt.Sprintf("it has %d headers, it had %d", len(rec.Headers), len(f.Headers))
	}
	for i, h := range rec.Headers {
		if h.Key != f.Headers[i].Key || !same(h.Value, f.Headers[i].Value) {
			return fmt.Sprintf("header %d is %q, it was %q", i, h, f.Headers[i])
		}
	}
	return ""
}

// same tells null from empty.
func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
