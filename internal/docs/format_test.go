package docs

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

// example is a worked hex dump of a format page and the table that reads it.
type example struct {
	page   *page
	line   int
	data   []byte
	fields []field
}

// field is a row of such a table: what stands in some bytes of the dump.
type field struct {
	pos, size int
	name      string
	value     string
}

// examples finds the worked examples of a page: each block marked hexdump
// together with the next table of the columns position, bytes, field, value.
func examples(t *testing.T, p *page) []example {
	t.Helper()
	var found []example
	for _, b := range p.blocks {
		if b.lang != "hexdump" {
			continue
		}
		e := example{page: p, line: b.line, data: undump(t, p, b)}
		for _, tab := range p.tables() {
			if tab.line > b.line && strings.Join(tab.header, "|") == "position|bytes|field|value" {
				e.fields = fieldsOf(t, p, tab)
				break
			}
		}
		if e.fields == nil {
			t.Fatalf("%s:%d: no table reads this dump", p.name, b.line)
		}
		found = append(found, e)
	}
	return found
}

// undump turns the output form of hexdump -C into bytes. A line of one star stands
// for rows like the one before, up to the position of the next.
func undump(t *testing.T, p *page, b block) []byte {
	t.Helper()
	var data, last []byte
	repeat := false
	for i, line := range strings.Split(b.text, "\n") {
		if repeat = repeat || line == "*"; line == "*" {
			continue
		}
		text, _, _ := strings.Cut(line, "|")
		words := strings.Fields(text)
		if len(words) == 0 {
			t.Fatalf("%s:%d: an empty line in a dump", p.name, b.line+1+i)
		}
		at, err := strconv.ParseInt(words[0], 16, 32)
		for repeat && len(last) > 0 && len(data) < int(at) {
			data = append(data, last...)
		}
		if repeat = false; err != nil || int(at) != len(data) {
			t.Fatalf("%s:%d: position %s, expected %08x", p.name, b.line+1+i, words[0], len(data))
		}
		row, err := hex.DecodeString(strings.Join(words[1:], ""))
		if err != nil {
			t.Fatalf("%s:%d: %v", p.name, b.line+1+i, err)
		}
		data, last = append(data, row...), row
	}
	return data
}

func fieldsOf(t *testing.T, p *page, tab table) []field {
	t.Helper()
	var fields []field
	for _, row := range tab.rows {
		pos, err1 := strconv.Atoi(row[0])
		size, err2 := strconv.Atoi(row[1])
		if err1 != nil || err2 != nil || size <= 0 {
			t.Fatalf("%s: row %q of the table at line %d has no place", p.name, row, tab.line)
		}
		fields = append(fields, field{pos, size, row[2], uncode(row[3])})
	}
	return fields
}

// fieldNamed returns the value of a field, a number.
func (e *example) fieldNamed(t *testing.T, name string) int64 {
	t.Helper()
	for _, f := range e.fields {
		if f.name == name {
			return number(t, e, f)
		}
	}
	t.Fatalf("%s:%d: no field %q", e.page.name, e.line, name)
	return 0
}

// numberAt returns the value of the i-th field, a number.
func numberAt(t *testing.T, e *example, i int) int64 {
	t.Helper()
	if i >= len(e.fields) {
		t.Fatalf("%s:%d: only %d fields", e.page.name, e.line, len(e.fields))
	}
	return number(t, e, e.fields[i])
}

func number(t *testing.T, e *example, f field) int64 {
	t.Helper()
	n, err := strconv.ParseInt(f.value, 0, 64)
	if err != nil {
		t.Fatalf("%s:%d: %s is %q, not a number", e.page.name, e.line, f.name, f.value)
	}
	return n
}

// says reads bytes in the form in which the value is written: "text", spaces, zeros, a
// zigzag varint, a number in hex, or a signed big-endian integer.
func says(data []byte, form string) (string, error) {
	switch {
	case strings.HasPrefix(form, `"`) && strconv.CanBackquote(string(data)):
		return `"` + string(data) + `"`, nil
	case form == "spaces":
		return form, only(data, " ")
	case form == "zeros":
		return form, only(data, "\x00")
	case strings.HasPrefix(form, "varint "):
		v, n := binary.Varint(data)
		if n != len(data) {
			return "", fmt.Errorf("% x is no varint of %d bytes", data, len(data))
		}
		return "varint " + strconv.FormatInt(v, 10), nil
	case strings.HasPrefix(form, "0x"):
		return "0x" + hex.EncodeToString(data), nil
	}
	if len(data) > 8 {
		return "", fmt.Errorf("%d bytes are no integer", len(data))
	}
	var v uint64
	for _, b := range data {
		v = v<<8 | uint64(b)
	}
	shift := 64 - 8*len(data)
	return strconv.FormatInt(int64(v<<shift)>>shift, 10), nil
}

func only(data []byte, char string) error {
	if rest := strings.Trim(string(data), char); rest != "" {
		return fmt.Errorf("%q is not only %q", rest, char)
	}
	return nil
}

// Every byte of every worked example is explained, once, by a row that says
// what is really there.
func TestHexDumpsSayWhatTheirTablesSay(t *testing.T) {
	found := 0
	for _, p := range allPages(t) {
		for _, e := range examples(t, p) {
			found++
			pos := 0
			for _, f := range e.fields {
				if f.pos != pos || f.pos+f.size > len(e.data) {
					t.Errorf("%s:%d: %s stands at %d, expected %d of %d", p.name, e.line, f.name, f.pos, pos, len(e.data))
					break
				}
				got, err := says(e.data[f.pos:f.pos+f.size], f.value)
				if err != nil || got != f.value {
					t.Errorf("%s:%d: %s is %s, and the page says %s (%v)", p.name, e.line, f.name, got, f.value, err)
				}
				pos += f.size
			}
			if pos != len(e.data) {
				t.Errorf("%s:%d: the table ends at %d of %d bytes", p.name, e.line, pos, len(e.data))
			}
		}
	}
	if found == 0 {
		t.Error("no page has a worked example")
	}
}

func TestUndumpRepeatsRows(t *testing.T) {
	row := " 20 20 20 20 20 20 20 20  20 20 20 20 20 20 20 20  |                |"
	text := "00000000 " + row + "\n*\n00000030  0a  |.|"
	data := undump(t, &page{name: "x.md"}, block{text: text})
	if want := strings.Repeat(" ", 48) + "\n"; string(data) != want {
		t.Errorf("the dump is %q, want %q", data, want)
	}
}

func TestSaysReadsEachForm(t *testing.T) {
	for _, c := range []struct {
		data []byte
		form string
	}{
		{[]byte{0xff, 0xff}, "-1"},
		{[]byte{0, 0, 0, 7}, "7"},
		{[]byte{0x7f, 255, 255, 255, 255, 255, 255, 255}, strconv.FormatInt(math.MaxInt64, 10)},
		{[]byte{0x01}, "varint -1"},
		{[]byte{0xac, 0x02}, "varint 150"},
		{[]byte("abc"), `"abc"`},
		{[]byte("   "), "spaces"},
		{[]byte{0, 0}, "zeros"},
		{[]byte{0xca, 0xfe}, "0xcafe"},
	} {
		if got, err := says(c.data, c.form); err != nil || got != c.form {
			t.Errorf("% x reads %q (%v), want %q", c.data, got, err, c.form)
		}
	}
}
