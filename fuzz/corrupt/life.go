package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// life is the making of the directory: four engines in turn, of which two are killed.
// It goes step by step, each waiting until the engine has nothing left to do, so that
// every run writes the same bytes.
//
//	field                 guarded by   written by
//	disk, engine, snapshot, left, flushed   (the steps are one goroutine)
//	now, journal, instead, refuse   atomic
//	written, err          mu           send, and do; of several goroutines in together
//	refused               (the steps)
type life struct {
	disk     *vfs.Mem
	engine   *varve.Engine
	snapshot map[string]*vfs.Mem // of earlier moments, by name
	left     map[string]leftover // by state
	flushed  bool                // the engine has synced the topic of level interval

	now     atomic.Int64
	journal atomic.Int64                     // writes of rounds and marks
	instead atomic.Pointer[func() vfs.Fault] // runs once, in front of the next of them
	refuse  atomic.Bool                      // the next write of a log

	mu      sync.Mutex
	written map[string][]fact // by partition, from offset 0 on
	err     error

	refused map[string]*refusal // by partition
}

// refusal is a record that the file of a log refused when the journal had it, and the
// offset that it would have.
type refusal struct {
	fact
	at record.Offset
}

// leftover is what a stop leaves, and what had been acknowledged.
type leftover struct {
	disk *vfs.Mem
	ends map[string]int
}

// Sizes of the journal: of a life three files are in use, the smallest of 64 KiB.
const (
	lifeJournal  = 512 << 10
	trialJournal = 256 << 10
)

// live makes the directory as each state has it.
func live() (*life, error) {
	defer seedIDs(1)()
	l := &life{
		disk: vfs.NewMem(), written: map[string][]fact{}, refused: map[string]*refusal{}, snapshot: map[string]*vfs.Mem{}, left: map[string]leftover{},
	}
	l.now.Store(1_700_000_000_000)
	l.first()
	l.second()
	l.third()
	l.fourth()
	return l, l.err
}

// leave keeps what a stop of some sort would leave now.
func (l *life) leave(state string, disk *vfs.Mem) {
	ends := map[string]int{}
	for name, facts := range l.written {
		ends[name] = len(facts)
	}
	l.left[state] = leftover{disk, ends}
}

func (l *life) do(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && err != nil {
		l.err = err
	}
}

func (l *life) failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err != nil
}

// open starts an engine on the disk; what it writes to the journal is counted.
func (l *life) open() {
	l.journal.Store(0)
	l.flushed = false
	counted := vfs.NewFaulty(l.disk, func(op vfs.Op) vfs.Fault {
		if op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, ".wal") && op.Off > 0 {
			l.journal.Add(1)
			if f := l.instead.Swap(nil); f != nil {
				return (*f)()
			}
		}
		if op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, ".log") && l.refuse.CompareAndSwap(true, false) {
			return vfs.Fault{Err: syscall.EIO, Short: 20}
		}
		return vfs.Fault{}
	})
	e, err := varve.OpenFS(dated{counted, &l.now}, varve.Options{
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), CacheBytes: -1, ScrubRate: -1, JournalBytes: lifeJournal,
		RetentionInterval: 1000 * time.Hour, Clock: func() time.Time { return time.UnixMilli(l.now.Load()) },
	})
	l.do(err)
	l.engine = e
	l.settle()
}

// stop ends an engine cleanly.
func (l *life) stop() {
	if !l.failed() {
		l.do(l.engine.Close())
	}
}

// kill ends an engine as a signal does: the disk goes on with what it has written.
func (l *life) kill() {
	if !l.failed() {
		left := l.disk.Clone()
		l.stop()
		l.disk = left
	}
}

// settle waits until nothing has changed on the disk for as long as the journal waits
// before its mark, and a while.
func (l *life) settle() {
	const still = 6
	for before, n := "", 0; !l.failed() && n < still; time.Sleep(2 * time.Millisecond) {
		now := digest(l.disk)
		if n++; now != before {
			before, n = now, 0
		}
	}
}

// topic makes a topic, one partition after the other.
func (l *life) topic(name string, partitions int, config ...string) {
	if l.failed() {
		return
	}
	set := map[string]string{"retention.ms": "-1", "flush.ms": "86400000"}
	for _, c := range config {
		key, value, _ := strings.Cut(c, "=")
		set[key] = value
	}
	t, err := l.engine.CreateTopic(name, varve.TopicConfig{Config: set})
	l.do(err)
	for n := 2; n <= partitions && !l.failed(); n++ {
		l.do(t.AddPartitions(n))
	}
}

func (l *life) partition(name string) *varve.Partition {
	var part int
	topic, number, _ := strings.Cut(name, "/")
	fmt.Sscan(number, &part)
	t, err := l.engine.Topic(topic)
	l.do(err)
	if l.failed() {
		return nil
	}
	p, err := t.Partition(part)
	l.do(err)
	return p
}

// publish appends batches of so many records each, with a codec of its own each.
func (l *life) publish(name string, sizes ...int) {
	for _, n := range sizes {
		l.send(name, n, 0)
		if name[0] == 'i' && !l.flushed {
			l.awaitFlush(name)
		}
		l.settle()
	}
}

// awaitFlush waits for the first sync that level interval does by itself, which comes at
// once; for the next one the clock would have to go on for flush.ms.
func (l *life) awaitFlush(name string) {
	for p := l.partition(name); !l.failed() && p.DurableEnd() < p.LogEnd(); {
		time.Sleep(time.Millisecond)
	}
	l.flushed = true
}

// refusedBy publishes a record that the log's file refuses, so that the journal takes it back.
func (l *life) refusedBy(name string) {
	p := l.partition(name)
	if l.failed() {
		return
	}
	f := fact{Time: l.now.Load(), Value: []byte("refused")}
	before := l.journal.Load()
	l.refuse.Store(true)
	_, err := p.Publish(context.Background(), varve.Record{Timestamp: f.Time, Value: f.Value})
	if !errors.Is(err, syscall.EIO) || errors.Is(err, varve.ErrReadOnly) {
		l.do(fmt.Errorf("%s: a publish that its file refuses: %v", name, err))
	}
	l.refused[name] = &refusal{f, record.Offset(l.count(name))}
	l.settle()
	l.expectWrites(before, 3) // what is refused, the cut, a mark
}

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

func (l *life) send(name string, records int, ack varve.Durability) {
	p := l.partition(name)
	if l.failed() {
		return
	}
	var batch []varve.Record
	for range records {
		f := l.next(name)
		batch = append(batch, varve.Record{
			Partition: p.Index(), Timestamp: f.Time, Key: f.Key, Value: f.Value, Headers: f.Headers,
		})
	}
	l.now.Add(1000)
	pub := p.Topic().Publisher(varve.PublisherOptions{
		ByPartition: true, Codec: codecs[l.count(name)%len(codecs)], Ack: ack,
	})
	places, err := pub.PublishAll(context.Background(), batch)
	l.do(err)
	if err == nil && int(places[0].Offset) != l.count(name)-records {
		l.do(fmt.Errorf("%s: published %d at %d", name, records, places[0].Offset))
	}
}

// next is the record that a partition gets at its end. Times go up and down, keys and
// values are missing now and then, and some repeat enough to be worth compressing.
func (l *life) next(name string) fact {
	n := l.count(name)
	f := fact{
		Time: l.now.Load() + int64(n*7919%5000),
		Key:  fmt.Appendf(nil, "key %d", n%7), Value: fmt.Appendf(nil, "%s has %d: %s", name, n, strings.Repeat("strata ", n%5)),
	}
	switch n % 6 {
	case 1:
		f.Key = nil
	case 3:
		f.Value = nil
	case 4:
		f.Headers = []varve.Header{{Key: "source", Value: []byte(name)}, {Key: "none"}}
	case 5:
		f.Value = []byte{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written[name] = append(l.written[name], f)
	return f
}

// count is how many records a partition was given.
func (l *life) count(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.written[name])
}

// together publishes to a partition, and while the journal writes that to others, which
// share the next round then. None of the others may be one that rolls: that waits for the
// journal.
func (l *life) together(first string, rest ...string) {
	if l.failed() {
		return
	}
	gathered := make(chan struct{})
	var wait sync.WaitGroup
	gather := func() {
		defer close(gathered)
		for _, name := range rest {
			p := l.partition(name)
			end := p.LogEnd()
			wait.Go(func() { l.send(name, 1, varve.Fsync) })
			for p.LogEnd() == end {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Millisecond) // appended, and now in the queue
		}
	}
	hold := func() vfs.Fault {
		go gather()
		return vfs.Fault{Block: gathered}
	}
	before := l.journal.Load()
	l.instead.Store(&hold)
	l.send(first, 1, varve.Fsync)
	wait.Wait()
	l.settle()
	l.expectWrites(before, 3)
}

// power is what a power cut leaves that takes everything but names that was not synced.
func (l *life) power() *vfs.Mem { return l.disk.Crash(vfs.CrashOptions{Names: vfs.NamesKept}) }

// errSlow says that a step fell apart; it is to be tried again.
var errSlow = errors.New("the machine was too slow for two rounds without a mark between")

// expectWrites makes sure that so many rounds and marks were written.
func (l *life) expectWrites(before, n int64) {
	if got := l.journal.Load() - before; !l.failed() && got != n {
		l.do(fmt.Errorf("%w: %d writes, expected %d", errSlow, got, n))
	}
}
