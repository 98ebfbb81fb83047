package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/varvelog/varve/record"
)

// count writes a number with its noun: "1 record", "1,234 records".
func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return humanize.Comma(n) + " " + noun + "s"
}

// bytesText writes a size for people: exact where it is short.
func bytesText(n int64) string {
	if n < 10_000 {
		return count(n, "byte")
	}
	return humanize.IBytes(uint64(n))
}

// timeText writes a record's timestamp to the millisecond, in UTC.
func timeText(ms int64) string {
	if ms == record.NoTimestamp {
		return "no time"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// table lines up columns: text to the left, numbers to the right.
type table struct {
	cells [][]string
	right []bool
	width []int
}

// noFigure stands in a table where there is no number.
type noFigure struct{}

func (noFigure) String() string { return "-" }

func newTable(head ...string) *table {
	t := &table{right: make([]bool, len(head)), width: make([]int, len(head))}
	t.add(head)
	return t
}

func (t *table) row(values ...any) {
	cells := make([]string, len(values))
	for i, v := range values {
		cells[i] = fmt.Sprint(v)
		_, text := v.(string)
		t.right[i] = !text
	}
	t.add(cells)
}

func (t *table) add(cells []string) {
	for i, c := range cells {
		t.width[i] = max(t.width[i], utf8.RuneCountInString(c))
	}
	t.cells = append(t.cells, cells)
}

func (t *table) writeTo(w io.Writer) error {
	for _, cells := range t.cells {
		var line strings.Builder
		for i, c := range cells {
			pad := strings.Repeat(" ", t.width[i]-utf8.RuneCountInString(c))
			if t.right[i] {
				line.WriteString(pad + c + "  ")
			} else {
				line.WriteString(c + pad + "  ")
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}
