package docs

import (
	"strings"
	"testing"

	"github.com/varvelog/varve/internal/twin"
	"github.com/varvelog/varve/internal/vfs"
)

// Every document the page shows, padded as the page says, is one.
func TestDocumentsPageLoads(t *testing.T) {
	found := 0
	for _, b := range pageNamed(t, "docs/format/documents.md").blocks {
		if b.lang != "json" {
			continue
		}
		found++
		fs := vfs.NewMem()
		file := []byte(b.text + strings.Repeat(" ", 511-len(b.text)%512) + "\n")
		fs.WriteFile("doc", file)
		fs.WriteFile("doc"+twin.CopySuffix, file)
		doc, err := twin.Load(fs, "doc", twin.Identity{})
		if err != nil {
			t.Errorf("docs/format/documents.md:%d: %v", b.line, err)
		} else if doc.Mended != "" || doc.Generation == 0 {
			t.Errorf("docs/format/documents.md:%d: generation %d, mended %q", b.line, doc.Generation, doc.Mended)
		}
	}
	if found == 0 {
		t.Error("docs/format/documents.md shows no document")
	}
}
