package vfs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"pgregory.net/rapid"
)

// stingy writes at most some bytes a call, and fails behind its end.
type stingy struct {
	data       []byte
	atMost     int
	end        int
	vecs, ones int
}

var errEnd = errors.New("end of stingy")

func (s *stingy) writeVec(bufs [][]byte, off int64) (int, error) {
	s.vecs++
	if len(bufs) > vecMax {
		return 0, errors.New("too many buffers")
	}
	return s.put(bytes.Join(bufs, nil), off, s.atMost)
}

func (s *stingy) WriteAt(p []byte, off int64) (int, error) {
	s.ones++
	return s.put(p, off, len(p))
}

func (s *stingy) put(p []byte, off int64, atMost int) (int, error) {
	n := min(len(p), atMost, max(0, s.end-int(off)))
	if n == 0 && len(p) > 0 && atMost > 0 {
		return 0, errEnd
	}
	s.data = dataOp{pos: int(off), data: p[:n]}.apply(s.data)
	if n < min(len(p), atMost) {
		return n, errEnd
	}
	return n, nil
}

func TestWriteVecFinishesShortWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bufs := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 9), 0, 40).Draw(t, "bufs")
		want := bytes.Join(bufs, nil)
		w := &stingy{
			atMost: rapid.IntRange(0, 50).Draw(t, "at most"),
			end:    rapid.IntRange(0, 400).Draw(t, "end"),
		}
		n, err := writeVecAt(w, bufs, 0)
		if fits := len(want) <= w.end; fits != (err == nil) {
			t.Fatalf("%d bytes, end at %d: %v", len(want), w.end, err)
		}
		if n != min(len(want), w.end) || !bytes.Equal(w.data, want[:n]) {
			t.Fatalf("wrote %d: %q, want %q", n, w.data, want)
		}
	})
}

func TestWriteVecManySmallBuffers(t *testing.T) {
	bufs, want := make([][]byte, 5000), make([]byte, 5000)
	for i := range bufs {
		want[i] = byte(i * 7)
		bufs[i] = want[i : i+1]
	}
	for name, fsys := range map[string]FS{"dir": Dir(t.TempDir()), "mem": NewMem()} {
		t.Run(name, func(t *testing.T) {
			f := must(fsys.OpenFile("f", os.O_RDWR|os.O_CREATE))
			defer f.Close()
			n, err := f.WriteVecAt(bufs, 3)
			if n != 5000 || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
			got := make([]byte, 5004)
			n, err = f.ReadAt(got, 0)
			if n != 5003 || err != io.EOF || !bytes.Equal(got[3:n], want) {
				t.Errorf("read back %d, %v", n, err)
			}
		})
	}
}
