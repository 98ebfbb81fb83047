package vfs

// faultyFile is immutable.
type faultyFile struct {
	fs    *Faulty
	inner File
}

func (f *faultyFile) Name() string { return f.inner.Name() }

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	op := Op{Kind: OpRead, Name: f.Name(), Off: off, Len: len(p)}
	fault := f.fs.present(op)
	n, err := f.inner.ReadAt(p[:fault.reach(len(p))], off)
	for _, bit := range fault.Flip {
		if bit/8 < n {
			p[bit/8] ^= 1 << (bit % 8)
		}
	}
	if fault.Err != nil {
		err = f.fs.fail(op, fault.Err)
	}
	return n, err
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	op := Op{Kind: OpWrite, Name: f.Name(), Off: off, Len: len(p)}
	fault := f.fs.present(op)
	n, err := f.inner.WriteAt(p[:fault.reach(len(p))], off)
	if err == nil && fault.Err != nil {
		err = f.fs.fail(op, fault.Err)
	}
	return n, err
}

func (f *faultyFile) WriteVecAt(bufs [][]byte, off int64) (int, error) {
	total := 0
	for _, b := range bufs {
		total += len(b)
	}
	op := Op{Kind: OpWrite, Name: f.Name(), Off: off, Len: total}
	fault := f.fs.present(op)
	n, err := f.inner.WriteVecAt(firstBytes(bufs, fault.reach(total)), off)
	if err == nil && fault.Err != nil {
		err = f.fs.fail(op, fault.Err)
	}
	return n, err
}

// reach is how many of n bytes are handled.
func (f Fault) reach(n int) int {
	if f.Err == nil || f.Done {
		return n
	}
	return max(0, min(f.Short, n))
}

// firstBytes is bufs cut to n bytes, without changing the caller's slices.
func firstBytes(bufs [][]byte, n int) [][]byte {
	for i, b := range bufs {
		if n < len(b) {
			return append(bufs[:i:i], b[:n])
		}
		n -= len(b)
	}
	return bufs
}

func (f *faultyFile) Size() (size int64, err error) {
	err = f.fs.do(Op{Kind: OpStat, Name: f.Name()}, func() (err error) {
		size, err = f.inner.Size()
		return err
	})
	if err != nil {
		return 0, err
	}
	return size, nil
}

func (f *faultyFile) Truncate(size int64) error {
	op := Op{Kind: OpTruncate, Name: f.Name(), Off: size}
	return f.fs.do(op, func() error { return f.inner.Truncate(size) })
}

func (f *faultyFile) Allocate(size int64) error {
	op := Op{Kind: OpAllocate, Name: f.Name(), Off: size}
	return f.fs.do(op, func() error { return f.inner.Allocate(size) })
}

// Close closes also where it fails, as close(2) does.
func (f *faultyFile) Close() error {
	op := Op{Kind: OpClose, Name: f.Name()}
	fault := f.fs.present(op)
	if err := f.inner.Close(); err != nil || fault.Err == nil {
		return err
	}
	return f.fs.fail(op, fault.Err)
}

// syncLoser is a file that can lose what a failed sync should have written.
type syncLoser interface{ failSync() }

func (f *faultyFile) Sync() error {
	op := Op{Kind: OpSync, Name: f.Name()}
	fault := f.fs.present(op)
	if fault.Err == nil || fault.Done {
		if err := f.inner.Sync(); err != nil || fault.Err == nil {
			return err
		}
	} else if fault.DropOnSyncFail {
		f.failSync()
	}
	return f.fs.fail(op, fault.Err)
}

// failSync passes through, so that one Faulty may wrap another.
func (f *faultyFile) failSync() {
	if inner, ok := f.inner.(syncLoser); ok {
		inner.failSync()
	}
}

func (f *faultyFile) Map(size int64) (Mapping, error) {
	op := Op{Kind: OpMap, Name: f.Name(), Off: size}
	fault := f.fs.present(op)
	if fault.Err != nil {
		return nil, f.fs.fail(op, fault.Err)
	}
	m, err := f.inner.Map(size)
	if err != nil || !fault.Bad || size == 0 {
		return m, err
	}
	if err := m.Close(); err != nil {
		return nil, err
	}
	bad, err := newBadMapping(int(size))
	if err != nil {
		return nil, f.fs.fail(op, err)
	}
	return bad, nil
}
