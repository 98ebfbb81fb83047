package index

import (
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// benchmarked is an index of 100,000 entries on a real disk.
func benchmarked(b *testing.B) (vfs.FS, *Active) {
	disk := vfs.Dir(b.TempDir())
	a := Create(disk, "1000", testBase, Options{Interval: 1})
	for _, x := range uniform(100_000).batches {
		a.Append(x.last, x.pos, x.size, x.ts)
	}
	return disk, a
}

func BenchmarkAppend(b *testing.B) {
	disk := vfs.Dir(b.TempDir())
	const batches = 1 << 20
	var a *Active
	for i := 0; b.Loop(); i++ {
		if i%batches == 0 {
			a = Create(disk, "1000", testBase, Options{})
		}
		n := i % batches
		a.Append(testBase+record.Offset(n), record.Pos(1000*n), 1000, int64(n))
	}
}

func BenchmarkLookup(b *testing.B) {
	disk, a := benchmarked(b)
	b.Run("active, last page", func(b *testing.B) {
		for b.Loop() {
			a.Lookup(testBase + 99_999)
		}
	})
	b.Run("active, from the file", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			a.Lookup(testBase + record.Offset(i*7919%90_000))
		}
	})
	m, err := a.Seal()
	if err != nil {
		b.Fatal(err)
	}
	s, err := OpenSealed(disk, "1000", testBase, m)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.Run("sealed", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			s.Lookup(testBase + record.Offset(i*7919%100_000))
		}
	})
	b.Run("sealed, by time", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			s.LookupTime(int64(i * 7919 % 100_000))
		}
	})
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			s, err := OpenSealed(disk, "1000", testBase, m)
			if err != nil {
				b.Fatal(err)
			}
			s.Close()
		}
	})
}
