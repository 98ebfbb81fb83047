package partition

import (
	"math"
	"sync"
	"time"
)

// Rates are averages over about the last minute.
type Rates struct {
	Records, Bytes float64 // appended a second
	ReadBytes      float64 // handed to readers a second
}

// rateWindow is how far back a rate looks: what is older by it counts 1/e.
const rateWindow = time.Minute

// rates turn counters into rates.
//
//	field   guarded by   written by
//	all     mu           Measure
type rates struct {
	mu   sync.Mutex
	at   int64 // milliseconds, of the last look
	seen Counters
	now  Rates
}

// Measure brings the rates up to date. The engine calls it every second or so.
func (l *Log) Measure() {
	c, now := l.Counters(), l.env.Now()
	r := &l.rates
	r.mu.Lock()
	defer r.mu.Unlock()
	span := float64(now-r.at) / 1000
	if first := r.at == 0; first || span <= 0 { // the clock was set back: begin anew
		r.at, r.seen = now, c
		return
	}
	keep := math.Exp(-span / rateWindow.Seconds())
	average := func(old float64, count int64) float64 {
		return old*keep + float64(count)/span*(1-keep)
	}
	r.now = Rates{
		Records:   average(r.now.Records, c.Records-r.seen.Records),
		Bytes:     average(r.now.Bytes, c.Bytes-r.seen.Bytes),
		ReadBytes: average(r.now.ReadBytes, c.ReadBytes-r.seen.ReadBytes),
	}
	r.at, r.seen = now, c
}

// Rates are the last that Measure took.
func (l *Log) Rates() Rates {
	l.rates.mu.Lock()
	defer l.rates.mu.Unlock()
	return l.rates.now
}
