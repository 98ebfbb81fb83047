package cli

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/varvelog/varve"
)

// place is where in a partition reading starts or stops, as the user said it.
type place struct {
	kind placeKind
	n    int64 // offset, or number of records before the end
	at   time.Time
}

type placeKind int

const (
	placeEarliest placeKind = iota
	placeLatest
	placeOffset
	placeTime
	placeLast
)

const placeHelp = `A place is one of:
  earliest, latest         the ends of each partition
  1234                     an offset
  -10                      that many records before the end
  2026-01-02               a day, or a time such as 2026-01-02T15:04:05Z; without
                           a zone it is UTC
  @1767366245000           a time in milliseconds since 1970
A time stands for the first record at or after it.`

// parsePlace reads a place. A bare number is an offset, never a time.
func parsePlace(s string) (place, error) {
	switch {
	case s == "earliest":
		return place{kind: placeEarliest}, nil
	case s == "latest":
		return place{kind: placeLatest}, nil
	case strings.HasPrefix(s, "@"):
		if ms, err := strconv.ParseInt(s[1:], 10, 64); err == nil {
			return place{kind: placeTime, at: time.UnixMilli(ms)}, nil
		}
		return place{}, usagef("%q is no time (want @ and milliseconds since 1970)", s)
	}
	switch n, err := strconv.ParseInt(s, 10, 64); {
	case errors.Is(err, strconv.ErrRange), err == nil && n == math.MinInt64:
		return place{}, usagef("%q is no place to read from: the number is too large or too small", s)
	case err == nil && strings.HasPrefix(s, "-"):
		return place{kind: placeLast, n: -n}, nil
	case err == nil:
		return place{kind: placeOffset, n: n}, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if at, err := time.Parse(layout, s); err == nil {
			return place{kind: placeTime, at: at}, nil
		}
	}
	return place{}, usagef("%q is no place to read from (want earliest, latest, an offset, -N, or a time such as 2026-01-02T15:04:05Z)", s)
}

// start is where the engine is to begin.
func (p place) start() varve.Start {
	switch p.kind {
	case placeLatest:
		return varve.Latest()
	case placeOffset:
		return varve.At(varve.Offset(p.n))
	case placeTime:
		return varve.AtTime(p.at)
	case placeLast:
		return varve.Last(p.n)
	}
	return varve.Earliest()
}

// offset is the place in partition p as it stands now.
func (p place) offset(ctx context.Context, part *varve.Partition) (varve.Offset, error) {
	start, end := part.Start(), part.End()
	switch p.kind {
	case placeLatest:
		return end, nil
	case placeOffset:
		return varve.Offset(p.n), nil
	case placeTime:
		return part.OffsetFor(ctx, p.at)
	case placeLast:
		return max(start, end-varve.Offset(min(p.n, int64(end)))), nil
	}
	return start, nil
}
