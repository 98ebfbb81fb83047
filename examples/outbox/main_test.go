package main

import (
	"bytes"
	"testing"
)

// Each run finds what those before it have stored, and sends what it stores itself.
func TestOutbox(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []string{
		"orders found in the log: 0\n",
		"orders found in the log: 5\n",
	} {
		var out bytes.Buffer
		if err := run(t.Context(), &out, dir); err != nil {
			t.Fatal(err)
		}
		want += "orders placed: 5\nrelay: crashed between sending and committing\nconfirmations received: 5, and 1 once more\n"
		if out.String() != want {
			t.Errorf("it printed\n%s\nwant\n%s", out.String(), want)
		}
	}
}
