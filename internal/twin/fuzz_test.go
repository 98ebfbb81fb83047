package twin_test

import (
	"testing"

	"github.com/varvelog/varve/internal/twin"
	"github.com/varvelog/varve/internal/vfs"
)

// Any bytes as the two files: an error, or a document that loads again, mended.
func FuzzLoad(f *testing.F) {
	m := vfs.NewMem()
	if err := twin.Save(m, "doc", 7, []byte(body)); err != nil {
		f.Fatal(err)
	}
	whole, err := m.ReadFile("doc")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, whole)
	f.Add(whole, []byte{})
	f.Add([]byte(`{"generation":1,"crc32c":"00000000","body":{}}`), whole)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		m := vfs.NewMem()
		m.WriteFile("doc", a)
		m.WriteFile("doc"+twin.CopySuffix, b)
		d, err := twin.Load(m, "doc", twin.Identity{})
		if err != nil {
			return
		}
		again, err := twin.Load(m, "doc", twin.Identity{})
		if err != nil || again.Generation != d.Generation || string(again.Body) != string(d.Body) || again.Mended != "" {
			t.Fatalf("loaded generation %d, then %d (mended %q): %v", d.Generation, again.Generation, again.Mended, err)
		}
	})
}
