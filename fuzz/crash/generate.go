package crash

import (
	"math/rand/v2"

	"github.com/varvelog/varve"
)

// generate makes the program of a seed. A small one is meant to be cut at every call,
// a large one at some.
func generate(rng *rand.Rand, large bool) Program {
	g := generator{rng: rng, names: []string{"a", "b"}, partitions: 2, groups: rng.IntN(3) == 0}
	n := 2 + rng.IntN(8)
	if large {
		g.names, g.partitions, n = append(g.names, "c"), 6, 25+rng.IntN(40)
	}
	p := Program{g.create()}
	for len(p) < n {
		p = append(p, g.step(large))
	}
	return p
}

// generateMore makes a program for an engine that has been through something.
func generateMore(rng *rand.Rand, e *varve.Engine) Program {
	g := generator{rng: rng, names: []string{"a", "b"}, partitions: 2}
	if topics := e.Topics(); len(topics) > 0 {
		g.names = nil
		for _, t := range topics {
			g.names = append(g.names, t.Name())
		}
	}
	list, err := e.Groups()
	g.groups = err == nil && len(list) > 0 || rng.IntN(6) == 0
	var p Program
	for range rng.IntN(4) {
		p = append(p, g.step(false))
	}
	return p
}

type generator struct {
	rng        *rand.Rand
	names      []string
	partitions int
	groups     bool // some steps are about groups
}

func (g *generator) one(of ...string) string { return of[g.rng.IntN(len(of))] }

func (g *generator) name() string { return g.one(g.names...) }

// create makes a topic of small segments, so that they roll.
func (g *generator) create() Step {
	words := []string{
		"durability=" + g.one("fsync", "fsync", "interval", "os"),
		"segment.bytes=" + g.one("200", "300", "600", "2000", "9000"),
		"retention.ms=-1",
	}
	if g.rng.IntN(3) == 0 {
		words = append(words, g.one("index.interval.bytes=1", "index.interval.bytes=300", "segment.ms=2000", "flush.ms=200",
			"message.timestamp.type=LogAppendTime", "compression.type=lz4", "retention.bytes=700"))
	}
	return Step{Verb: "create", Topic: g.name(), N: 1 + g.rng.IntN(g.partitions), Words: words}
}

func (g *generator) step(large bool) Step {
	if g.groups && g.rng.IntN(5) < 2 {
		return g.ofGroup(large)
	}
	part := g.rng.IntN(g.partitions)
	switch n := g.rng.IntN(100); {
	case n < 8:
		return g.create()
	case n < 12:
		return Step{Verb: "delete", Topic: g.name()}
	case n < 18:
		return Step{Verb: "alter", Topic: g.name(), Words: []string{g.one("durability=os", "durability=interval", "durability=fsync",
			"retention.ms=0", "retention.bytes=500", "segment.bytes=400", "retention.ms=-1")}}
	case n < 21:
		return Step{Verb: "grow", Topic: g.name(), N: 1 + g.rng.IntN(2)}
	case n < 44:
		return Step{Verb: "publish", Topic: g.name(), Part: part, N: 1 + g.rng.IntN(6), Words: g.ack()}
	case n < 53:
		return Step{Verb: "crowd", Topic: g.name(), N: g.many(large)}
	case n < 60:
		return Step{Verb: "burst", Topic: g.name(), N: 2 + g.rng.IntN(12), Words: g.ack()}
	case n < 61 && large:
		return Step{Verb: "large", Topic: g.name(), Part: part, Words: g.ack()}
	case n < 64:
		return Step{Verb: "durable", Topic: g.name(), Part: part}
	case n < 71:
		return Step{Verb: "trim", Topic: g.name(), Part: part, N: g.rng.IntN(6)}
	case n < 75:
		return Step{Verb: "roll", N: 1 + g.rng.IntN(3)}
	case n < 79:
		return Step{Verb: "retain"}
	case n < 86:
		return Step{Verb: "idle", N: []int{0, 1, 5, 5, 5, 30}[g.rng.IntN(6)]}
	case n < 93:
		return Step{Verb: "reopen"}
	case n < 95:
		return Step{Verb: "full", N: g.rng.IntN(2000)}
	case n < 97:
		return Step{Verb: "room"}
	default:
		return g.fault()
	}
}

// ofGroup makes a step that is about a group.
func (g *generator) ofGroup(large bool) Step {
	s := Step{Topic: g.name(), Words: []string{g.one("g", "g", "g", "h")}}
	set := func(word string, of int) {
		if g.rng.IntN(of) == 0 {
			s.Words = append(s.Words, word)
		}
	}
	switch n := g.rng.IntN(20); {
	case n < 6:
		s.Verb, s.N = "commit", g.rng.IntN(4)
		set("meta=100", 4)
		if large && g.rng.IntN(50) == 0 { // so much that all of it is written anew
			s.Words = append(s.Words, "meta=4000", "times=20")
		}
	case n < 11:
		s.Verb, s.N = "work", 1+g.rng.IntN(8)
		set("from=latest", 4)
		set("meta=no", 3)
	case n < 14:
		s.Verb, s.N = "crew", 1+g.rng.IntN(4)
	case n < 17:
		s.Verb, s.N = "reset", 1+g.rng.IntN(4)
		set(g.one("to=earliest", "to=latest"), 2)
	case n < 18:
		s.Verb = "forget"
	default:
		s.Verb, s.Topic = "disband", ""
	}
	return s
}

// many is how large a crowd is: now and then it fills the journal.
func (g *generator) many(large bool) int {
	if large && g.rng.IntN(5) == 0 {
		return 50 + g.rng.IntN(50)
	}
	return 2 + g.rng.IntN(12)
}

func (g *generator) ack() []string {
	if g.rng.IntN(3) > 0 {
		return nil
	}
	return []string{g.one("os", "interval", "fsync")}
}

func (g *generator) fault() Step {
	op, how := g.one("write", "write", "sync", "sync", "sync", "syncdir", "rename", "create", "truncate", "remove", "mkdir", "allocate"), ""
	switch op {
	case "write":
		how = g.one("", "short", "done")
	case "sync":
		how = g.one("", "drop", "drop", "done")
	}
	s := Step{Verb: "fail", Words: []string{op, g.one(".", "topics", ".log", ".wal", "checkpoint", "json")}}
	if op == "write" && g.rng.IntN(2) == 0 { // what most publishes meet
		s.Words[1] = ".log"
	}
	if op == "syncdir" || op == "mkdir" {
		s.Words[1] = "topics"
	}
	if how != "" {
		s.Words = append(s.Words, how)
	}
	return s
}
