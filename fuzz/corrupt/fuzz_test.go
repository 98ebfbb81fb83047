package main

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Any bytes as a file of each kind: nothing that was not published comes up, no offset is
// given out twice, and of derived files and of one copy of a document nothing is lost.

func FuzzFormat(f *testing.F)     { fuzzFile(f, format) }
func FuzzLock(f *testing.F)       { fuzzFile(f, lock) }
func FuzzCheckpoint(f *testing.F) { fuzzFile(f, checkpoint) }
func FuzzClean(f *testing.F)      { fuzzFile(f, clean) }
func FuzzTopic(f *testing.F)      { fuzzFile(f, topicDoc) }
func FuzzPartition(f *testing.F)  { fuzzFile(f, partDoc) }
func FuzzLog(f *testing.F)        { fuzzFile(f, logFile) }
func FuzzIndex(f *testing.F)      { fuzzFile(f, indexFile) }
func FuzzTimeIndex(f *testing.F)  { fuzzFile(f, timeIndex) }
func FuzzSeals(f *testing.F)      { fuzzFile(f, seals) }
func FuzzEpochs(f *testing.F)     { fuzzFile(f, epochs) }
func FuzzJournal(f *testing.F)    { fuzzFile(f, journal) }

// fuzzFile puts bytes in the place of a file of a kind. Which one says in which state, and
// which of them. A file of the journal is filled up with zeros, as it was when it was made.
func fuzzFile(f *testing.F, k kind) {
	w := mustWorld(f)
	at := w.places(k)
	for i := range at {
		st, err := w.state(at[i].state)
		if err != nil {
			f.Fatal(err)
		}
		data := st.files[at[i].file]
		if k == journal {
			data = data[:journalPage+roundHeader] // shorter than it is, to be quick
		}
		f.Add(byte(i), data)
	}
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		m := at[int(which)%len(at)]
		st, err := w.state(m.state)
		if err != nil {
			t.Fatal(err)
		}
		if size := len(st.files[m.file]); k == journal && len(data) < size {
			data = append(slices.Clone(data), make([]byte, size-len(data))...)
		}
		if w.isLater(st, m.file, data) {
			return
		}
		m.data = data
		var known *excusedError
		if _, err := w.run(&m); err != nil && !errors.As(err, &known) {
			t.Fatalf("%s: %v", &m, err)
		}
	})
}

// places are files of a kind to put something into. A whole file of another partition, and
// one of a later moment, are not any bytes: nothing in them says that they are not what
// they seem. So of kinds that can be taken apart and put together there are few.
func (w *world) places(k kind) (at []mutation) {
	for _, st := range w.states {
		for _, file := range slices.Sorted(maps.Keys(st.files)) {
			use := kindOf(file) == k
			switch k {
			case logFile:
				use = file == "topics/f/0/00000000000000000003.log" || file == "topics/f/0/00000000000000000020.log"
			case partDoc:
				use = use && partitionOf(file) == "f/1"
			case topicDoc:
				use = use && strings.HasPrefix(file, "topics/f/")
			case seals, epochs:
				use = use && st.name == "stopped"
			case journal:
				use = use && st.name == "unmarked"
			}
			if use {
				at = append(at, mutation{state: st.name, op: "put", file: file})
			}
		}
	}
	return at
}

// isLater says that bytes are what the file is in another state.
func (w *world) isLater(st *state, file string, data []byte) bool {
	return slices.ContainsFunc(w.states, func(other *state) bool {
		return !bytes.Equal(data, st.files[file]) && bytes.Equal(data, other.files[file])
	})
}
