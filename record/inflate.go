package record

import "io"

// inflate decompresses src into dst, which is empty but for its capacity. It
// returns ErrTooLarge if there would be more than max bytes.
func inflate(c Codec, dst, src []byte, max int) ([]byte, error) {
	switch c {
	case Gzip:
		return gzipInflate(dst, src, max)
	case Snappy:
		return snappyInflate(dst, src, max)
	case LZ4:
		return lz4Inflate(dst, src, max)
	default:
		return zstdInflate(dst, src, max)
	}
}

// deflate appends src, compressed, to dst. An unknown codec is a bug of the caller.
func deflate(c Codec, dst, src []byte, level int) []byte {
	switch c {
	case Gzip:
		return gzipDeflate(dst, src, level)
	case Snappy:
		return snappyDeflate(dst, src)
	case LZ4:
		return lz4Deflate(dst, src, level)
	case Zstd:
		return zstdDeflate(dst, src, level)
	}
	panic("record: compress with " + c.String())
}

// firstGuess returns dst if it has room for what src may inflate to, or a new
// buffer: batches mostly shrink by a factor of two to five.
func firstGuess(dst, src []byte, max int) []byte {
	const factor, least = 4, 512
	want := max
	if len(src) < (max-least)/factor {
		want = least + factor*len(src)
	}
	if cap(dst) >= want {
		return dst
	}
	return make([]byte, 0, want)
}

// readAll appends to dst what r has, up to max bytes in all.
func readAll(dst []byte, r io.Reader, max int) ([]byte, error) {
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		// One byte more than allowed tells a stream that ends at max from one that goes on.
		n, err := r.Read(dst[len(dst):min(cap(dst), max+1)])
		dst = dst[:len(dst)+n]
		if len(dst) > max {
			return nil, ErrTooLarge
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
