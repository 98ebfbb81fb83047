package main

import (
	"math/rand/v2"
	"strconv"
)

// event is one made-up event of a user, as a line of NDJSON.
type event struct {
	user  int    // whose it is
	seq   int64  // which of this user's, from 1
	time  int64  // ms since 1970
	value []byte // valid until the next event
}

// events makes events up: orders, page views and readings of sensors, from 60
// bytes to 4 KiB, the same ones for the same seed. Time goes on from event to
// event, but one in twenty is late by up to five seconds, as in real streams.
type events struct {
	rnd  *rand.Rand
	now  int64
	seqs []int64 // by user: the last one made
	buf  []byte
}

const (
	firstEvent = 1_735_689_600_000 // 2025-01-01T00:00:00Z
	users      = 20_000
	smallest   = 60
	largest    = 4 << 10
)

func newEvents(seed uint64) *events {
	return &events{rnd: rand.New(rand.NewPCG(seed, 0x7661727665)), now: firstEvent, seqs: make([]int64, users)}
}

func (g *events) next() event {
	g.now += g.rnd.Int64N(20)
	e := event{user: g.user(), time: g.now}
	if g.rnd.IntN(20) == 0 {
		e.time -= g.rnd.Int64N(5_000)
	}
	g.seqs[e.user]++
	e.seq = g.seqs[e.user]
	g.head(&e)
	switch kind := g.rnd.IntN(10); {
	case kind < 5:
		g.pageView()
	case kind < 8:
		g.reading()
	default:
		g.order()
	}
	g.buf = append(g.buf, '}')
	e.value = g.buf
	return e
}

// user draws a user; a few are far busier than the rest.
func (g *events) user() int {
	if g.rnd.IntN(4) == 0 {
		return g.rnd.IntN(50)
	}
	return g.rnd.IntN(users)
}

func (g *events) head(e *event) {
	g.buf = append(g.buf[:0], `{"user":"u`...)
	g.buf = strconv.AppendInt(g.buf, int64(e.user), 10)
	g.int(`","seq":`, e.seq)
	g.int(`,"ts":`, e.time)
}

func (g *events) pageView() {
	g.text(`,"type":"page_view","path":"/`, words[g.rnd.IntN(len(words))])
	g.text(`/`, words[g.rnd.IntN(len(words))])
	g.int(`","ms":`, g.rnd.Int64N(3_000))
	if g.rnd.IntN(3) == 0 {
		g.text(`,"agent":"`, "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
		g.text(`","referrer":"https://example.com/`, words[g.rnd.IntN(len(words))])
		g.buf = append(g.buf, '"')
	}
}

func (g *events) reading() {
	g.int(`,"type":"reading","sensor":`, g.rnd.Int64N(500))
	g.int(`,"milli_celsius":`, 15_000+g.rnd.Int64N(10_000))
}

// order has between one and many items, and sometimes a long note: these are
// the large events.
func (g *events) order() {
	g.int(`,"type":"order","id":`, g.rnd.Int64N(1<<40))
	g.buf = append(g.buf, `,"items":[`...)
	for i, n := 0, 1+g.rnd.IntN(4); i < n; i++ {
		if i > 0 {
			g.buf = append(g.buf, ',')
		}
		g.text(`{"sku":"`, words[g.rnd.IntN(len(words))])
		g.int(`","count":`, 1+g.rnd.Int64N(9))
		g.int(`,"cents":`, 99+g.rnd.Int64N(100_000))
		g.buf = append(g.buf, '}')
	}
	g.buf = append(g.buf, ']')
	if g.rnd.IntN(8) == 0 {
		g.text(`,"note":"`, words[g.rnd.IntN(len(words))])
		for size := g.rnd.IntN(largest - 64); len(g.buf) < size; {
			g.text(" ", words[g.rnd.IntN(len(words))])
		}
		g.buf = append(g.buf, '"')
	}
}

func (g *events) text(before, s string) { g.buf = append(append(g.buf, before...), s...) }

func (g *events) int(before string, n int64) {
	g.buf = strconv.AppendInt(append(g.buf, before...), n, 10)
}

var words = [...]string{
	"amber", "basin", "clay", "delta", "erosion", "fossil", "glacier", "humus", "isthmus", "jetty",
	"karst", "lagoon", "moraine", "nodule", "oxbow", "peat", "quartz", "ravine", "sediment", "tundra",
}
