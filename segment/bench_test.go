package segment

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// benchSegment is a sealed segment on a real disk: some 8 MiB of batches of about
// 1 KiB, ten records each.
func benchSegment(b *testing.B) (*story, *Segment) {
	b.Helper()
	fsys := vfs.Dir(b.TempDir())
	if err := fsys.Mkdir(dir); err != nil {
		b.Fatal(err)
	}
	st := newStory(0, 4096, true)
	value := make([]byte, 90)
	for range 8000 {
		st.add(shape{n: 10, value: func(int) []byte { return value }})
	}
	s := st.write(b, fsys, NewFiles(8))
	finish(b, s)
	b.Cleanup(s.Close)
	return st, s
}

// BenchmarkRead reads on from chunk to chunk, and by offset at random places.
func BenchmarkRead(b *testing.B) {
	st, s := benchSegment(b)
	for _, most := range []int{16 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("sequential/%dKiB", most>>10), func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, 0, most)
			var from record.Offset
			at := record.Pos(-1)
			var bytes int64
			for b.Loop() {
				chunk, err := s.Read(buf, most, from, st.next(), at)
				if err != nil {
					b.Fatal(err)
				}
				bytes += int64(len(chunk.Data))
				if from, at = chunk.Next, chunk.Pos; from == st.next() {
					from, at = 0, -1
				}
			}
			b.SetBytes(bytes / int64(b.N))
		})
	}
	b.Run("random", func(b *testing.B) {
		b.ReportAllocs()
		rng := rand.New(rand.NewPCG(1, 1))
		buf := make([]byte, 0, 16<<10)
		for b.Loop() {
			chunk, err := s.Read(buf, 1, record.Offset(rng.Int64N(int64(st.next()))), st.next(), -1)
			if err != nil || len(chunk.Data) == 0 {
				b.Fatal(err)
			}
		}
	})
	b.Run("random/parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			rng := rand.New(rand.NewPCG(rand.Uint64(), 1))
			buf := make([]byte, 0, 16<<10)
			for p.Next() {
				if _, err := s.Read(buf, 1, record.Offset(rng.Int64N(int64(st.next()))), st.next(), -1); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

func BenchmarkFindTime(b *testing.B) {
	st, s := benchSegment(b)
	b.ReportAllocs()
	rng := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		if _, found, err := s.findTime(rng.Int64N(int64(st.next()))*1000, 0, st.next(), 1<<20); err != nil || !found {
			b.Fatal(found, err)
		}
	}
}
