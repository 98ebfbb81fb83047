package twin_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
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
	d, err := twin.Load(m, "doc", twin.Identity{})
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
	if _, err := twin.Load(vfs.NewMem(), "doc", twin.Identity{}); !errors.Is(err, fs.ErrNotExist) {
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

// Two documents of one generation that differ, as a save that failed and was tried
// again may leave them: one of them counts, at every load, and both files say so.
func TestSameGenerationThatDiffersIsMended(t *testing.T) {
	for _, spoilt := range []string{"doc", "doc" + twin.CopySuffix} {
		m, other := saved(t), vfs.NewMem()
		if err := twin.Save(other, "doc", 7, []byte(`{"name":"orders","partitions":5}`)); err != nil {
			t.Fatal(err)
		}
		m.WriteFile(spoilt, content(t, other, "doc"))
		first := content(t, m, "doc")
		d, stale, err := twin.Read(m, "doc", twin.Identity{})
		if err != nil || stale != "doc"+twin.CopySuffix || d.Mended == "" {
			t.Fatalf("%s: %q is to be mended (%q), %v", spoilt, stale, d.Mended, err)
		}
		if d = load(t, m); d.Generation != 7 || d.Mended == "" {
			t.Fatalf("%s: loaded generation %d (mended %q)", spoilt, d.Generation, d.Mended)
		}
		if again := load(t, m); string(again.Body) != string(d.Body) || again.Mended != "" {
			t.Fatalf("%s: loaded %s, then %s (mended %q)", spoilt, d.Body, again.Body, again.Mended)
		}
		for _, file := range []string{"doc", "doc" + twin.CopySuffix} {
			if !bytes.Equal(content(t, m, file), first) {
				t.Fatalf("%s: %s is not the document that was loaded", spoilt, file)
			}
		}
	}
}

// Two files that speak of different things are told from an older and a newer one of
// the same. Which of them belongs here is guessed by no generation: something else has
// to say it, of one of them.
func TestFilesOfDifferentThingsAreToldApart(t *testing.T) {
	whole := func(body json.RawMessage) string { return string(body) }
	for file, other := range map[string]string{"doc": "doc" + twin.CopySuffix, "doc" + twin.CopySuffix: "doc"} {
		for _, generation := range []uint64{6, 7, 8} {
			m, foreign := saved(t), vfs.NewMem()
			if err := twin.Save(foreign, "doc", generation, []byte(`{"name":"bills"}`)); err != nil {
				t.Fatal(err)
			}
			m.WriteFile(file, content(t, foreign, "doc"))
			for name, own := range map[string]func(json.RawMessage) bool{
				"nobody knows":   nil,
				"both belong":    func(json.RawMessage) bool { return true },
				"neither belong": func(json.RawMessage) bool { return false },
			} {
				_, err := twin.Load(m, "doc", twin.Identity{ID: whole, Own: own})
				if !errors.Is(err, twin.ErrForeign) || !strings.Contains(err.Error(), "bills") || !strings.Contains(err.Error(), "orders") {
					t.Errorf("generation %d in %s, %s: %v", generation, file, name, err)
				}
				if string(content(t, m, file)) != string(content(t, foreign, "doc")) || string(content(t, m, other)) != string(content(t, saved(t), other)) {
					t.Errorf("generation %d in %s, %s: a file was changed", generation, file, name)
				}
			}
			// One that does not say whose it is, as those of version 1, is of any.
			none := twin.Identity{ID: func(b json.RawMessage) string { return strings.TrimPrefix(string(b), body) }}
			if _, err := twin.Load(m.Clone(), "doc", none); err != nil {
				t.Errorf("generation %d in %s: %v", generation, file, err)
			}
			of := twin.Identity{ID: whole, Own: func(b json.RawMessage) bool { return string(b) == body }}
			d, err := twin.Load(m, "doc", of)
			if err != nil || d.Generation != 7 || string(d.Body) != body || !strings.Contains(d.Mended, "bills") {
				t.Errorf("generation %d in %s: loaded generation %d %s (mended %q), %v", generation, file, d.Generation, d.Body, d.Mended, err)
			}
			if d, err := twin.Load(m, "doc", of); err != nil || d.Mended != "" {
				t.Errorf("generation %d in %s: not mended: %s, %v", generation, file, d.Mended, err)
			}
		}
	}
}

// The generation decides which document counts, so it is checked as the rest is:
// an older document does not win by one byte of damage.
func TestGenerationIsChecked(t *testing.T) {
	m := saved(t)
	if err := twin.Save(m, "doc", 8, []byte(`{"name":"orders","partitions":8}`)); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"doc", "doc" + twin.CopySuffix} {
		for _, generation := range []string{"7", "9"} {
			m := m.Clone()
			old := content(t, saved(t), "doc")
			m.WriteFile(file, bytes.Replace(old, []byte(`"generation":7`), []byte(`"generation":`+generation), 1))
			if d := load(t, m); d.Generation != 8 || d.Mended == "" {
				t.Fatalf("%s as generation %s: loaded %d %s (mended %q)", file, generation, d.Generation, d.Body, d.Mended)
			}
		}
	}
}

// A file that cannot be read may be whole. Unless the other one is good it is told
// as what it is: neither as missing, which would have a document made anew over it,
// nor as damaged.
func TestUnreadableIsNeitherMissingNorDamaged(t *testing.T) {
	for _, file := range []string{"doc", "doc" + twin.CopySuffix} {
		other := "doc" + twin.CopySuffix
		if file == other {
			other = "doc"
		}
		for _, kind := range []vfs.OpKind{vfs.OpOpen, vfs.OpRead} {
			for name, spoil := range map[string]func(m *vfs.Mem){
				"missing": func(m *vfs.Mem) { m.Remove(other) },
				"damaged": func(m *vfs.Mem) { m.FlipBit(other, 100) },
				"empty":   func(m *vfs.Mem) { m.WriteFile(other, nil) },
			} {
				m := saved(t)
				spoil(m)
				_, err := twin.Load(vfs.NewFaulty(m, vfs.FailFrom(kind, file, 1, syscall.EACCES)), "doc", twin.Identity{})
				if !errors.Is(err, syscall.EACCES) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, twin.ErrDamaged) {
					t.Errorf("%s of %s fails, the other is %s: %v", kind, file, name, err)
				}
			}
			m := saved(t)
			d, err := twin.Load(vfs.NewFaulty(m, vfs.FailFrom(kind, file, 1, syscall.EACCES)), "doc", twin.Identity{})
			if err != nil || d.Generation != 7 || d.Mended == "" {
				t.Errorf("%s of %s fails, the other is good: generation %d (mended %q), %v", kind, file, d.Generation, d.Mended, err)
			}
		}
	}
}

// A document is durable when Save returns, the first one with its names, whatever
// a power cut does to names that were not synced.
func TestSavedSurvivesAPowerCut(t *testing.T) {
	for _, dir := range []string{"", "d/"} {
		m := vfs.NewMem()
		if err := errors.Join(m.Mkdir("d"), m.SyncDir(".")); err != nil {
			t.Fatal(err)
		}
		for generation := uint64(1); generation <= 2; generation++ {
			if err := twin.Save(m, dir+"doc", generation, []byte(body)); err != nil {
				t.Fatal(err)
			}
			for _, names := range []vfs.Names{vfs.NamesLost, vfs.NamesJournaled, vfs.NamesRandom} {
				for seed := range uint64(8) {
					left := m.Crash(vfs.CrashOptions{Seed: seed, Names: names, Unsynced: vfs.UnsyncedLost})
					d, err := twin.Load(left, dir+"doc", twin.Identity{})
					if err != nil || d.Generation != generation || d.Mended != "" {
						t.Fatalf("%sdoc, names %v, seed %d: generation %d (mended %q), %v", dir, names, seed, d.Generation, d.Mended, err)
					}
				}
			}
		}
	}
}

// A file that holds far more than a document is damage, and is not read.
func TestHugeFileIsDamage(t *testing.T) {
	m := saved(t)
	m.WriteFile("doc", bytes.Repeat([]byte{' '}, 17<<20))
	if d := load(t, m); d.Generation != 7 || !strings.Contains(d.Mended, "more than") {
		t.Fatalf("loaded generation %d (mended %q)", d.Generation, d.Mended)
	}
	m.WriteFile("doc", bytes.Repeat([]byte{' '}, 17<<20))
	m.Remove("doc" + twin.CopySuffix)
	if _, err := twin.Load(m, "doc", twin.Identity{}); !errors.Is(err, twin.ErrDamaged) {
		t.Fatalf("the only one: %v", err)
	}
}

func TestBothDamagedIsLoud(t *testing.T) {
	m := saved(t)
	m.FlipBit("doc", 100)
	m.FlipBit("doc"+twin.CopySuffix, 100)
	if _, err := twin.Load(m, "doc", twin.Identity{}); !errors.Is(err, twin.ErrDamaged) {
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
			d, err := twin.Load(m.Crash(vfs.CrashOptions{Seed: seed, Unsynced: vfs.UnsyncedPages}), "doc", twin.Identity{})
			if err != nil || (d.Generation != 7 && d.Generation != 8) {
				t.Fatalf("cut at call %d, seed %d: generation %d, %v", n, seed, d.Generation, err)
			}
		}
	}
}

// What a killed process has left need not be on the disk, whichever of the two files it
// is: a save, or the mending of one file, that the power cuts leaves a document.
func TestSaveAfterAKillLeavesADocument(t *testing.T) {
	const name = "doc"
	state := func(n int) json.RawMessage {
		return fmt.Appendf(nil, `{"n":%d,"pad":"%s"}`, n, strings.Repeat(string(rune('a'+n)), 700))
	}
	cut := errors.New("cut")
	for kill := int64(1); kill < 20; kill++ {
		for power := int64(1); power < 20; power++ {
			for seed := range uint64(12) {
				disk := vfs.NewMem()
				if err := twin.Save(disk, name, 1, state(1)); err != nil {
					t.Fatal(err)
				}
				calls := int64(0)
				stop := func(at int64) vfs.FS {
					calls = 0
					return vfs.NewFaulty(disk, func(op vfs.Op) vfs.Fault {
						if op.Kind == vfs.OpWrite || op.Kind == vfs.OpTruncate || op.Kind == vfs.OpSync {
							calls++
						}
						if calls >= at {
							return vfs.Fault{Err: cut, Short: 300}
						}
						return vfs.Fault{}
					})
				}
				twin.Save(stop(kill), name, 2, state(2))
				disk = disk.Clone() // what the killed process had not synced is still in memory only
				dying := stop(power)
				if doc, err := twin.Load(dying, name, twin.Identity{}); err == nil {
					twin.Save(dying, name, doc.Generation+1, state(3))
				}
				left := disk.Crash(vfs.CrashOptions{Seed: seed, Unsynced: vfs.UnsyncedSectors, Names: vfs.NamesKept})
				if _, err := twin.Load(left, name, twin.Identity{}); err != nil {
					t.Fatalf("killed at call %d, cut at %d, seed %d: %v", kill, power, seed, err)
				}
			}
		}
	}
}

// A process that is killed while it mends may leave the name of the second file in memory
// only: a save of the next one, cut short, leaves a document also when that name is lost.
func TestSaveCountsOnNoNameThatMayGo(t *testing.T) {
	const name = "doc"
	state := func(n int) json.RawMessage {
		return fmt.Appendf(nil, `{"pad":"%s","n":%d}`, strings.Repeat("x", 700), n)
	}
	cut := errors.New("cut")
	for _, gone := range []string{name, name + twin.CopySuffix} {
		killed := vfs.NewMem()
		if err := errors.Join(twin.Save(killed, name, 1, state(1)), killed.Remove(gone), killed.SyncDir(".")); err != nil {
			t.Fatal(err)
		}
		twin.Load(vfs.NewFaulty(killed, func(op vfs.Op) vfs.Fault {
			if _, err := killed.Stat(gone); err == nil {
				return vfs.Fault{Err: cut}
			}
			return vfs.Fault{}
		}), name, twin.Identity{})
		if _, err := killed.Stat(gone); err != nil {
			t.Fatalf("%s was not mended: %v", gone, err)
		}
		for power := int64(1); power < 20; power++ {
			for seed := range uint64(12) {
				disk := killed.Clone()
				twin.Save(vfs.NewFaulty(disk, func(op vfs.Op) vfs.Fault {
					if op.Seq >= power {
						return vfs.Fault{Err: cut, Short: 600}
					}
					return vfs.Fault{}
				}), name, 2, state(2))
				left := disk.Crash(vfs.CrashOptions{Seed: seed, Unsynced: vfs.UnsyncedSectors})
				if _, err := twin.Load(left, name, twin.Identity{}); err != nil {
					t.Fatalf("%s was mended, cut at call %d, seed %d: %v", gone, power, seed, err)
				}
			}
		}
	}
}

// Of two files of which one is damaged, or of an earlier generation, a save writes over
// that one first, wherever it is cut: the other may be all there is.
func TestSaveSparesTheBetterOfTheTwo(t *testing.T) {
	spoil := map[string]func(data []byte) []byte{
		"damaged": func(data []byte) []byte { data[20] ^= 4; return data },
		"older": func([]byte) []byte {
			m := vfs.NewMem()
			if err := twin.Save(m, "doc", 6, []byte(`{"name":"old"}`)); err != nil {
				t.Fatal(err)
			}
			return content(t, m, "doc")
		},
	}
	for how, spoil := range spoil {
		for _, which := range []string{"doc", "doc" + twin.CopySuffix} {
			m := saved(t)
			if err := errors.Join(m.WriteFile(which, spoil(content(t, m, which))), m.SyncDir(".")); err != nil {
				t.Fatal(err)
			}
			var left []*vfs.Mem
			f := vfs.NewFaulty(m, func(op vfs.Op) vfs.Fault {
				for seed := range uint64(8) {
					left = append(left, m.Crash(vfs.CrashOptions{Seed: seed, Unsynced: vfs.UnsyncedSectors}))
				}
				if op.Kind == vfs.OpWrite { // half of it
					half := m.Clone()
					if err := half.WriteFile(op.Name, []byte(`{"generation":8,"crc32c":"`)); err != nil {
						t.Error(err)
					}
					left = append(left, half)
				}
				return vfs.Fault{}
			})
			if err := twin.Save(f, "doc", 8, []byte(`{"name":"new"}`)); err != nil {
				t.Fatal(err)
			}
			for i, l := range left {
				if d, err := twin.Load(l, "doc", twin.Identity{}); err != nil || d.Generation < 7 {
					t.Fatalf("%s is %s, cut %d: generation %d, %v", which, how, i, d.Generation, err)
				}
			}
		}
	}
}
