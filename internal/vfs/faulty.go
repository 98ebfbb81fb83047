package vfs

import (
	"io"
	"io/fs"
	"os"
	"sync"
)

// OpKind names one operation of FS or File.
type OpKind int

const (
	OpAny      OpKind = iota // in rules and Count: every kind
	OpOpen                   // OpenFile without os.O_CREATE
	OpCreate                 // OpenFile with os.O_CREATE, whether or not the file is there
	OpRead                   // ReadAt
	OpWrite                  // WriteAt, WriteVecAt
	OpSync                   // Sync
	OpSyncDir                // SyncDir
	OpRename                 // Rename
	OpRemove                 // Remove, RemoveAll
	OpMkdir                  // Mkdir
	OpTruncate               // Truncate
	OpAllocate               // Allocate
	OpMap                    // Map
	OpLink                   // Link
	OpReadDir                // ReadDir
	OpLock                   // Lock
	OpClose                  // Close of a file
	OpStat                   // Stat, Size
	opKinds
)

var opNames = [opKinds]string{
	"any", "open", "create", "read", "write", "sync", "syncdir", "rename", "remove", "mkdir",
	"truncate", "allocate", "map", "link", "readdir", "lock", "close", "stat",
}

func (k OpKind) String() string { return opNames[k] }

// Op is one call, as it is shown to a rule before it is carried out.
type Op struct {
	Seq  int64 // 1, 2, … over all calls
	Kind OpKind
	Name string // of a file, the one it was opened by
	To   string // of OpRename and OpLink
	Off  int64  // position; of OpTruncate, OpAllocate and OpMap the size
	Len  int    // bytes to read or write
}

// Fault is what is to happen to a call. The zero value lets it through.
type Fault struct {
	// Block is waited for first, with no lock held.
	Block <-chan struct{}
	// Err is returned, inside a *fs.PathError or *os.LinkError, and nothing is
	// done, but for what the next fields say.
	Err error
	// Short is how many bytes a read or write still handles before Err.
	Short int
	// Done: the call is carried out whole, and Err returned nevertheless.
	Done bool
	// DropOnSyncFail: together with Err of an OpSync on a Mem, the unsynced
	// writes are lost for good though later syncs succeed (Mem.FailSync).
	DropOnSyncFail bool
	// Flip lists bits to flip in what a read returned, bit 0 being the lowest
	// of its first byte. The file itself stays as it is.
	Flip []int
	// Bad: an OpMap returns a mapping whose every access faults, which is what
	// a disk error looks like from there. Where it cannot be had, on other than
	// unix systems, the call fails with errors.ErrUnsupported.
	Bad bool
}

// Faulty is a file system that asks a rule about each call before it hands it to
// another one. A Lock or Mapping it returns is that of the inner file system.
//
//	field       guarded by                  written by
//	inner       (immutable)                 NewFaulty
//	rule        (immutable), called in mu   NewFaulty
//	seq, count  mu                          ask
type Faulty struct {
	inner FS
	mu    sync.Mutex
	rule  func(Op) Fault
	seq   int64
	count [opKinds]int64
}

// NewFaulty wraps inner. The rule is called by one goroutine at a time, in the
// order of Op.Seq, and must not use the Faulty itself; nil means no faults.
func NewFaulty(inner FS, rule func(Op) Fault) *Faulty {
	if rule == nil {
		rule = func(Op) Fault { return Fault{} }
	}
	return &Faulty{inner: inner, rule: rule}
}

// Count says how many calls of a kind there were, failed ones included.
func (f *Faulty) Count(kind OpKind) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count[kind]
}

func (f *Faulty) present(op Op) Fault {
	fault := f.ask(op)
	if fault.Block != nil {
		<-fault.Block
	}
	return fault
}

func (f *Faulty) ask(op Op) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	f.count[OpAny]++
	f.count[op.Kind]++
	op.Seq = f.seq
	return f.rule(op)
}

// fail words err as the real call would.
func (f *Faulty) fail(op Op, err error) error {
	if op.To != "" {
		return &os.LinkError{Op: op.Kind.String(), Old: f.Path(op.Name), New: f.Path(op.To), Err: err}
	}
	return &fs.PathError{Op: op.Kind.String(), Path: f.Path(op.Name), Err: err}
}

// do is a call without bytes.
func (f *Faulty) do(op Op, call func() error) error {
	fault := f.present(op)
	if fault.Err == nil || fault.Done {
		if err := call(); err != nil || fault.Err == nil {
			return err
		}
	}
	return f.fail(op, fault.Err)
}

func (f *Faulty) Path(name string) string { return f.inner.Path(name) }

func (f *Faulty) OpenFile(name string, flag int) (file File, err error) {
	kind := OpOpen
	if flag&os.O_CREATE != 0 {
		kind = OpCreate
	}
	err = f.do(Op{Kind: kind, Name: name}, func() (err error) {
		file, err = f.inner.OpenFile(name, flag)
		return err
	})
	if err != nil {
		if file != nil {
			file.Close() // opened, and reported as failed
		}
		return nil, err
	}
	return &faultyFile{fs: f, inner: file}, nil
}

func (f *Faulty) Mkdir(name string) error {
	return f.do(Op{Kind: OpMkdir, Name: name}, func() error { return f.inner.Mkdir(name) })
}

func (f *Faulty) ReadDir(name string) (entries []fs.DirEntry, err error) {
	err = f.do(Op{Kind: OpReadDir, Name: name}, func() (err error) {
		entries, err = f.inner.ReadDir(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

func (f *Faulty) Stat(name string) (info fs.FileInfo, err error) {
	err = f.do(Op{Kind: OpStat, Name: name}, func() (err error) {
		info, err = f.inner.Stat(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return info, nil
}

func (f *Faulty) Rename(from, to string) error {
	return f.do(Op{Kind: OpRename, Name: from, To: to}, func() error { return f.inner.Rename(from, to) })
}

func (f *Faulty) Link(from, to string) error {
	return f.do(Op{Kind: OpLink, Name: from, To: to}, func() error { return f.inner.Link(from, to) })
}

func (f *Faulty) Remove(name string) error {
	return f.do(Op{Kind: OpRemove, Name: name}, func() error { return f.inner.Remove(name) })
}

func (f *Faulty) RemoveAll(name string) error {
	return f.do(Op{Kind: OpRemove, Name: name}, func() error { return f.inner.RemoveAll(name) })
}

func (f *Faulty) SyncDir(name string) error {
	return f.do(Op{Kind: OpSyncDir, Name: name}, func() error { return f.inner.SyncDir(name) })
}

// Space is that of the inner file system, and no operation that a rule is asked for.
func (f *Faulty) Space() (free, total int64, err error) { return f.inner.Space() }

func (f *Faulty) Lock(name, holder string) (lock io.Closer, err error) {
	err = f.do(Op{Kind: OpLock, Name: name}, func() (err error) {
		lock, err = f.inner.Lock(name, holder)
		return err
	})
	if err != nil {
		if lock != nil {
			lock.Close() // taken, and reported as failed
		}
		return nil, err
	}
	return lock, nil
}
