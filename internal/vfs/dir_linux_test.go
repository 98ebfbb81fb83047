package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWriteVecUsesFewCalls reads the kernel's count of this process's writes.
func TestWriteVecUsesFewCalls(t *testing.T) {
	writes := func() (n int) {
		b, err := os.ReadFile("/proc/self/io")
		if err != nil {
			t.Skip("needs the kernel's count of system calls:", err)
		}
		i := bytes.Index(b, []byte("syscw:"))
		must(fmt.Sscanf(string(b[i:]), "syscw: %d", &n))
		return n
	}
	f := must(Dir(t.TempDir()).OpenFile("f", os.O_RDWR|os.O_CREATE))
	defer f.Close()
	bufs := make([][]byte, 5000)
	for i := range bufs {
		bufs[i] = []byte{byte(i)}
	}
	before := writes()
	must(f.WriteVecAt(bufs, 0))
	// Others in this process, such as the test's own log, may write as well.
	if n := writes() - before; n < 5 || n > 50 {
		t.Errorf("%d system calls for 5,000 buffers", n)
	}
}

func init() {
	children["writer with a file size limit"] = func(args []string) error {
		signal.Ignore(syscall.SIGXFSZ)
		limit := unix.Rlimit{Cur: 10000, Max: 10000}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
			return err
		}
		f, err := Dir(args[0]).OpenFile("f", os.O_RDWR|os.O_CREATE)
		if err != nil {
			return err
		}
		part := bytes.Repeat([]byte{5}, 4000)
		n, err := f.WriteVecAt([][]byte{part, part, part}, 0)
		if n != 10000 || !errors.Is(err, syscall.EFBIG) {
			return fmt.Errorf("vector: wrote %d, %v", n, err)
		}
		n, err = f.WriteAt(part, 8000)
		if n > 2000 || !errors.Is(err, syscall.EFBIG) {
			return fmt.Errorf("plain: wrote %d, %v", n, err)
		}
		return f.Close()
	}
}

// TestShortWritesOfTheKernel: a write over the limit is cut short first and
// fails when it is repeated, which is how a full disk behaves too.
func TestShortWritesOfTheKernel(t *testing.T) {
	root := t.TempDir()
	check(t, child(t, "writer with a file size limit", root).Run())
	got := must(os.ReadFile(filepath.Join(root, "f")))
	if !bytes.Equal(got, bytes.Repeat([]byte{5}, 10000)) {
		t.Errorf("%d bytes are there", len(got))
	}
}

func TestAllocateKeepsTheLength(t *testing.T) {
	root := t.TempDir()
	f := must(Dir(root).OpenFile("f", os.O_RDWR|os.O_CREATE))
	defer f.Close()
	must(f.WriteAt([]byte("abc"), 0))
	check(t, f.Allocate(1<<20))
	if n := must(f.Size()); n != 3 {
		t.Errorf("length is %d", n)
	}
	var st unix.Stat_t
	check(t, unix.Stat(filepath.Join(root, "f"), &st))
	if st.Blocks*512 < 1<<20 {
		t.Skipf("the file system of %s reserved %d bytes only: it has no fallocate", root, st.Blocks*512)
	}
	check(t, f.Truncate(3))
	check(t, unix.Stat(filepath.Join(root, "f"), &st))
	if st.Blocks*512 >= 1<<20 {
		t.Errorf("truncate kept %d reserved bytes", st.Blocks*512)
	}
}
