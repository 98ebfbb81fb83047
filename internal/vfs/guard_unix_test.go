//go:build unix

package vfs

import (
	"bytes"
	"errors"
	"hash/crc32"
	"os"
	"testing"
	"unsafe"
)

// TestGuardSurvivesARealFault takes the pages of a mapping away, as a disk that
// fails to read them would.
func TestGuardSurvivesARealFault(t *testing.T) {
	d := Dir(t.TempDir())
	f := must(d.OpenFile("index", os.O_RDWR|os.O_CREATE))
	defer f.Close()
	size := 4 * os.Getpagesize()
	must(f.WriteAt(bytes.Repeat([]byte{7}, size), 0))
	m := must(f.Map(int64(size)))
	defer m.Close()
	b := m.Bytes()
	check(t, Guard(func() { _ = b[size-1] }))
	check(t, f.Truncate(0))
	touchAll(t, b)
}

func TestBadMappingFaults(t *testing.T) {
	mem := NewMem()
	check(t, mem.WriteFile("index", make([]byte, 10000)))
	faulty := NewFaulty(mem, func(op Op) Fault { return Fault{Bad: op.Kind == OpMap} })
	f := must(faulty.OpenFile("index", os.O_RDONLY))
	m := must(f.Map(10000))
	if len(m.Bytes()) != 10000 {
		t.Fatalf("%d bytes", len(m.Bytes()))
	}
	touchAll(t, m.Bytes())
	check(t, m.Close())
	check(t, m.Close())
}

var sink int

// touchAll reads b in the ways a lookup does, assembly included.
func touchAll(t *testing.T, b []byte) {
	t.Helper()
	ways := map[string]func(){
		"load":  func() { sink += int(b[len(b)/2]) },
		"copy":  func() { sink += copy(make([]byte, len(b)), b) },
		"crc":   func() { sink += int(crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) & 1) },
		"index": func() { sink += bytes.IndexByte(b, 99) },
	}
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for name, way := range ways {
		err := Guard(way)
		var fault *FaultError
		if !errors.As(err, &fault) {
			t.Errorf("%s: %v, want a *FaultError", name, err)
		} else if fault.Addr < from || fault.Addr >= from+uintptr(len(b)) {
			t.Errorf("%s: fault at %#x, mapping is at %#x", name, fault.Addr, from)
		}
	}
}
