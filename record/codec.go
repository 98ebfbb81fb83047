package record

import (
	"fmt"
	"strconv"
)

// Codec names how the records of a batch are compressed. Its value is what
// the low three bits of a batch's attributes hold.
type Codec uint8

// The codecs of format v2.
const (
	None   Codec = 0
	Gzip   Codec = 1
	Snappy Codec = 2
	LZ4    Codec = 3
	Zstd   Codec = 4
)

var codecNames = [...]string{None: "none", Gzip: "gzip", Snappy: "snappy", LZ4: "lz4", Zstd: "zstd"}

// ParseCodec returns the codec of one of the names that Kafka's
// compression.type takes: none, uncompressed, gzip, snappy, lz4, zstd.
// (Kafka's "producer" is no codec but the absence of a choice.)
func ParseCodec(name string) (Codec, error) {
	if name == "uncompressed" {
		return None, nil
	}
	for c, n := range codecNames {
		if n == name {
			return Codec(c), nil
		}
	}
	return None, fmt.Errorf("record: unknown compression %q (want none, gzip, snappy, lz4 or zstd)", name)
}

// String returns Kafka's name of the codec.
func (c Codec) String() string {
	if c.known() {
		return codecNames[c]
	}
	return "codec(" + strconv.Itoa(int(c)) + ")"
}

func (c Codec) known() bool { return int(c) < len(codecNames) }
