package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

const first, second = "first-member ", "second-member"

func pack(c Codec, s string) []byte { return deflate(c, nil, []byte(s), 0) }

func join(parts ...any) []byte {
	var out []byte
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			out = append(out, p...)
		case []byte:
			out = append(out, p...)
		case int:
			out = append(out, byte(p))
		}
	}
	return out
}

func cut(b []byte, n int) []byte { return b[:len(b)-n] }

// flip changes bits of the byte at, counted from the end if negative.
func flip(b []byte, at int, bits byte) []byte {
	b = bytes.Clone(b)
	if at < 0 {
		at += len(b)
	}
	b[at] ^= bits
	return b
}

// lz4Raw is a frame of one stored block under any flags.
func lz4Raw(flags, sizes byte, s string) []byte {
	frame := join(lz4Head[:4], int(flags), int(sizes))
	frame = append(frame, byte(xxh32(frame[4:])>>8))
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(s))|lz4Stored)
	frame = append(frame, s...)
	if flags&lz4BlockSum != 0 {
		frame = binary.LittleEndian.AppendUint32(frame, xxh32([]byte(s)))
	}
	return append(frame, 0, 0, 0, 0)
}

func lz4Stream(s string, options ...lz4.Option) []byte {
	var buf bytes.Buffer
	w := lz4.NewWriter(&buf)
	must(w.Apply(options...))
	_, err := w.Write([]byte(s))
	must(err)
	must(w.Close())
	return buf.Bytes()
}

func zstdStream(s string, options ...zstd.EOption) []byte {
	var buf bytes.Buffer
	w, err := zstd.NewWriter(&buf, options...)
	must(err)
	_, err = w.Write([]byte(s)) // no size in the frame: it is not known yet
	must(err)
	must(w.Close())
	return buf.Bytes()
}

// TestStreams says how every odd stream is read. Each was also given to
// Kafka's Java client (4.4.0): where a case says "java ignores", Java reads
// the start and leaves the rest; everywhere else both agree.
func TestStreams(t *testing.T) {
	skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3}
	xerial := append(bytes.Clone(snappyMagic), 0, 0, 0, 1, 0, 0, 0, 1)
	raw := s2.EncodeSnappy(nil, []byte(first))
	block := join(0, 0, 0, len(raw), raw)
	repeats := []byte(strings.Repeat("0123456789abcdefXYZ", 200))
	dependent := lz4Stream(first)
	dependent[4] &^= lz4Independent
	dependent[6] = byte(xxh32(dependent[4:6]) >> 8)
	kilobytes64 := strings.Repeat("s", 64<<10)
	const refused = "\x00refused"

	for _, c := range []struct {
		codec Codec
		name  string
		in    []byte
		want  string
	}{
		{Gzip, "one member", pack(Gzip, first), first},
		{Gzip, "two members", join(pack(Gzip, first), pack(Gzip, second)), first + second},
		{Gzip, "bytes behind (java ignores)", join(pack(Gzip, first), "garbage"), refused},
		{Gzip, "trailer cut", cut(pack(Gzip, first), 4), refused},
		{Gzip, "no trailer", cut(pack(Gzip, first), 8), refused},
		{Gzip, "crc off", flip(pack(Gzip, first), -6, 1), refused},
		{Gzip, "length off", flip(pack(Gzip, first), -1, 1), refused},
		{Gzip, "nothing", nil, refused},
		{Gzip, "empty", pack(Gzip, ""), ""},

		{LZ4, "one frame", pack(LZ4, first), first},
		{LZ4, "content checksum", lz4Stream(first), first},
		{LZ4, "content checksum off", flip(lz4Stream(first), -1, 1), first},
		{LZ4, "content checksum cut off", cut(lz4Stream(first), 4), refused},
		{LZ4, "content checksum half cut", cut(lz4Stream(first), 2), refused},
		{LZ4, "content size", lz4Stream(first, lz4.SizeOption(uint64(len(first)))), first},
		{LZ4, "block checksum", lz4Stream(first, lz4.BlockChecksumOption(true)), first},
		{LZ4, "block checksum off", flip(lz4Stream(first, lz4.BlockChecksumOption(true)), -10, 1), refused},
		{LZ4, "blocks of 4 MiB", lz4Stream(first, lz4.BlockSizeOption(lz4.Block4Mb)), first},
		{LZ4, "two frames (java ignores)", join(pack(LZ4, first), pack(LZ4, second)), refused},
		{LZ4, "bytes behind (java ignores)", join(pack(LZ4, first), "garbage"), refused},
		{LZ4, "no end mark", cut(pack(LZ4, first), 4), refused},
		{LZ4, "half an end mark", cut(pack(LZ4, first), 2), refused},
		{LZ4, "block cut", cut(pack(LZ4, first), 5), refused},
		{LZ4, "head checksum off", flip(pack(LZ4, first), 6, 1), refused},
		{LZ4, "magic off", flip(pack(LZ4, first), 0, 1), refused},
		{LZ4, "legacy frame", lz4Stream(first, lz4.LegacyOption(true)), refused},
		{LZ4, "skippable frame", join(skippable, pack(LZ4, first)), refused},
		{LZ4, "dependent blocks", dependent, refused},
		{LZ4, "version 0", lz4Raw(0x20, 0x40, first), refused},
		{LZ4, "version 2", lz4Raw(0xa0, 0x40, first), refused},
		{LZ4, "version 3", lz4Raw(0xe0, 0x40, first), refused},
		{LZ4, "dictionary", lz4Raw(0x61, 0x40, first), refused},
		{LZ4, "reserved flag", lz4Raw(0x62, 0x40, first), refused},
		{LZ4, "reserved size bits", lz4Raw(0x60, 0x41, first), refused},
		{LZ4, "reserved top bit", lz4Raw(0x60, 0xc0, first), refused},
		{LZ4, "block size class 3", lz4Raw(0x60, 0x30, first), refused},
		{LZ4, "block size class 7", lz4Raw(0x60, 0x70, first), first},
		{LZ4, "stored block of 64 KiB", lz4Raw(0x60, 0x40, kilobytes64), kilobytes64},
		{LZ4, "stored block of 64 KiB and a byte", lz4Raw(0x60, 0x40, kilobytes64+"s"), refused},
		{LZ4, "block checksum cut off", cut(lz4Raw(0x70, 0x40, first), 6), refused},
		{LZ4, "end mark with the top bit", flip(lz4Raw(0x60, 0x40, first), -1, 0x80), first},
		{LZ4, "empty stored block (java ignores what follows)", join(lz4Head, 0, 0, 0, 0x80, lz4Raw(0x60, 0x40, first)[7:]), refused},
		{LZ4, "nothing", nil, refused},
		{LZ4, "empty", pack(LZ4, ""), ""},

		{Zstd, "one frame", pack(Zstd, first), first},
		{Zstd, "no size", zstdStream(first), first},
		{Zstd, "checksum off", flip(zstdStream(first, zstd.WithEncoderCRC(true)), -1, 1), refused},
		{Zstd, "two frames", join(pack(Zstd, first), pack(Zstd, second)), first + second},
		{Zstd, "empty frame, then one", join(zstdEmpty, pack(Zstd, first)), first},
		{Zstd, "skippable frames", join(skippable, pack(Zstd, first), skippable), first},
		{Zstd, "bytes behind", join(pack(Zstd, first), "garbage"), refused},
		{Zstd, "few bytes behind", join(pack(Zstd, first), "gar"), refused},
		{Zstd, "cut", cut(pack(Zstd, first), 2), refused},
		{Zstd, "nothing", nil, ""},
		{Zstd, "empty frame", zstdEmpty, ""},

		{Snappy, "raw block", raw, first},
		{Snappy, "framed", pack(Snappy, first), first},
		{Snappy, "two blocks", join(xerial, block, block), first + first},
		{Snappy, "head only", xerial, ""},
		{Snappy, "head again", join(xerial, block, xerial, block), first + first},
		{Snappy, "other version", join(snappyMagic, 0, 0, 0, 5, 0, 0, 0, 1, block), first},
		{Snappy, "block cut", join(xerial, block, cut(block, 2)), refused},
		{Snappy, "block size cut (java ignores)", join(xerial, block, 0, 0), refused},
		{Snappy, "head cut", join(xerial, block, snappyMagic), refused},
		{Snappy, "negative block size", join(xerial, "\xff\xff\xff\xff", raw), refused},
		{Snappy, "empty block", join(xerial, 0, 0, 0, 0, block), refused},
		{Snappy, "block of nothing", s2.EncodeSnappy(nil, nil), ""},
		{Snappy, "bytes behind", join(raw, "xx"), refused},
		{Snappy, "s2 repeat", unhex(t, "141c6162636465666768 0108 1100"), refused},
		{Snappy, "s2 block", s2.Encode(nil, repeats), refused},
		{Snappy, "s2 block in a frame", join(xerial, 0, 0, 0, len(s2.Encode(nil, repeats)), s2.Encode(nil, repeats)), refused},
		{Snappy, "nothing", nil, refused},
		{Snappy, "empty", pack(Snappy, ""), ""},

		{None, "as it is", []byte(first), first},
	} {
		b := parse(t, wrap(c.codec, 1, 0, c.in))
		got, err := b.Payload(nil, 0)
		var format *FormatError
		if c.want == refused {
			if !errors.As(err, &format) || errors.Is(err, ErrTooLarge) {
				t.Errorf("%s, %s: %q, %v; want a *FormatError", c.codec, c.name, got, err)
			}
			continue
		}
		if err != nil || string(got) != c.want {
			t.Errorf("%s, %s: %q, %v; want %q", c.codec, c.name, got, err, c.want)
		}
	}
}

// zstdEmpty is a frame that says it holds nothing, and does.
var zstdEmpty = []byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x00, 0x01, 0x00, 0x00}

// TestJavaStreams holds what Kafka's Java client (4.4.0) wrote for the same bytes.
func TestJavaStreams(t *testing.T) {
	for codec, text := range map[Codec]string{
		Gzip:   "1f8b08000000000000ff4bcb2c2a2ed1cd4dcd4d4a2d520000a0283b4a0d000000",
		Snappy: "82534e415050590000000001000000010000000f0d3066697273742d6d656d62657220",
		LZ4:    "04224d186040820d00008066697273742d6d656d6265722000000000",
		Zstd:   "28b52ffd005868000066697273742d6d656d62657220010000",
	} {
		java := unhex(t, text)
		b := parse(t, wrap(codec, 1, 0, java))
		if got, err := b.Payload(nil, 0); err != nil || string(got) != first {
			t.Errorf("%s: %q, %v", codec, got, err)
		}
		// Where the compressor has no choice to make, the bytes are the same.
		if codec == Snappy || codec == LZ4 {
			if got := pack(codec, first); !bytes.Equal(got, java) {
				t.Errorf("%s: wrote %x, Java writes %x", codec, got, java)
			}
		}
	}
}

// TestSnappyBlockSize holds that each block is made of 32 KiB, as in Java.
func TestSnappyBlockSize(t *testing.T) {
	src := deflate(Snappy, nil, sample(100_000), 0)[snappyHeaderSize:]
	for _, want := range []int{32 << 10, 32 << 10, 32 << 10, 100_000 - 96<<10} {
		size := 4 + int(binary.BigEndian.Uint32(src))
		if got, err := s2.DecodedLen(src[4:size]); err != nil || got != want {
			t.Errorf("block of %d bytes, %v; want %d", got, err, want)
		}
		src = src[size:]
	}
	if len(src) != 0 {
		t.Errorf("%d bytes after the last block", len(src))
	}
}

// sample is n bytes that compress like text does.
func sample(n int) []byte {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	var out []byte
	for len(out) < n {
		out = fmt.Appendf(out, "varve %d lamina %x; ", rng.IntN(100), rng.Uint32())
	}
	return out[:n]
}

func TestPayloadLimit(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		for _, size := range []int{1, 100, 511, 512, 513, 32 << 10, 64<<10 + 1, 128 << 10, 300_000, 1 << 20} {
			want := sample(size)
			streams := [][]byte{store(codec, want)}
			if codec == Zstd {
				streams = append(streams, zstdStream(string(want)))
			}
			for _, stored := range streams {
				b := parse(t, wrap(codec, 1, 0, stored))
				for _, dst := range [][]byte{nil, make([]byte, 3, 10), make([]byte, 0, size), make([]byte, 0, 2*size)} {
					if got, err := b.Payload(dst, size); err != nil || !bytes.Equal(got, want) {
						t.Fatalf("%s: %d bytes into %d at limit: %d bytes, %v", codec, size, cap(dst), len(got), err)
					}
					if size > 1 {
						if got, err := b.Payload(dst, size-1); !errors.Is(err, ErrTooLarge) {
							t.Fatalf("%s: %d bytes into %d past the limit: %d bytes, %v", codec, size, cap(dst), len(got), err)
						}
					}
				}
			}
		}
	}
}

func store(c Codec, b []byte) []byte {
	if c == None {
		return b
	}
	return deflate(c, nil, b, 0)
}

func TestPayloadUsesBuffer(t *testing.T) {
	want := sample(10_000)
	for codec := Gzip; codec <= Zstd; codec++ {
		b := parse(t, wrap(codec, 1, 0, deflate(codec, nil, want, 0)))
		dst := make([]byte, 64<<10)
		got, err := b.Payload(dst, 0)
		if err != nil || !bytes.Equal(got, want) || &got[0] != &dst[0] {
			t.Errorf("%s: did not inflate into the buffer given (%v)", codec, err)
		}
	}
	b := parse(t, wrap(None, 1, 0, want))
	got, err := b.Payload(nil, 0)
	if err != nil || &got[0] != &b.raw[BatchOverhead] || cap(got) != len(got) {
		t.Errorf("none: not the batch's own bytes (%v)", err)
	}
}

func TestPayloadAllocatesNothing(t *testing.T) {
	skipUnderRace(t)
	for codec := Gzip; codec <= Zstd; codec++ {
		b := parse(t, wrap(codec, 1, 0, deflate(codec, nil, sample(10_000), 0)))
		dst := make([]byte, 64<<10)
		if n := testing.AllocsPerRun(50, func() {
			if _, err := b.Payload(dst, 0); err != nil {
				t.Fatal(err)
			}
		}); n >= 1 {
			t.Errorf("%s: %v allocations, want none", codec, n)
		}
	}
}

func TestPayloadUnknownCodec(t *testing.T) {
	for codec := Codec(5); codec <= 7; codec++ {
		b := parse(t, wrap(codec, 1, 0, []byte("anything")))
		var format *FormatError
		if _, err := b.Payload(nil, 0); !errors.As(err, &format) || format.At != posAttributes {
			t.Errorf("codec %d: %v", codec, err)
		}
	}
}

// TestEmptiedBatch reads what compaction leaves of a compressed batch.
func TestEmptiedBatch(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		b := parse(t, wrap(codec, 0, 41, nil))
		if got := decode(t, &b); len(got) != 0 || b.NextOffset() != 42 {
			t.Errorf("%s: %d records, next offset %d", codec, len(got), b.NextOffset())
		}
	}
}

// TestBombs gives every codec a stream that inflates a thousandfold, or as
// far as the codec goes, and allows a fraction of that: memory must stay
// near what is allowed.
func TestBombs(t *testing.T) {
	const size, allowed = 32 << 20, 1 << 20
	zeros := make([]byte, size)
	xerial := append(bytes.Clone(snappyMagic), 0, 0, 0, 1, 0, 0, 0, 1)
	block := s2.EncodeSnappy(nil, zeros)
	for _, c := range []struct {
		codec Codec
		name  string
		in    []byte
	}{
		{Gzip, "", deflate(Gzip, nil, zeros, 9)},
		{Snappy, "framed", deflate(Snappy, nil, zeros, 0)},
		{Snappy, "one block", block},
		{Snappy, "one framed block", join(xerial, len(block)>>24, len(block)>>16, len(block)>>8, len(block), block)},
		{LZ4, "64 KiB blocks", deflate(LZ4, nil, zeros, 0)},
		{LZ4, "4 MiB blocks", lz4Stream(string(zeros), lz4.BlockSizeOption(lz4.Block4Mb))},
		{Zstd, "size told", deflate(Zstd, nil, zeros, 0)},
		{Zstd, "size not told", zstdStream(string(zeros))},
		{Zstd, "many frames", bytes.Repeat(deflate(Zstd, nil, zeros[:allowed/2], 0), 2*size/allowed)},
	} {
		b := parse(t, wrap(c.codec, 1, 0, c.in))
		var err error
		allocated := allocatedBytes(func() { _, err = b.Payload(nil, allowed) })
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s %s: %v, want ErrTooLarge", c.codec, c.name, err)
		}
		// Growing leaves buffers behind, and an lz4 block is inflated whole.
		if allocated > 12*allowed {
			t.Errorf("%s %s: %d bytes allocated where %d are allowed", c.codec, c.name, allocated, allowed)
		}
		if _, err := Validate(&b, Limits{MaxInflated: allowed}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s %s: Validate: %v, want ErrTooLarge", c.codec, c.name, err)
		}
	}
}

// TestLyingSizes gives sizes that the bytes behind them cannot make true.
func TestLyingSizes(t *testing.T) {
	for _, c := range []struct {
		codec Codec
		name  string
		in    []byte
		most  uint64
	}{
		{Snappy, "block of 4 GiB", []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0x00, 'a'}, 4 << 10},
		{Snappy, "block of 60 MiB", []byte{0x80, 0x80, 0x80, 0x1e, 0x00, 'a'}, 4 << 10},
		{Snappy, "block past 32 bits", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x00, 'a'}, 4 << 10},
		// One raw block of a byte under a head that says 60 MiB, one that says 2^60.
		{Zstd, "frame of 60 MiB", []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0xc0, 0x03, 0x09, 0, 0, 'a'}, 2 << 20},
		{Zstd, "frame of 2^60", []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0x09, 0, 0, 'a'}, 2 << 20},
		// A window of 2^41 bytes, and one of 256 MiB, which no Kafka client reads.
		{Zstd, "huge window", []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 0x09, 0, 0, 'a'}, 1 << 20},
		{Zstd, "window of 256 MiB", []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x90, 0x09, 0, 0, 'a'}, 1 << 20},
		{LZ4, "block larger than the frame", join(lz4Head, 0xff, 0xff, 0xff, 0x7f, "a"), 4 << 10},
		{LZ4, "block past the end", join(lz4Head, 0, 0, 1, 0, "a"), 4 << 10},
	} {
		b := parse(t, wrap(c.codec, 1, 0, c.in))
		if _, err := b.Payload(nil, 0); err == nil { // decoders exist from here on
			t.Errorf("%s, %s: no error", c.codec, c.name)
		}
		var err error
		allocated := allocatedBytes(func() { _, err = b.Payload(nil, 0) })
		var format *FormatError
		if !errors.As(err, &format) {
			t.Errorf("%s, %s: %v, want a *FormatError", c.codec, c.name, err)
		}
		if allocated > c.most {
			t.Errorf("%s, %s: %d bytes allocated, want %d at most", c.codec, c.name, allocated, c.most)
		}
	}
}

// TestLargeBlockSize: a frame for blocks of 4 MiB holds one of a kilobyte.
func TestLargeBlockSize(t *testing.T) {
	want := strings.Repeat("silt", 256)
	b := parse(t, wrap(LZ4, 1, 0, lz4Stream(want, lz4.BlockSizeOption(lz4.Block4Mb))))
	var got []byte
	var err error
	allocated := allocatedBytes(func() { got, err = b.Payload(nil, 0) })
	if err != nil || string(got) != want || allocated > 64<<10 {
		t.Errorf("%d bytes allocated for %d, %v", allocated, len(got), err)
	}
}

// TestDamagedStreams flips every bit of compressed streams that have no
// checksum of the batch's to save them.
func TestDamagedStreams(t *testing.T) {
	want := sample(3000)
	for codec := Gzip; codec <= Zstd; codec++ {
		stored := deflate(codec, nil, want, 0)
		for at := range stored {
			for bit := range 8 {
				damaged := bytes.Clone(stored)
				damaged[at] ^= 1 << bit
				b := Batch{raw: wrap(codec, 1, 0, damaged), Attributes: Attributes(codec), Count: 1}
				if got, err := b.Payload(nil, 1<<20); err == nil && len(got) > 1<<20 {
					t.Fatalf("%s: byte %d bit %d: %d bytes", codec, at, bit, len(got))
				}
			}
		}
		for n := range stored {
			b := Batch{raw: wrap(codec, 1, 0, stored[:n]), Attributes: Attributes(codec), Count: 1}
			if got, err := b.Payload(nil, 1<<20); err == nil && len(got) == len(want) {
				t.Errorf("%s: whole from %d of %d bytes", codec, n, len(stored))
			}
		}
	}
}

func TestXXH32(t *testing.T) {
	for _, c := range []struct {
		in   string
		want uint32
	}{ // from the reference implementation
		{"", 0x02cc5d05},
		{"a", 0x550d7456},
		{"abc", 0x32d153ff},
		{"Nobody inspects the spammish repetition", 0xe2293b2f},
	} {
		if got := xxh32([]byte(c.in)); got != c.want {
			t.Errorf("xxh32(%q) = %08x, want %08x", c.in, got, c.want)
		}
	}
}
