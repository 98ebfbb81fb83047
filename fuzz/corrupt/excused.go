package main

import (
	"path"
	"strings"
)

// excuse is something that the engine does not promise, see "What nothing can tell" in
// docs/durability.md: what breaks a promise in this way is counted, and is no failure.
type excuse struct {
	name string
	is   func(m *mutation, st *state, why string) bool
}

var excuses = []excuse{
	{"a log of another partition, with the same base offset, is believed", func(m *mutation, _ *state, _ string) bool {
		return m.op == "swap" && kindOf(m.file) == logFile && path.Base(m.file) == path.Base(m.other)
	}},
	{"a flipped leader epoch of the last batch of a segment is not noticed without the seal", func(m *mutation, _ *state, why string) bool {
		return m.op == "flip" && kindOf(m.file) == logFile && strings.Contains(why, "has leader epoch")
	}},
}

// excusedError is a broken promise that has an excuse.
type excusedError struct {
	name  string
	cause error
}

func (e *excusedError) Error() string { return e.name + ": " + e.cause.Error() }

// excuseFor is the name of what a broken promise is excused by, "" when nothing does.
func excuseFor(m *mutation, st *state, err error) string {
	for _, e := range excuses {
		if e.is(m, st, err.Error()) {
			return e.name
		}
	}
	return ""
}
