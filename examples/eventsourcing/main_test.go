package main

import (
	"bytes"
	"testing"
)

// Of 100 there are 14 withdrawals of 7, whoever makes them and in whatever order. What is
// left is there the next time.
func TestEventSourcing(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []string{
		"100 deposited, 4 tellers asked for 5 times 7, paid out: 98\n" +
			"balance 52: by a replay of 16 events, or by a snapshot and 1 of them\n",
		"100 deposited, 4 tellers asked for 5 times 7, paid out: 140\n" +
			"balance 62: by a replay of 38 events, or by a snapshot and 1 of them\n",
	} {
		var out bytes.Buffer
		if err := run(t.Context(), &out, dir); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("it printed\n%s\nwant\n%s", out.String(), want)
		}
	}
}
