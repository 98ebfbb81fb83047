package record

import (
	"errors"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	// zstdMaxWindow is how far back a frame may refer: libzstd's own default
	// limit, and so that of every Kafka client.
	zstdMaxWindow = 128 << 20

	zstdMaxBlock   = 128 << 10 // bytes a block inflates to at most
	zstdLeastBlock = 4         // bytes a block takes at least
	zstdSlack      = zstdMaxBlock + 64
	zstdGrowth     = 4
)

var errZstdClaim = errors.New("frame claims more than it can hold")

// zstdReader serves all callers, as many at a time as there are processors.
var zstdReader = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(0),
		zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxWindow(zstdMaxWindow))
	must(err)
	return d
})

// zstdInflate decodes straight into the result, which is the window too: a
// stream would need a window of its own, as large as the frame says. The
// price is to decode again into a larger buffer when the first is too small.
func zstdInflate(dst, src []byte, max int) ([]byte, error) {
	most := min(int64(max), int64(len(src)/zstdLeastBlock+1)*zstdMaxBlock)
	dst = zstdGuess(dst, src, most)
	for {
		room := min(int64(cap(dst)), most+zstdSlack)
		out, err := zstdReader().DecodeAll(src, dst[:0:room])
		if err == nil && int64(len(out)) <= most {
			return out, nil
		}
		if err == nil || int64(len(out)) > most {
			return nil, ErrTooLarge
		}
		// The decoder does not always say that the buffer was too small, and
		// may blame the block that met its end. A whole block of space left
		// says that it was not.
		outgrown := errors.Is(err, zstd.ErrDecoderSizeExceeded)
		if !outgrown && room-int64(len(out)) >= zstdSlack {
			return nil, err
		}
		if room == most+zstdSlack {
			return nil, zstdOutgrown(most, max)
		}
		room = zstdGrowth*room + zstdMaxBlock
		dst = make([]byte, 0, min(room, most+zstdSlack))
	}
}

// zstdOutgrown is the error of a frame that claims to be larger than the
// largest buffer: than the limit, or than its bytes could ever make.
func zstdOutgrown(most int64, max int) error {
	if most < int64(max) {
		return errZstdClaim
	}
	return ErrTooLarge
}

// zstdGuess is firstGuess, but takes the first frame's word for its size up to most.
func zstdGuess(dst, src []byte, most int64) []byte {
	var h zstd.Header
	if err := h.Decode(src); err == nil && h.HasFCS && h.FrameContentSize <= uint64(most) {
		if n := int(h.FrameContentSize); n > cap(dst) {
			return make([]byte, 0, n)
		}
		return dst
	}
	return firstGuess(dst, src, int(most))
}

// zstdWriters are one encoder for each speed the library has, each for all callers.
var zstdWriters [zstd.SpeedBestCompression + 1]struct {
	once sync.Once
	enc  *zstd.Encoder
}

func zstdDeflate(dst, src []byte, level int) []byte {
	speed := zstd.SpeedDefault
	if level != 0 {
		speed = zstd.EncoderLevelFromZstd(level)
	}
	w := &zstdWriters[speed]
	w.once.Do(func() {
		var err error
		w.enc, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(speed), zstd.WithEncoderCRC(false))
		must(err)
	})
	return w.enc.EncodeAll(src, dst)
}
