package twin_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/varvelog/varve/internal/twin"
	"github.com/varvelog/varve/internal/vfs"
)

const body = `{"name":"orders","partitions":4}`

func saved(t *testing.T) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem()
	if err := twin.Save(m, "doc", 7, []byte(body)); err != nil {
		t.Fatal(err)
	}
	return m
}

func content(t *testing.T, m *vfs.Mem, name string) []byte {
	t.Helper()
	data, err := m.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func load(t *testing.T, m vfs.FS) twin.Doc {
	t.Helper()
	d, err := twin.Load(m, "doc")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSavedIsLoaded(t *testing.T) {
	d := load(t, saved(t))
	if d.Generation != 7 || string(d.Body) != body || d.Mended != "" {
		t.Fatalf("loaded %d %s (mended %q)", d.Generation, d.Body, d.Mended)
	}
	if _, err := twin.Load(vfs.NewMem(), "doc"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("nothing saved: %v", err)
	}
}

// Any bit of either file may flip: the document is still there, the damage is
// named, and the next load finds both files whole.
func TestEveryFlipIsNoticedAndMended(t *testing.T) {
	for _, file := range []string{"doc", "doc" + twin.CopySuffix} {
		size := len(content(t, saved(t), file))
		for bit := range int64(size) * 8 {
			m := saved(t)
			m.FlipBit(file, bit)
			if d := load(t, m); d.Generation != 7 || string(d.Body) != body || d.Mended == "" {
				t.Fatalf("%s bit %d: loaded %d %s (mended %q)", file, bit, d.Generation, d.Body, d.Mended)
			}
			if d := load(t, m); d.Mended != "" {
				t.Fatalf("%s bit %d: not mended: %s", file, bit, d.Mended)
			}
		}
	}
}

func TestOneFileMissingShortOrOld(t *testing.T) {
	for _, file := range []string{"doc", "doc" + twin.CopySuffix} {
		old := content(t, saved(t), file)
		spoil := map[string]func(m *vfs.Mem){
			"missing":   func(m *vfs.Mem) { m.Remove(file) },
			"empty":     func(m *vfs.Mem) { m.WriteFile(file, nil) },
			"cut":       func(m *vfs.Mem) { m.WriteFile(file, old[:len(old)-1]) },
			"long":      func(m *vfs.Mem) { m.WriteFile(file, append(old[:len(old):len(old)], 0)) },
			"old copy":  func(m *vfs.Mem) { m.WriteFile(file, old) },
			"all zeros": func(m *vfs.Mem) { m.WriteFile(file, make([]byte, len(old))) },
		}
		for name, f := range spoil {
			m := saved(t)
			if err := twin.Save(m, "doc", 8, []byte(`{"name":"orders","partitions":8}`)); err != nil {
				t.Fatal(err)
			}
			f(m)
			if d := load(t, m); d.Generation != 8 || d.Mended == "" {
				t.Fatalf("%s %s: loaded generation %d (mended %q)", file, name, d.Generation, d.Mended)
			}
			if d := load(t, m); d.Mended != "" {
				t.Fatalf("%s %s: not mended: %s", file, name, d.Mended)
			}
		}
	}
}

func TestBothDamagedIsLoud(t *testing.T) {
	m := saved(t)
	m.FlipBit("doc", 100)
	m.FlipBit("doc"+twin.CopySuffix, 100)
	if _, err := twin.Load(m, "doc"); !errors.Is(err, twin.ErrDamaged) {
		t.Fatalf("both damaged: %v", err)
	}
}

// A save that is cut at any write leaves the old document or the new one.
func TestCutSaveLeavesOldOrNew(t *testing.T) {
	for n := int64(1); ; n++ {
		m := saved(t)
		m.SyncDir(".")
		calls := int64(0)
		faulty := vfs.NewFaulty(m, func(op vfs.Op) vfs.Fault {
			if op.Kind == vfs.OpWrite || op.Kind == vfs.OpSync || op.Kind == vfs.OpTruncate {
				if calls++; calls == n {
					return vfs.Fault{Err: errors.New("cut"), Short: 100}
				}
			}
			return vfs.Fault{}
		})
		err := twin.Save(faulty, "doc", 8, []byte(`{"name":"orders","partitions":8}`))
		if err == nil && calls < n {
			return // every call has been cut once
		}
		for seed := range uint64(8) {
			d, err := twin.Load(m.Crash(vfs.CrashOptions{Seed: seed, Unsynced: vfs.UnsyncedPages}), "doc")
			if err != nil || (d.Generation != 7 && d.Generation != 8) {
				t.Fatalf("cut at call %d, seed %d: generation %d, %v", n, seed, d.Generation, err)
			}
		}
	}
}
