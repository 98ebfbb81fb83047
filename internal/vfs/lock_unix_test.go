//go:build unix

package vfs

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// lateLock takes a lock of which a rival, who does not say who it is, holds the
// file, and has the file replaced so many times while it waits, by one that the
// rival holds too but for the last time.
func lateLock(t *testing.T, d *dir, replaced int) (lock io.Closer, rounds int, err error) {
	t.Helper()
	hold := func() *dirFile {
		f := must(d.open("LOCK", os.O_RDWR|os.O_CREATE))
		check(t, f.flock())
		return f
	}
	rival := hold()
	done := make(chan struct{})
	go func() {
		defer close(done)
		lock, err = d.Lock("LOCK", "late")
	}()
	for ; rounds < replaced; rounds++ {
		synctest.Wait() // it has found the file held, and pauses; or it is done
		select {
		case <-done:
			check(t, rival.Close())
			return lock, rounds, err
		default:
		}
		check(t, d.Rename("LOCK", "old"))
		next := hold()
		check(t, rival.Close())
		rival = next
		time.Sleep(holderPause)
	}
	synctest.Wait()
	check(t, rival.Close())
	<-done
	return lock, rounds, err
}

// TestLockOfAFileReplacedMeanwhile: what is locked in the end is the file that has
// the name then, so that the next one who comes is kept out.
func TestLockOfAFileReplacedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := Dir(t.TempDir()).(*dir)
		lock, _, err := lateLock(t, d, 1)
		check(t, err)
		if _, err := d.Lock("LOCK", "later"); !heldBy(err, d.Path("LOCK"), "late") {
			t.Errorf("with the lock taken, another was given: %v", err)
		}
		check(t, lock.Close())
	})
}

// TestLockGivesUp: a file that is another one each time is an error in the end, not
// a loop.
func TestLockGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := Dir(t.TempDir()).(*dir)
		lock, rounds, err := lateLock(t, d, 10*lockTries)
		if lock != nil || !errors.Is(err, errReplaced) || rounds != lockTries {
			t.Fatalf("after %d rounds: %v", rounds, err)
		}
		for _, name := range []string{"LOCK", "old"} { // nothing is held any more
			check(t, must(d.Lock(name, "next")).Close())
		}
	})
}

// TestLockNeverTakesALink: it is refused when it is opened, at once.
func TestLockNeverTakesALink(t *testing.T) {
	root := t.TempDir()
	d := Dir(root).(*dir)
	check(t, os.WriteFile(filepath.Join(root, "real"), nil, 0o600))
	check(t, os.Symlink("real", filepath.Join(root, "LOCK")))
	if _, err := d.Lock("LOCK", "me"); err == nil || errors.Is(err, errReplaced) {
		t.Errorf("lock of a link: %v, want it refused when it is opened", err)
	}
	check(t, must(d.Lock("real", "next")).Close())
}
