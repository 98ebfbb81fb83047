package cli

import (
	"bufio"
	"io"

	"github.com/varvelog/varve"
)

// printer writes records to standard output in one of the formats.
type printer struct {
	out       *bufio.Writer
	format    string
	separator string // between key and value; only for text, "" prints no key
	line      []byte
}

const (
	formatText = "text"
	formatJSON = "json"
	formatRaw  = "raw"
)

func newPrinter(w io.Writer, format, separator string) *printer {
	return &printer{out: bufio.NewWriterSize(w, 256<<10), format: format, separator: separator}
}

func (p *printer) print(r *varve.Record) error {
	switch p.format {
	case formatJSON:
		p.line = appendRecord(p.line[:0], r)
		_, err := p.out.Write(p.line)
		return err
	case formatRaw:
		_, err := p.out.Write(r.Value)
		return err
	}
	if p.separator != "" {
		p.out.Write(r.Key)
		p.out.WriteString(p.separator)
	}
	p.out.Write(r.Value)
	return p.out.WriteByte('\n') // a bufio.Writer keeps its first error
}

func (p *printer) flush() error { return p.out.Flush() }
