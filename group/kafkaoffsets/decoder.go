package kafkaoffsets

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/varvelog/varve/record"
)

// decoder reads fields one after the other. After the first that fails all are
// zero, and err says which it was. It allocates nothing but strings that it has
// all bytes of.
type decoder struct {
	what     string
	data     []byte
	at       int
	flexible bool // lengths are varints, and structures end in tagged fields
	err      error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = &FormatError{d.what, d.at, fmt.Sprintf(format, args...)}
	}
}

// next takes n bytes; n may be any number.
func (d *decoder) next(n uint64) []byte {
	if d.err == nil && n > uint64(len(d.data)-d.at) {
		d.fail("%d bytes are missing", n-uint64(len(d.data)-d.at))
	}
	if d.err != nil {
		return nil
	}
	field := d.data[d.at : d.at+int(n)]
	d.at += int(n)
	return field
}

func (d *decoder) int16() int16 {
	if field := d.next(2); field != nil {
		return int16(binary.BigEndian.Uint16(field))
	}
	return 0
}

func (d *decoder) int32() int32 {
	if field := d.next(4); field != nil {
		return int32(binary.BigEndian.Uint32(field))
	}
	return 0
}

func (d *decoder) int64() int64 {
	if field := d.next(8); field != nil {
		return int64(binary.BigEndian.Uint64(field))
	}
	return 0
}

// version reads the version of a value and sees that it is known.
func (d *decoder) version(last int16) int16 {
	v := d.int16()
	if d.err == nil && (v < 0 || v > last) {
		d.err = &VersionError{d.what, v}
	}
	return v
}

func (d *decoder) time() time.Time {
	ms := d.int64()
	if ms == record.NoTimestamp || d.err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func (d *decoder) milliseconds() time.Duration {
	return time.Duration(d.int32()) * time.Millisecond
}

// uvarint reads an unsigned varint of at most five bytes, as Kafka's are.
func (d *decoder) uvarint() uint64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.data[d.at:min(len(d.data), d.at+binary.MaxVarintLen32)])
	if n <= 0 || v > math.MaxUint32 {
		d.fail("no varint of 32 bits")
		return 0
	}
	d.at += n
	return v
}

// length reads a length: of a string when it takes two bytes, of bytes or an array
// when it takes four, where the format is not flexible. It is -1 for null.
func (d *decoder) length(size int) int64 {
	n := int64(0)
	switch {
	case d.flexible:
		n = int64(d.uvarint()) - 1
	case size == 2:
		n = int64(d.int16())
	default:
		n = int64(d.int32())
	}
	if d.err == nil && n < -1 {
		d.fail("length %d", n)
	}
	if d.err != nil {
		return 0
	}
	return n
}

// field reads a length and as many bytes; null says that it may be null.
func (d *decoder) field(size int, null bool) []byte {
	n := d.length(size)
	switch {
	case n >= 0:
		return d.next(uint64(n))
	case !null:
		d.fail("null, and it must not be")
	}
	return nil
}

func (d *decoder) string() string       { return string(d.field(2, false)) }
func (d *decoder) stringOrNull() string { return string(d.field(2, true)) }
func (d *decoder) bytes() []byte        { return d.field(4, false) }

// count reads how many elements an array has, of which each takes some bytes.
func (d *decoder) count() int64 {
	n := d.length(4)
	if d.err == nil && (n < 0 || n > int64(len(d.data)-d.at)) {
		d.fail("an array of %d elements in %d bytes", n, len(d.data)-d.at)
		return 0
	}
	return n
}

// tags reads the tagged fields at the end of a structure.
func (d *decoder) tags(field func(tag uint64, data []byte)) {
	if !d.flexible {
		return
	}
	for range d.uvarint() {
		tag := d.uvarint()
		data := d.next(d.uvarint())
		if d.err != nil {
			return
		}
		field(tag, data)
	}
}

func (d *decoder) end() {
	if d.err == nil && d.at != len(d.data) {
		d.fail("%d bytes too many", len(d.data)-d.at)
	}
}
