package cli

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func readLines(in io.Reader, limit int) (lines []string, err error) {
	l := newLineReader(in, limit)
	for {
		line, err := l.next()
		if err == io.EOF {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
		lines = append(lines, string(line))
	}
}

func TestLines(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"one", "a\n", []string{"a"}},
		{"no newline at the end", "a\nb", []string{"a", "b"}},
		{"empty lines are records", "\n\na\n\n", []string{"", "", "a", ""}},
		{"carriage returns stay", "a\r\nb\r\n", []string{"a\r", "b\r"}},
		{"any bytes", "\x00\xff\n\xfe", []string{"\x00\xff", "\xfe"}},
		{"at the limit", strings.Repeat("x", 100) + "\n", []string{strings.Repeat("x", 100)}},
		{"at the limit without newline", strings.Repeat("x", 100), []string{strings.Repeat("x", 100)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, in := range []io.Reader{
				strings.NewReader(c.in),
				iotest.OneByteReader(strings.NewReader(c.in)),
				iotest.DataErrReader(strings.NewReader(c.in)),
			} {
				got, err := readLines(in, 100)
				if err != nil || !equalStrings(got, c.want) {
					t.Errorf("got %q, %v; want %q", got, err, c.want)
				}
			}
		})
	}
}

func equalStrings(a, b []string) bool {
	return strings.Join(a, "\n") == strings.Join(b, "\n") && len(a) == len(b)
}

func TestLineTooLong(t *testing.T) {
	for _, in := range []string{
		"a\n" + strings.Repeat("x", 101) + "\nb\n",
		"a\n" + strings.Repeat("x", 101),
		"a\n" + strings.Repeat("x", 5<<20),
	} {
		l := newLineReader(strings.NewReader(in), 100)
		if line, err := l.next(); string(line) != "a" || err != nil {
			t.Fatalf("first line: %q, %v", line, err)
		}
		line, err := l.next()
		if !errors.Is(err, errLineTooLong) || line != nil || l.number != 2 {
			t.Errorf("got %d bytes, %v at line %d; want errLineTooLong at 2", len(line), err, l.number)
		}
	}
}

// A line without end must not take the memory of the machine.
func TestLineWithoutEndIsBounded(t *testing.T) {
	l := newLineReader(zeros{}, 1<<20)
	if _, err := l.next(); !errors.Is(err, errLineTooLong) {
		t.Fatal(err)
	}
	if cap(l.chunk) > 4<<20 {
		t.Errorf("%d bytes held for a limit of 1 MiB", cap(l.chunk))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A failing disk or pipe must not turn half a line into a record.
func TestLinesReadError(t *testing.T) {
	broken := errors.New("broken")
	in := io.MultiReader(strings.NewReader("a\nb\nhalf"), iotest.ErrReader(broken))
	got, err := readLines(in, 100)
	if !errors.Is(err, broken) || !equalStrings(got, []string{"a", "b"}) {
		t.Errorf("got %q, %v", got, err)
	}
}

// Lines given out stay as they were, whatever is read after them.
func TestLinesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(0, 300_000)), 0, 40).Draw(t, "sizes")
		var in bytes.Buffer
		var want [][]byte
		for i, n := range sizes {
			line := bytes.Repeat([]byte{byte('a' + i%26)}, n)
			want = append(want, line)
			in.Write(line)
			in.WriteByte('\n')
		}
		l := newLineReader(&in, 300_000)
		var got [][]byte
		for {
			line, err := l.next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, line)
		}
		if len(got) != len(want) {
			t.Fatalf("%d lines, want %d", len(got), len(want))
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("line %d differs: %d bytes, want %d", i+1, len(got[i]), len(want[i]))
			}
		}
	})
}
