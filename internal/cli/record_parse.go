package cli

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/varvelog/varve"
)

// anyPartition is the partition of a record that leaves the choice to its key.
const anyPartition = -1

// parseRecord reads the JSON form of a record. It is strict, because a field it
// overlooked would be data lost: names are exact and come once, the value must be
// there, and text that JSON could only carry changed is refused. Its Partition is
// anyPartition, its Timestamp 0 (now), when the object names none; offset is read
// and means nothing. Headers may also be an object of names and values, in the
// order written. Key and Value may share line.
func parseRecord(line []byte) (varve.Record, error) {
	p := recordParser{jsonScanner: jsonScanner{line: line}}
	p.r.Partition = anyPartition
	if !utf8.Valid(line) {
		return p.r, errors.New("not valid UTF-8 (such bytes go, in base64, into key_base64 or value_base64)")
	}
	if err := p.object(p.field); err != nil {
		return p.r, err
	}
	if p.next() != 0 || p.pos < len(line) {
		return p.r, errors.New("more than one JSON value on the line")
	}
	if !p.hasValue {
		return p.r, errors.New(`no "value" (write "value":null for a tombstone)`)
	}
	return p.r, nil
}

type recordParser struct {
	jsonScanner
	r        varve.Record
	hasValue bool
}

// object reads { … }, calling field with each name, in order. A name may come
// once only, and counts as the same with and without _base64.
func (p *recordParser) object(field func(name string) error) error {
	if p.next() != '{' {
		return fmt.Errorf("want a JSON object, not %s", p.describe())
	}
	p.pos++
	seen := make([]string, 0, 8)
	return p.each('}', func() error {
		name, err := p.name()
		if err != nil {
			return err
		}
		plain := strings.TrimSuffix(name, "_base64")
		if slices.Contains(seen, plain) {
			return fmt.Errorf("%q comes twice", name)
		}
		seen = append(seen, plain)
		return field(name)
	})
}

func (p *recordParser) field(name string) (err error) {
	switch name {
	case "key", "key_base64":
		p.r.Key, err = p.bytes(name)
	case "value", "value_base64":
		p.hasValue = true
		p.r.Value, err = p.bytes(name)
	case "headers":
		err = p.headers()
	case "timestamp":
		p.r.Timestamp, err = p.timestamp()
	case "partition":
		var n int64
		n, err = p.number(name, math.MaxInt32, anyPartition)
		p.r.Partition = int32(n)
	case "offset":
		_, err = p.number(name, math.MaxInt64, 0)
	default:
		err = fmt.Errorf("unknown field %q (there are key, value, headers, timestamp and partition; to store the line itself use --format lines)", name)
	}
	return err
}

// bytes reads a string or null; with a name in _base64, decoded.
func (p *recordParser) bytes(name string) ([]byte, error) {
	if p.null() {
		return nil, nil
	}
	if p.next() != '"' {
		return nil, fmt.Errorf("%q must be a string or null, not %s", name, p.describe())
	}
	b, err := p.text()
	if err != nil || !strings.HasSuffix(name, "_base64") {
		return b, err
	}
	if b, err = base64.StdEncoding.AppendDecode([]byte{}, b); err != nil {
		return nil, fmt.Errorf("%q is no base64", name)
	}
	return b, nil
}

// headers reads [{"k":…,"v":…},…], {"name":"value",…} or null.
func (p *recordParser) headers() error {
	switch {
	case p.null():
		return nil
	case p.take('{'):
		return p.each('}', func() error {
			name, err := p.name()
			if err != nil {
				return err
			}
			v, err := p.bytes("v")
			if err != nil {
				return fmt.Errorf("header %q: %w", name, err)
			}
			p.r.Headers = append(p.r.Headers, varve.Header{Key: name, Value: v})
			return nil
		})
	case p.take('['):
		return p.each(']', func() error {
			if err := p.header(); err != nil {
				return fmt.Errorf("header %d: %w", len(p.r.Headers)+1, err)
			}
			return nil
		})
	}
	return fmt.Errorf(`"headers" must be an array or an object, not %s`, p.describe())
}

func (p *recordParser) header() error {
	var key, value []byte
	err := p.object(func(name string) (err error) {
		switch name {
		case "k", "k_base64":
			key, err = p.bytes(name)
		case "v", "v_base64":
			value, err = p.bytes(name)
		default:
			err = fmt.Errorf("unknown field %q (there are k and v)", name)
		}
		return err
	})
	if err != nil {
		return err
	}
	if key == nil {
		return errors.New(`"k" must be a string`)
	}
	p.r.Headers = append(p.r.Headers, varve.Header{Key: string(key), Value: value})
	return nil
}

// timestamp reads milliseconds or an RFC 3339 time; null is now.
func (p *recordParser) timestamp() (int64, error) {
	if p.null() {
		return 0, nil
	}
	var ms int64
	var ok bool
	if p.next() == '"' {
		b, err := p.text()
		if err != nil {
			return 0, err
		}
		at, err := time.Parse(time.RFC3339, string(b))
		ms, ok = at.UnixMilli(), err == nil
	} else {
		ms, ok = p.integer()
	}
	switch {
	case !ok:
		return 0, errors.New(`"timestamp" must be whole milliseconds since 1970 or an RFC 3339 time`)
	case ms == 0:
		return 0, errors.New(`"timestamp" 0 cannot be published: the engine takes it for now (use 1)`)
	}
	return ms, nil
}

// number reads a whole number from 0 to most, or null, which is absent.
func (p *recordParser) number(name string, most, absent int64) (int64, error) {
	if p.null() {
		return absent, nil
	}
	n, ok := p.integer()
	if !ok || n < 0 || n > most {
		return 0, fmt.Errorf("%q must be a whole number from 0 to %d", name, most)
	}
	return n, nil
}
