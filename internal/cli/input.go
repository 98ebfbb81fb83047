package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"slices"

	"github.com/varvelog/varve"
)

// origin is where a record came from, for errors about it.
type origin struct {
	file string
	line int // 0: the whole file
}

func (o origin) String() string {
	if o.line == 0 {
		return o.file
	}
	return fmt.Sprintf("line %d of %s", o.line, o.file)
}

// input is a record to publish.
type input struct {
	record varve.Record
	origin origin
}

// inputError is an input that holds no record, or cannot be read.
type inputError struct {
	origin origin
	err    error
}

func (e *inputError) Error() string { return e.origin.String() + ": " + e.err.Error() }
func (e *inputError) Unwrap() error { return e.err }

// inputs are the files to read records from, one after the other.
type inputs struct {
	ctx   context.Context
	stdin io.Reader
	files []string // none: standard input
	bar   *progress
}

const (
	stdinName = "standard input"
	dash      = "-" // stands for it among files
)

// openInputs looks at all files before the first is read, so that a name
// mistyped at the end of a list stores nothing.
func (a *app) openInputs(ctx context.Context, files []string) (*inputs, error) {
	in := &inputs{ctx: ctx, stdin: a.in, files: files, bar: &progress{}}
	var total int64
	for i, name := range files {
		if name == dash && slices.Contains(files[:i], dash) {
			return nil, usagef("- is given twice: standard input can be read once")
		}
		size, err := a.inputSize(name)
		switch {
		case err != nil:
			return nil, err
		case size < 0 || total < 0:
			total = -1
		default:
			total += size
		}
	}
	switch {
	case len(files) > 0:
		in.bar = a.progress("produce", total)
	case !isTerminal(a.in): // else somebody is typing
		in.bar = a.progress("produce", sizeOf(a.in))
	}
	return in, nil
}

// inputSize is how much there is to read of a file, -1 where that is not known.
func (a *app) inputSize(name string) (int64, error) {
	if name == dash {
		return sizeOf(a.in), nil
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, fmt.Errorf("there is no file %s", name)
	case err != nil:
		return 0, err
	case info.IsDir():
		return 0, fmt.Errorf("%s is a directory", name)
	}
	return info.Size(), nil
}

// sizeOf is the size of a stream that is a file, -1 of any other.
func sizeOf(stream any) int64 {
	if f, ok := stream.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return info.Size()
		}
	}
	return -1
}

// records yields the records of all files. The first error ends them: an
// *inputError, or the signal that came while a read was waited for. limit is the
// largest value to read.
func (in *inputs) records(o produceOptions, limit sizeLimit) iter.Seq2[input, error] {
	return func(yield func(input, error) bool) {
		if len(in.files) == 0 {
			in.file(stdinName, in.stdin, o, limit, yield)
			return
		}
		for _, name := range in.files {
			if name == dash {
				if !in.file(stdinName, in.stdin, o, limit, yield) {
					return
				}
				continue
			}
			f, err := os.Open(name)
			if err != nil {
				yield(input{}, &inputError{origin: origin{file: name}, err: err})
				return
			}
			more := in.file(name, f, o, limit, yield)
			f.Close()
			if !more {
				return
			}
		}
	}
}

// file yields the records of one file; false when there shall be no more.
func (in *inputs) file(name string, r io.Reader, o produceOptions, limit sizeLimit, yield func(input, error) bool) bool {
	r = &interruptibleReader{ctx: in.ctx, r: r, moved: in.bar.add}
	if o.wholeFile {
		return in.whole(name, r, o, limit, yield)
	}
	lines := newLineReader(r, limit.bytes)
	decode := func(line []byte) (varve.Record, error) { return decodeLine(line, o.separator) }
	if o.json {
		// A byte takes at most six in JSON (\u0000), and there is more around.
		lines.limit = int(min(8*int64(limit.bytes)+64<<10, math.MaxInt32))
		decode = parseRecord
	}
	for {
		line, err := lines.next()
		if err == io.EOF {
			return true
		}
		at := origin{file: name, line: lines.number}
		var rec varve.Record
		switch {
		case errors.Is(err, errLineTooLong):
			err = tooLong(limit)
		case err == nil && o.json && len(bytes.TrimSpace(line)) == 0:
			continue
		case err == nil:
			rec, err = decode(line)
		}
		if err != nil {
			yield(input{}, in.failed(at, err))
			return false
		}
		if !yield(input{o.complete(rec), at}, nil) {
			return false
		}
	}
}

// tooLong is the error of a value that cannot fit a batch.
func tooLong(limit sizeLimit) error {
	if limit.bytes == maxInflated { // no config raises that
		return fmt.Errorf("%v: more than %d bytes, %s", errLineTooLong, limit.bytes, limit.what)
	}
	return fmt.Errorf("%w: more than %d bytes, %s", errLineTooLong, limit.bytes, limit.what)
}

func (in *inputs) whole(name string, r io.Reader, o produceOptions, limit sizeLimit, yield func(input, error) bool) bool {
	at := origin{file: name}
	value, err := io.ReadAll(io.LimitReader(r, int64(limit.bytes)+1))
	if err == nil && len(value) > limit.bytes {
		err = tooLong(limit)
	}
	if err != nil {
		yield(input{}, in.failed(at, err))
		return false
	}
	return yield(input{o.complete(varve.Record{Partition: anyPartition, Value: value}), at}, nil)
}

// failed puts the place to an error, but for the signal that stopped everything.
func (in *inputs) failed(at origin, err error) error {
	if sig := interrupted(in.ctx); sig != nil {
		return sig
	}
	return &inputError{origin: at, err: err}
}

// decodeLine makes a record of a line: its value, or key and value.
func decodeLine(line, separator []byte) (varve.Record, error) {
	r := varve.Record{Partition: anyPartition, Value: line}
	if len(separator) == 0 {
		return r, nil
	}
	i := bytes.Index(line, separator)
	if i < 0 {
		return r, fmt.Errorf("no key separator %q in it", separator)
	}
	r.Key, r.Value = line[:i:i], line[i+len(separator):]
	return r, nil
}

// complete adds what the flags say to a record. A header that it has with the same
// value is not added again: what was consumed from a copy can be produced as before.
func (o *produceOptions) complete(r varve.Record) varve.Record {
	if o.partition != anyPartition {
		r.Partition = int32(o.partition)
	}
	own := r.Headers
	for _, h := range o.headers {
		has := func(own varve.Header) bool {
			return own.Key == h.Key && bytes.Equal(own.Value, h.Value) && own.Value != nil
		}
		if !slices.ContainsFunc(own, has) {
			r.Headers = append(r.Headers, h)
		}
	}
	return r
}

// interruptibleReader gives up waiting when its context ends: a read of a
// terminal or a pipe can take for ever. The read itself goes on in the
// background with a buffer that nobody looks at again.
type interruptibleReader struct {
	ctx   context.Context
	r     io.Reader
	moved func(bytes int64)
}

func (r *interruptibleReader) Read(p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := r.r.Read(p)
		done <- result{n, err}
	}()
	select {
	case res := <-done:
		r.moved(int64(res.n))
		return res.n, res.err
	case <-r.ctx.Done():
		return 0, context.Cause(r.ctx)
	}
}
