package main

import (
	"context"

	"github.com/varvelog/varve/internal/vfs"
)

// What happens in the four lives: everything of which damage is to be tried.

func (l *life) first() {
	l.open()
	l.topic("f", 3, "segment.bytes=420", "index.interval.bytes=1")
	l.topic("i", 1, "durability=interval", "segment.bytes=400", "index.interval.bytes=150", "compression.type=zstd")
	l.topic("o", 2, "durability=os", "segment.bytes=350", "index.interval.bytes=1")
	l.publish("f/0", 2, 1, 3, 1, 2)
	l.publish("f/1", 1, 2, 2, 1, 1)
	l.publish("i/0", 2, 2, 1)
	l.publish("o/0", 1, 2, 1)
	l.publish("o/1", 1, 1)
	l.stop()
	l.snapshot["stop"] = l.disk.Clone()
}

func (l *life) second() {
	l.open()
	l.publish("f/0", 1, 2)
	l.snapshot["day"] = l.disk.Clone()
	l.publish("f/1", 1, 3, 1)
	l.publish("i/0", 1, 2)
	l.publish("o/0", 2, 1)
	if p := l.partition("f/1"); !l.failed() {
		_, err := p.Trim(6)
		l.do(err)
	}
	l.settle()
	l.snapshot["evening"] = l.disk.Clone()
	l.kill()
}

func (l *life) third() {
	l.open()
	l.publish("f/0", 2, 1)
	l.publish("o/0", 1)
	l.kill()
}

// fourth leaves the states: rounds that follow each other at once, a round of several
// frames, three files of the journal, records that a log refused.
func (l *life) fourth() {
	l.open()
	for _, part := range []string{"f/0", "f/1"} {
		before := l.journal.Load()
		l.send(part, 1, 0)
		l.send(part, 2, 0)
		l.settle()
		l.expectWrites(before, 3)
	}
	l.publish("i/0", 1)
	l.together("f/0", "o/1", "i/0")
	l.together("o/1", "f/1", "o/0")
	l.publish("i/0", 2)
	l.publish("o/0", 1, 1, 1, 1)
	if p := l.partition("o/0"); !l.failed() {
		l.do(p.WaitDurable(context.Background(), p.LogEnd()))
		l.settle()
	}
	l.publish("o/0", 1)
	l.publish("f/0", 1, 1, 2, 1)
	l.publish("f/1", 1, 1)
	l.refusedBy("f/1")
	l.publish("f/1", 1)
	l.refusedBy("f/0")
	l.leave("killed", l.disk.Clone())
	l.leave("cut", l.power())

	before := l.journal.Load()
	var unmarked *vfs.Mem
	mark := func() vfs.Fault {
		unmarked = l.power()
		return vfs.Fault{}
	}
	round := func() vfs.Fault {
		l.instead.Store(&mark) // the next write is its mark
		return vfs.Fault{}
	}
	l.instead.Store(&round)
	l.publish("f/0", 2)
	l.expectWrites(before, 2)
	l.leave("unmarked", unmarked)

	l.publish("o/1", 1)
	l.publish("f/1", 1)
	l.snapshot["night"] = l.disk.Clone()
	l.stop()
	l.leave("stopped", l.disk.Crash(vfs.CrashOptions{Names: vfs.NamesKept, Unsynced: vfs.UnsyncedKept}))
}
