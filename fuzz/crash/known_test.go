package crash

import (
	"math/rand/v2"
	"os"
	"testing"
)

// known are programs that are hard, or once broke a promise, each under the name of
// what it is there for.
var known = []struct{ name, program string }{
	{"a roll while the one in front is not synced",
		"create a 1 segment.bytes=200 retention.ms=-1; publish a/0 2; crowd a 8; burst a 6; reopen"},
	{"weak acknowledgements in front of strong ones",
		"create a 2 durability=os segment.bytes=300 retention.ms=-1; publish a/0 3; publish a/0 1 fsync; crowd a 9; durable a/1; publish a/1 2"},
	{"levels are raised and lowered under records",
		"create a 1 durability=os retention.ms=-1; publish a/0 3; alter a durability=fsync; publish a/0 2; alter a durability=interval; publish a/0 2; idle 1; alter a durability=fsync"},
	{"a checkpoint in the middle of rolls",
		"create a 2 segment.bytes=300 retention.ms=-1; crowd a 8; idle 5; crowd a 8; roll 2; idle 30; publish a/1 2"},
	{"a topic under the name of a deleted one",
		"create a 2 retention.ms=-1; crowd a 6; delete a; create a 1 durability=os retention.ms=-1; publish a/0 2; reopen; delete a; create a 3 retention.ms=-1; crowd a 4"},
	{"everything goes, and the offsets go on",
		"create a 1 segment.bytes=200 retention.ms=-1; publish a/0 5; trim a/0 0; publish a/0 2; alter a retention.ms=0; roll 1; publish a/0 1; reopen; publish a/0 1"},
	{"a sync that loses its pages",
		"create a 2 segment.bytes=400 retention.ms=-1; crowd a 5; fail sync .log drop; crowd a 5; idle 5; publish a/0 1; reopen; publish a/0 2"},
	{"a full disk, and room again",
		"create a 2 segment.bytes=300 retention.ms=-1; crowd a 4; full 200; crowd a 6; idle 5; trim a/0 1; room; crowd a 6"},
	{"partitions that are added, and a start cut while they are",
		"create a 1 retention.ms=-1; publish a/0 2; grow a 2 !kill:9; start !cut:11:lost:lost:5; grow a 2; publish a/2 2"},
	{"a journal that is replayed twice",
		"create a 2 segment.bytes=300 retention.ms=-1; crowd a 9 !cut:60:lost:kept:3; start !cut:9:sectors:random:4; start !kill:14; crowd a 5"},

	{"the cut back of a failed write is lost, and with it durable segments behind it",
		"create a 1 durability=interval segment.bytes=300 retention.ms=-1; publish a/0 1; fail write .log short; publish a/0 2; publish a/0 6; durable a/0"},
	{"a start after a kill serves a topic of which the name is not durable",
		"create a 1 retention.ms=-1 !kill:25; publish a/0 2"},
	{"a start after a kill goes on in a journal file of which the name is not durable",
		"create a 1 retention.ms=-1; publish a/0 1 !kill:13; publish a/0 1"},
	{"a topic that could not be deleted is opened anew, and its epoch not kept",
		"create a 1 durability=os retention.ms=-1; fail rename topics; delete a; publish a/0 3"},
	{"a partition of which the checkpoint of a clean stop knows nothing",
		"create a 1 durability=interval retention.ms=-1; fail truncate json; grow a 1; reopen; publish a/1 2"},
	{"a deletion fails at the sync of its name, and the topic comes back without its records",
		"create b 1 retention.ms=-1; idle 1; publish b/0 3; fail syncdir topics; delete b"},
	{"a segment that went with retention comes back, and is called damaged",
		"create a 2 segment.bytes=600 retention.ms=-1; crowd a 12; alter a retention.ms=0; roll 2; idle 2; reopen"},
	{"a stop is cut while the journal is retired, and rounds are called missing",
		"create a 6 segment.bytes=2000 retention.ms=-1; crowd a 90; large a/3; publish a/3 2; idle 5; crowd a 20"},
	{"the first start is cut, and the next ones while they write over the only whole document",
		"start !cut:12:prefix:kept:6036192529127424616; start !kill:8; start !cut:2:prefix:random:195839202483082454; start"},
	{"the only topic is deleted, and the journal that it had is called missing",
		"create c 3 segment.bytes=9000 retention.ms=-1; crowd c 64; roll 1; delete c; idle 5"},
	{"numbers of rounds go back, and a journal file that returns is newer",
		"create c 3 segment.bytes=9000 retention.ms=-1; crowd c 64; roll 1; delete c; crowd c 1; idle 1; reopen; create b 5 retention.ms=-1; publish b/1 2; stop"},
	{"topics are deleted between checkpoints, and nobody is blamed",
		"create a 2 retention.ms=-1; create b 1 durability=os retention.ms=-1; crowd a 6; publish b/0 2; delete a; create a 1 retention.ms=-1; publish a/0 2; idle 5; delete a; idle 6; publish b/0 1; idle 31; crowd b 2"},
	{"a topic is made and deleted before any checkpoint, over and over",
		"create a 1 retention.ms=-1; publish a/0 2; delete a; create a 3 retention.ms=-1; crowd a 6; delete a; idle 5; idle 5; create a 1 retention.ms=-1; publish a/0 1; delete a; reopen; create b 1; publish b/0 1"},
	{"starts are cut behind deletions",
		"create a 2 retention.ms=-1; create b 1 retention.ms=-1; crowd a 6; publish b/0 2; idle 5; delete a; crowd b 3 !cut:3:lost:random:5; start !kill:9; start !cut:15:sectors:random:6; delete b; idle 5; start"},
	{"files of a deleted topic are not removed, and it is done again",
		"create a 2 retention.ms=-1; create b 1 retention.ms=-1; crowd a 6; fail remove topics; delete a; publish b/0 1; idle 6; delete b; fail remove ~deleted; idle 6; reopen; idle 5"},
	{"a segment refuses what the journal has, and takes what comes in its place",
		"create a 1 retention.ms=-1; publish a/0 1; fail write .log short; publish a/0 4; publish a/0 2; publish a/0 1; idle 6; publish a/0 1"},
	{"one of many refuses its part of a round, and records that no journal has come in its place",
		"create a 5 retention.ms=-1; crowd a 10; fail write .log short; crowd a 15; publish a/0 2 os; publish a/1 2 os; publish a/2 1 os; crowd a 5; idle 6; crowd a 5"},
	{"segments refuse again and again, with rolls and a checkpoint between",
		"create a 2 segment.bytes=600 retention.ms=-1; crowd a 6; fail write .log; publish a/0 3; publish a/0 1; fail write .log done; publish a/1 2; burst a 6; idle 6; fail write .log short; crowd a 6; publish a/0 2; roll 1; publish a/0 1"},
	{"what a segment refused is taken back, and the level falls",
		"create a 1 retention.ms=-1; publish a/0 1; fail write .log short; publish a/0 6; alter a durability=os; publish a/0 1; publish a/0 1; alter a durability=fsync; publish a/0 1"},
	{"what a segment refused is taken back, and its topic deleted",
		"create a 2 retention.ms=-1; crowd a 4; fail write .log short; crowd a 4; delete a; create a 2 retention.ms=-1; crowd a 4"},
	{"the journal refuses to take back what a segment refused",
		"create a 2 retention.ms=-1; crowd a 4; fail write .log short; burst a 4; fail write .wal short; crowd a 4; reopen; publish a/0 1"},
	{"the sync of a segment that is too large for the journal fails",
		"create a 1 retention.ms=-1; publish a/0 1; fail sync .log 1; large a/0; publish a/0 1"},

	{"commits of one group and of many, and all that moves them",
		"create a 2 durability=interval retention.ms=-1; publish a/0 5; work a 2; commit a 1 h; crew a 1; reset a 1; reset a 1 h to=latest; trim a/0 1; work a 1; reopen; crew a 3 h"},
	{"all commits are written anew, and what is in front of them is trimmed",
		"create a 6 retention.ms=-1; publish a/0 3; commit a 0 h; commit a 1 g meta=4000 times=20 !kill:9999; idle 6; commit a 2 g; idle 1"},
	{"a place at an end that is shown later than it was acknowledged",
		"create a 1 retention.ms=-1; publish a/0 5 os; reset a 2 to=latest; publish a/0 3 interval; work a 3 h from=latest; publish a/0 5 os; reset a 2 to=latest; publish a/0 3 interval; work a 3 i from=latest; publish a/0 5 os; reset a 2 to=latest; publish a/0 3 interval; work a 3 j from=latest; publish a/0 5 os; reset a 2 to=latest; publish a/0 3 interval; work a 3 k from=latest; publish a/0 5 os; reset a 2 to=latest; publish a/0 3 interval; work a 3 l from=latest; publish a/0 5 os; reset a 2 to=latest; publish a/0 3 interval; work a 3 m from=latest"},
	{"a group is deleted and begins anew",
		"create a 2 retention.ms=-1; publish a/0 3; commit a 0 g; disband g; commit a 1 g; forget a g; work a 1; disband g; reopen; work a 2"},
	{"a commit that a segment refused, and one that the journal refused",
		"create a 1 retention.ms=-1; publish a/0 3; commit a 1; fail write .log short; commit a 0; commit a 2; reset a 1; fail write .wal short; commit a 0; disband g; reopen; work a 1"},
	{"a power cut takes what a group has committed",
		"create a 2 durability=os retention.ms=-1; publish a/0 4; commit a 0; publish a/1 4; work a 1 h; publish a/0 2; commit a 0; publish a/0 1"},
	{"a power cut takes what a group has committed, and the log grows past it",
		"create a 1 durability=os retention.ms=-1; publish a/0 6; commit a 0 !cut:999:lost:lost:1; publish a/0 9 fsync; reopen; work a 3"},
	{"a power cut takes what a group has committed, and the start after it is cut too",
		"create a 2 durability=os retention.ms=-1; publish a/0 6; commit a 0 !cut:999:lost:lost:1; start"},
	{"commits of a deleted topic do not count in one that has its name",
		"create a 2 retention.ms=-1; publish a/0 4; commit a 0; commit a 1 h; delete a; create a 1 retention.ms=-1; publish a/0 6; work a 2 h; reopen; commit a 1; delete a"},
	{"a topic is deleted, and the power goes off before its commits are forgotten",
		"create a 1 retention.ms=-1; publish a/0 4; commit a 0; delete a !cut:3:lost:lost:1; create a 1 retention.ms=-1; publish a/0 9; work a 3; reopen; forget a"},
	{"a topic cannot be deleted, and keeps its commits",
		"create a 1 retention.ms=-1; publish a/0 4; commit a 0; fail rename topics; delete a; work a 2; fail syncdir topics; delete a; create a 1 retention.ms=-1; publish a/0 1; commit a 1"},
}

// Programs that broke a promise once do not break it again.
func TestKnown(t *testing.T) {
	points := int64(2000)
	if raceDetector {
		points = 20
	} else if testing.Short() {
		points = 200
	}
	for _, k := range known {
		t.Run(k.name, func(t *testing.T) {
			p, err := Parse(k.program)
			if err != nil {
				t.Fatal(err)
			}
			c := &Campaign{Seed: rand.Uint64(), Points: points, Bubble: bubbles(t), Out: os.Stdout}
			if f := c.Repeat(p); f != nil {
				t.Fatalf("a promise is broken:\n%s", f)
			}
		})
	}
}

// A program reads as it was written.
func TestProgramText(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 0))
		p := generate(rng, seed%2 == 0)
		p[rng.IntN(len(p))].Crash = anyCrash(rng, rng.Int64N(100))
		again, err := Parse(p.String())
		if err != nil || again.String() != p.String() {
			t.Fatalf("%s\nreads as\n%s\n(%v)", p, again, err)
		}
	}
	for _, bad := range []string{"jump", "publish a", "publish a/x 1", "create", "create a", "idle x", "retain !boom", "retain !cut:1:lost:kept"} {
		if p, err := Parse(bad); err == nil {
			t.Errorf("%q reads as %q", bad, p)
		}
	}
}
