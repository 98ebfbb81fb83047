package cli

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"github.com/varvelog/varve"
)

// The JSON form of a record is one object on one line. What consume prints produce
// reads back to the same record, but for a timestamp of 0, which the engine would
// take for now and produce therefore refuses:
//
//	{"partition":0,"offset":7,"timestamp":1700000000000,"key":"a","value":"b","headers":[{"k":"h","v":"1"}]}
//
// timestamp is in milliseconds since 1970 UTC, -1 for a record without one. key,
// value and a header's v are null where the record has null, so that "" is the
// empty string. Bytes that are no UTF-8 stand, in base64, in key_base64,
// value_base64, k_base64 and v_base64 in place of the plain field. headers is
// left out when there are none.

// appendRecord appends the JSON form of r and a newline.
func appendRecord(dst []byte, r *varve.Record) []byte {
	dst = append(dst, `{"partition":`...)
	dst = strconv.AppendInt(dst, int64(r.Partition), 10)
	dst = append(dst, `,"offset":`...)
	dst = strconv.AppendInt(dst, int64(r.Offset), 10)
	dst = append(dst, `,"timestamp":`...)
	dst = strconv.AppendInt(dst, r.Timestamp, 10)
	dst = append(dst, ',')
	dst = appendField(dst, "key", r.Key)
	dst = append(dst, ',')
	dst = appendField(dst, "value", r.Value)
	if len(r.Headers) > 0 {
		dst = append(dst, `,"headers":[`...)
		for i, h := range r.Headers {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, '{')
			dst = appendField(dst, "k", []byte(h.Key))
			dst = append(dst, ',')
			dst = appendField(dst, "v", h.Value)
			dst = append(dst, '}')
		}
		dst = append(dst, ']')
	}
	return append(dst, '}', '\n')
}

// appendField appends "name":"text", "name":null or "name_base64":"…".
func appendField(dst []byte, name string, b []byte) []byte {
	dst = append(dst, '"')
	dst = append(dst, name...)
	switch {
	case b == nil:
		return append(dst, `":null`...)
	case utf8.Valid(b):
		return appendString(append(dst, `":`...), b)
	}
	dst = append(dst, `_base64":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

// appendString appends valid UTF-8 as a JSON string, escaping only what must be.
func appendString(dst, b []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i, c := range b {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, b[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, hex[c>>4], hex[c&15])
		}
	}
	dst = append(dst, b[from:]...)
	return append(dst, '"')
}
