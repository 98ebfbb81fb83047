package retention

import (
	"math"
	"time"

	"github.com/varvelog/varve/record"
)

// Less is lim with a share of its age and size taken off: what expires by it is about to
// expire by lim.
func (lim Limits) Less(share float64) Limits {
	if lim.Age > 0 && lim.Age != Forever {
		lim.Age -= time.Duration(float64(lim.Age) * share)
	}
	lim.Bytes = Less(lim.Bytes, share)
	return lim
}

// Less is a size with a share of it taken off. A negative one is no limit and stays.
func Less(size int64, share float64) int64 {
	if size < 0 {
		return size
	}
	return size - int64(float64(size)*share)
}

// Left says what is left until the segment that holds an offset goes by lim: bytes to be
// appended, and time from now (ms). Each is negative where there is no such limit. A
// segment in front that stays keeps it longer.
func Left(segs []Segment, lim Limits, off record.Offset, now int64) (bytes int64, age time.Duration) {
	i := 0
	for i < len(segs)-1 && segs[i].Next <= off {
		i++
	}
	bytes, age = -1, -1
	if lim.Bytes >= 0 {
		bytes = lim.Bytes
		for _, s := range segs[i+1:] {
			bytes -= min(s.Bytes, bytes)
		}
	}
	if stamp := segs[i].stamp(); lim.Age >= 0 && lim.Age != Forever && stamp != math.MaxInt64 {
		age = max(lim.Age-Millis(now-stamp), 0)
	}
	return bytes, age
}
