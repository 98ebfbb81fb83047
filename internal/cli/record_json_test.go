package cli

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/varvelog/varve"
)

func genBytes() *rapid.Generator[[]byte] {
	return rapid.OneOf(
		rapid.Just([]byte(nil)),
		rapid.Just([]byte{}),
		rapid.SliceOf(rapid.Byte()),
		rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) }),
	)
}

func genRecord() *rapid.Generator[varve.Record] {
	return rapid.Custom(func(t *rapid.T) varve.Record {
		r := varve.Record{
			Partition: rapid.Int32Min(0).Draw(t, "partition"),
			Offset:    varve.Offset(rapid.Int64Min(0).Draw(t, "offset")),
			Timestamp: rapid.OneOf(rapid.Int64(), rapid.Just(int64(-1)), rapid.Just(int64(math.MinInt64))).Draw(t, "timestamp"),
			Key:       genBytes().Draw(t, "key"),
			Value:     genBytes().Draw(t, "value"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			r.Headers = append(r.Headers, varve.Header{
				Key:   string(rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Just([]byte("h"))).Draw(t, "header key")),
				Value: genBytes().Draw(t, "header value"),
			})
		}
		return r
	})
}

// What consume prints is what produce stored: null, empty, text and any bytes.
func TestRecordJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := genRecord().Draw(t, "record")
		if r.Timestamp == 0 {
			r.Timestamp = 1 // 0 is now
		}
		line := appendRecord(nil, &r)
		if bytes.Count(line, []byte("\n")) != 1 || !json.Valid(line) {
			t.Fatalf("not one line of JSON: %q", line)
		}
		got, err := parseRecord(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got.Offset = r.Offset
		if !reflect.DeepEqual(got, r) {
			t.Fatalf("%s\ngot  %#v\nwant %#v", line, got, r)
		}
	})
}

func TestRecordJSONText(t *testing.T) {
	for _, c := range []struct {
		r    varve.Record
		want string
	}{
		{varve.Record{Offset: 7, Timestamp: 5, Value: []byte("b")},
			`{"partition":0,"offset":7,"timestamp":5,"key":null,"value":"b"}`},
		{varve.Record{Partition: 3, Timestamp: -1, Key: []byte{}, Value: []byte{0xff, 0}},
			`{"partition":3,"offset":0,"timestamp":-1,"key":"","value_base64":"/wA="}`},
		{varve.Record{Key: []byte("a\"\\\n\x01é€"), Headers: []varve.Header{{Key: "h"}, {Key: "h", Value: []byte("1")}}},
			`{"partition":0,"offset":0,"timestamp":0,"key":"a\"\\\n\u0001é€","value":null,"headers":[{"k":"h","v":null},{"k":"h","v":"1"}]}`},
	} {
		if got := string(appendRecord(nil, &c.r)); got != c.want+"\n" {
			t.Errorf("got  %swant %s", got, c.want)
		}
	}
}

func TestParseRecord(t *testing.T) {
	text := func(s string) []byte { return []byte(s) }
	for _, c := range []struct {
		in   string
		want varve.Record
	}{
		{`{"value":"b"}`, varve.Record{Partition: anyPartition, Value: text("b")}},
		{` { "value" : null , "key" : "" } ` + "\r", varve.Record{Partition: anyPartition, Key: []byte{}}},
		{`{"value":"\ud83d\ude00\\ud83d"}`, varve.Record{Partition: anyPartition, Value: text(`😀\ud83d`)}},
		{`{"value":"","timestamp":"2026-01-02T03:04:05.678Z"}`, varve.Record{Partition: anyPartition, Value: []byte{}, Timestamp: 1767323045678}},
		{`{"value":"","timestamp":null,"partition":null,"headers":null,"offset":99}`, varve.Record{Partition: anyPartition, Value: []byte{}}},
		{`{"value":"v","headers":{"b":"1","a":null,"b":"2"}}`, varve.Record{Partition: anyPartition, Value: text("v"),
			Headers: []varve.Header{{Key: "b", Value: text("1")}, {Key: "a"}, {Key: "b", Value: text("2")}}}},
		{`{"value":"v","headers":[{"v":"1","k":"b"},{"k_base64":"/w=="}]}`, varve.Record{Partition: anyPartition, Value: text("v"),
			Headers: []varve.Header{{Key: "b", Value: text("1")}, {Key: "\xff"}}}},
	} {
		got, err := parseRecord([]byte(c.in))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s\ngot  %#v, %v\nwant %#v", c.in, got, err, c.want)
		}
	}
}

func TestParseRecordRefuses(t *testing.T) {
	for in, want := range map[string]string{
		``:                                    "not nothing",
		`{"value":"b"`:                        "does not end",
		`hello`:                               "not JSON",
		`[1]`:                                 "want a JSON object, not an array",
		`"x"`:                                 "want a JSON object, not a string",
		`7`:                                   "want a JSON object, not a number",
		`{"value":"a"} {"value":"b"}`:         "more than one",
		`{"value":"a"}x`:                      "more than one",
		`{"user":1}`:                          `unknown field "user"`,
		`{"Value":"a"}`:                       `unknown field "Value"`,
		`{"key":"a"}`:                         `no "value"`,
		`{"value":"a","value":"b"}`:           "comes twice",
		`{"value":"a","value_base64":"YQ=="}`: "comes twice",
		`{"value":{"a":1}}`:                   `"value" must be a string or null, not an object`,
		`{"value":true}`:                      "not a boolean",
		`{"value_base64":"?"}`:                "no base64",
		`{"value":"\ud83d"}`:                  "surrogate",
		`{"value":"\ude00\ud83d"}`:            "surrogate",
		`{"value":"\ud83d\n"}`:                "surrogate",
		"{\"value\":\"\xff\"}":                "UTF-8",
		`{"value":"","timestamp":1.5}`:        "timestamp",
		`{"value":"","timestamp":"today"}`:    "timestamp",
		`{"value":"","timestamp":0}`:          "timestamp",
		`{"value":"","timestamp":99999999999999999999}`: "timestamp",
		`{"value":"","partition":-1}`:                   "partition",
		`{"value":"","partition":2147483648}`:           "partition",
		`{"value":"","headers":7}`:                      "headers",
		`{"value":"","headers":[7]}`:                    "header 1",
		`{"value":"","headers":[{"v":"x"}]}`:            `"k" must be`,
		`{"value":"","headers":[{"k":null}]}`:           `"k" must be`,
		`{"value":"","headers":[{"k":"a","x":1}]}`:      `unknown field "x"`,
		`{"value":"","headers":{"a":1}}`:                `header "a"`,
	} {
		_, err := parseRecord([]byte(in))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", in, err, want)
		}
	}
}

// FuzzJSONScanner holds the scanner against encoding/json: a line it takes for a
// record is JSON, and means what encoding/json says it means.
func FuzzJSONScanner(f *testing.F) {
	f.Add(`{"key":"\u00e9\n","value":"\ud83d\ude00","offset":12}`)
	f.Add(` { "headers" : { "a" : "b" } , "value" : null } `)
	f.Add(`{"value":"","timestamp":-9223372036854775808}`)
	f.Add(`{"value":"a\/b\b\f","partition":01}`)
	f.Fuzz(func(t *testing.T, line string) {
		r, err := parseRecord([]byte(line))
		if err != nil {
			return
		}
		var want struct{ Key, Value *string }
		if err := json.Unmarshal([]byte(line), &want); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for _, c := range []struct {
			got  []byte
			want *string
		}{{r.Key, want.Key}, {r.Value, want.Value}} {
			if c.want != nil && (c.got == nil || string(c.got) != *c.want) {
				t.Fatalf("%s: got %q, want %q", line, c.got, *c.want)
			}
		}
	})
}

func BenchmarkParseRecord(b *testing.B) {
	r := varve.Record{Timestamp: 1767366245000, Key: []byte("user-17"), Value: bytes.Repeat([]byte("x"), 100)}
	line := appendRecord(nil, &r)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseRecord(line); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"partition":0,"offset":7,"timestamp":5,"key":null,"value":"b","headers":[{"k":"h","v":"1"}]}`))
	f.Add([]byte(`{"value_base64":"/wA=","headers":{"a":"b"}}`))
	f.Add([]byte(`{"value":"\ud83d\ude00"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := parseRecord(line)
		if err != nil {
			return
		}
		r.Partition = max(r.Partition, 0)
		if r.Timestamp == 0 {
			r.Timestamp = 1
		}
		again, err := parseRecord(appendRecord(nil, &r))
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Fatalf("%q\ngot  %#v, %v\nwant %#v", line, again, err, r)
		}
	})
}
