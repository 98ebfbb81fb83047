package wal

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/varvelog/varve/internal/vfs"
)

// Options of a journal. The zero value is right for production.
type Options struct {
	// MaxBytes bounds the files that hold rounds which may be needed; 0: 256 MiB.
	// A quarter of it, or 64 MiB if that is less, is the size a file grows to; the
	// first is a sixteenth of that.
	MaxBytes int64
}

const (
	defaultMaxBytes = 256 << 20
	maxFileBytes    = 64 << 20
	minFileBytes    = 64 << 10
	spareFiles      = 2
)

// MinBytes is the least that Options.MaxBytes may be.
const MinBytes = 4 * minFileBytes

// Journal writes rounds.
//
//	field                guarded by   written by
//	fs, dir, max, grown, least   (immutable)  Open
//	cur, buf, failed     the goroutine that writes
//	round                atomic       Write
//	released             atomic, rising   Release, Retire
//	noted                atomic, rising   Write, Retire
//	live, spares, number, serial, size   mu   Write, Release, prepare
//	needed               atomic       with live: its bytes
//	written              atomic       Write
//	asked                mu           ask, change
//	ready                (a channel)  prepare gives, change takes
type Journal struct {
	fs    vfs.FS
	dir   string
	max   int64
	grown int64 // size files grow to
	least int64 // size of the smallest

	cur    *file
	buf    []byte
	failed error
	round  atomic.Uint64 // of the last round written

	released atomic.Uint64 // rounds up to here are not needed
	noted    atomic.Uint64 // as far as the disk says so
	needed   atomic.Int64  // bytes of live
	written  atomic.Int64  // bytes since Open

	mu     sync.Mutex
	live   []*file // with rounds that may be needed; the last one may be cur
	spares []*file // with none
	number uint64  // of the last life that began
	serial uint64  // in the name of the last file made
	size   int64   // of the next file made
	asked  bool    // a file is being prepared, or is ready
	ready  chan prepared
	done   sync.WaitGroup
}

type prepared struct {
	file *file
	err  error
}

// Open makes ready to write behind what Read has read; it touches nothing yet.
// Rounds go on behind round after, or the last one that was there if that is higher,
// always in a file that held none: what an old one holds behind its last sync is
// not known. The files that were read are kept until Retire; they do not count for
// MaxBytes.
func Open(fsys vfs.FS, dir string, o Options, old *Old, after uint64) *Journal {
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	j := &Journal{fs: fsys, dir: dir, max: o.MaxBytes, number: old.number, serial: old.serial, ready: make(chan prepared, 1)}
	j.round.Store(max(after, old.round, old.released)) // numbers never go back
	j.released.Store(old.released)
	j.noted.Store(old.released)
	if old.round == 0 {
		j.released.Store(j.Round()) // there is none that may be needed
	}
	j.grown = max(o.MaxBytes/4, minFileBytes)
	j.grown = min(j.grown, maxFileBytes) / page * page
	j.least = max(j.grown/16/page*page, minFileBytes)
	j.size = j.least
	if old.unread {
		j.spares = old.files
	} else {
		j.live = slices.Clone(old.files) // one without a round may hold frames of one
	}
	return j
}

// MaxRound is how many bytes of frames every round takes, see FrameBytes; each log of
// which it has Data counts with those of a Cut beside.
func (j *Journal) MaxRound() int64 { return j.least - 3*page - 2*roundHeader }

// CutBytes is what it takes of a round to take one frame back: two Cut frames, so that
// damage of one brings nothing back.
const CutBytes = 2 * frameHeader

// cutRoom is how much room a round needs behind it for one that takes it all back: there is
// always some, in the same file, which is read as long as the round is.
func cutRoom(frames []Frame) int64 {
	n := int64(0)
	for i := range frames {
		if frames[i].Kind == Data {
			n += CutBytes
		}
	}
	if n == 0 {
		return 0
	}
	return align(roundHeader+n, page)
}

// FrameBytes is what a frame with so many bytes of payload takes of a round.
func FrameBytes(payload int64) int64 { return frameHeader + align(payload, 8) }

// ErrFull is returned when a round needs another file and there can be none: the
// disk is full, or MaxBytes is reached. Nothing was written, and a later call may
// succeed.
var ErrFull = errors.New("journal has no room for another file")

// Write writes a round and syncs it: when it returns nil, the frames are on stable
// storage. Without frames it is a closing mark. One of Cut frames alone, two for a log,
// always has room right behind the round that it cuts. After any error but ErrFull the
// journal is of no more use: what the disk has of the round is not known.
func (j *Journal) Write(frames []Frame) (round uint64, err error) {
	if j.failed != nil {
		return 0, j.failed
	}
	bytes := int64(roundHeader)
	for i := range frames {
		bytes += frames[i].Size()
	}
	if j.cur == nil || j.cur.pos+align(bytes, page)+cutRoom(frames) > j.cur.head.size {
		if err := j.change(); err != nil {
			return 0, err
		}
	}
	if err := j.write(frames); err != nil {
		j.failed = fmt.Errorf("journal %s: %w", j.fs.Path(j.cur.name), err)
		return 0, j.failed
	}
	return j.round.Load(), nil
}

func (j *Journal) write(frames []Frame) error {
	c := j.cur
	b := append(j.buf[:0], zeros[:roundHeader]...)
	for i := range frames {
		b = appendFrame(b, &frames[i], c.head.id, c.pos)
	}
	round := j.round.Load() + 1
	head := roundHead{number: round, bytes: int64(len(b)), frames: len(frames), released: j.released.Load()}
	head.put(b, c.head.id, c.pos)
	b = append(b, zeros[:align(int64(len(b)), page)-int64(len(b))]...)
	if j.buf = b; cap(j.buf) > 4<<20 {
		j.buf = nil
	}
	if c.pos+int64(len(b)) > c.head.size {
		return fmt.Errorf("a round of %d bytes is larger than a file", len(b))
	}
	if _, err := c.f.WriteAt(b, c.pos); err != nil {
		return err
	}
	if err := c.f.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	c.pos += int64(len(b))
	j.written.Add(int64(len(b)))
	j.mu.Lock()
	c.last = round
	j.mu.Unlock()
	j.round.Store(round)
	j.noted.Store(head.released)
	if c.pos > c.head.size/2 {
		j.ask()
	}
	return nil
}

var zeros [page]byte

// ask has the next file prepared in the background.
func (j *Journal) ask() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.asked {
		return
	}
	j.asked = true
	j.done.Go(func() {
		f, err := j.prepare()
		j.ready <- prepared{f, err}
	})
}

// change goes on in the next file.
func (j *Journal) change() error {
	j.ask()
	p := <-j.ready
	if p.err != nil { // maybe of some time ago
		p.file, p.err = j.prepare()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked = false
	if p.err != nil {
		return fmt.Errorf("%w: %w", ErrFull, p.err)
	}
	j.live = append(j.live, p.file)
	j.countLocked()
	j.cur = p.file
	return nil
}

// prepare makes a file ready to be written: a spare one, or where all are needed a
// new one of twice the size, for rounds come faster than they are released.
func (j *Journal) prepare() (*file, error) {
	j.mu.Lock()
	j.number++
	head := fileHead{number: j.number, id: newID(), released: j.released.Load()}
	c, err := j.spareLocked()
	if err != nil {
		j.mu.Unlock()
		return nil, err
	}
	if c != nil {
		head.size = c.head.size
	} else if head.size = j.size; j.Bytes()+head.size > j.max {
		j.mu.Unlock()
		return nil, fmt.Errorf("its %d bytes are all needed until the next checkpoint", j.Bytes())
	} else {
		j.serial++
	}
	serial := j.serial
	j.mu.Unlock()
	if c != nil {
		err := c.open(j.fs)
		if err == nil {
			err = c.begin(head)
		}
		if err == nil {
			return c, nil
		}
		return nil, errors.Join(err, c.discard(j.fs))
	}
	c, err = create(j.fs, fileName(j.dir, serial), head)
	if err == nil {
		j.mu.Lock()
		j.size = min(2*j.size, j.grown)
		j.mu.Unlock()
	}
	return c, err
}

// spareLocked takes a spare file, nil where there is none. One that is too small for
// some rounds is removed: it was made with other options, or cut.
func (j *Journal) spareLocked() (*file, error) {
	for n := len(j.spares); n > 0; n-- {
		c := j.spares[n-1]
		j.spares = j.spares[:n-1]
		if c.head.size >= j.least {
			return c, nil
		}
		if err := c.discard(j.fs); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Round is the last round written, or read.
func (j *Journal) Round() uint64 { return j.round.Load() }

// Released is the round up to which the rounds are not needed.
func (j *Journal) Released() uint64 { return j.released.Load() }

// Noted is Released as the files have it, on stable storage: by the last round that was
// written, or by Retire.
func (j *Journal) Noted() uint64 { return j.noted.Load() }

// Bytes is the size of the files whose rounds may be needed.
func (j *Journal) Bytes() int64 { return j.needed.Load() }

// Written is how many bytes of rounds were written since Open.
func (j *Journal) Written() int64 { return j.written.Load() }

// countLocked brings needed up to date with live.
func (j *Journal) countLocked() {
	var n int64
	for _, f := range j.live {
		if !f.old {
			n += f.head.size
		}
	}
	j.needed.Store(n)
}

// Release says that everything in rounds up to and including round is safe
// elsewhere. Files that hold nothing else are used again, or removed.
func (j *Journal) Release(round uint64) error {
	j.raise(round)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.live = slices.DeleteFunc(j.live, func(f *file) bool {
		free := f != j.cur && f.last <= round && !f.old
		if free {
			j.spares = append(j.spares, f)
		}
		return free
	})
	j.countLocked()
	return j.thinLocked(spareFiles)
}

func (j *Journal) raise(round uint64) {
	for was := j.released.Load(); was < round && !j.released.CompareAndSwap(was, round); {
		was = j.released.Load()
	}
}

// thinLocked keeps the n largest spare files.
func (j *Journal) thinLocked(n int) error {
	slices.SortStableFunc(j.spares, func(a, b *file) int { return cmp.Compare(a.head.size, b.head.size) })
	var errs []error
	for len(j.spares) > n {
		errs = append(errs, j.spares[0].discard(j.fs))
		j.spares = j.spares[1:]
	}
	return errors.Join(errs...)
}

// Retire has nothing in files that end with a round up to and including round read
// again: it is safe elsewhere. That is durable when it returns. Nothing may be
// written meanwhile.
//
// Every spare file learns of it too: any of them may be the only one that is kept, and
// from it the next life has the number to go on behind. Were numbers given out again,
// a file of which the removal is not durable could come back and be taken for newer.
func (j *Journal) Retire(round uint64) error {
	j.raise(round)
	j.settle()
	j.mu.Lock()
	defer j.mu.Unlock()
	var kept []*file
	for _, c := range j.live {
		if c.last > round {
			kept = append(kept, c)
		} else if j.spares = append(j.spares, c); c == j.cur {
			j.cur = nil
		}
	}
	j.live = kept
	j.countLocked()
	for _, c := range j.spares {
		if !c.old && c.last == 0 && c.head.released >= round {
			continue // it was made ready since
		}
		err := c.open(j.fs)
		if err == nil {
			j.number++
			err = c.begin(fileHead{number: j.number, id: newID(), size: c.head.size, released: j.released.Load()})
		}
		if err != nil {
			return fmt.Errorf("journal %s: %w", j.fs.Path(c.name), err)
		}
	}
	j.noted.Store(j.released.Load())
	return j.thinLocked(spareFiles)
}

// Shrink removes all files that hold no round but the smallest: for an engine that
// stops.
func (j *Journal) Shrink() error {
	j.settle()
	j.mu.Lock()
	defer j.mu.Unlock()
	slices.SortStableFunc(j.spares, func(a, b *file) int { return cmp.Compare(a.head.size, b.head.size) })
	var errs []error
	for len(j.spares) > 1 {
		last := len(j.spares) - 1
		errs = append(errs, j.spares[last].discard(j.fs))
		j.spares = j.spares[:last]
	}
	return errors.Join(errs...)
}

// settle waits for a file that is being prepared.
func (j *Journal) settle() {
	j.done.Wait()
	select {
	case p := <-j.ready:
		j.mu.Lock()
		j.asked = false
		if p.file != nil {
			j.spares = append(j.spares, p.file)
		}
		j.mu.Unlock()
	default:
	}
}

// Close gives the files back. Nothing is written, and its error is nil.
func (j *Journal) Close() error {
	j.settle()
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, f := range slices.Concat(j.live, j.spares) {
		f.close()
	}
	return nil
}
