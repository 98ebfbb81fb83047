package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/varvelog/varve"

// source is one Go file of the tree, tests included.
type source struct {
	name string // slash-separated, from the root of the tree
	dir  string // its package, "." for the root
	test bool
	file *ast.File
}

// sources parses every Go file of the module once. Build constraints are
// ignored on purpose: what holds must hold on every platform.
var sources = sync.OnceValues(func() ([]source, error) {
	var all []source
	files := token.NewFileSet()
	err := walk(func(name string) error {
		if path.Ext(name) != ".go" || strings.HasPrefix(name, "tools/") {
			return nil
		}
		file, err := parser.ParseFile(files, filepath.Join(root, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, source{name, path.Dir(name), strings.HasSuffix(name, "_test.go"), file})
		return nil
	})
	return all, err
})

func allSources(t *testing.T) []source {
	t.Helper()
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// packages groups the files that are no tests by folder.
func packages(t *testing.T) map[string][]source {
	t.Helper()
	found := map[string][]source{}
	for _, s := range allSources(t) {
		if !s.test {
			found[s.dir] = append(found[s.dir], s)
		}
	}
	return found
}

// imports of a file: those of this module by folder, all others by path.
func (s source) imports() (own, foreign []string) {
	for _, spec := range s.file.Imports {
		name := strings.Trim(spec.Path.Value, `"`)
		switch {
		case name == module:
			own = append(own, ".")
		case strings.HasPrefix(name, module+"/"):
			own = append(own, strings.TrimPrefix(name, module+"/"))
		case strings.Contains(strings.Split(name, "/")[0], "."):
			foreign = append(foreign, name)
		}
	}
	return own, foreign
}

// A package says what it is in doc.go, or in its only file; a command in main.go.
func TestEveryPackageIntroducesItself(t *testing.T) {
	for dir, files := range packages(t) {
		var doc *ast.CommentGroup
		name := ""
		for _, s := range files {
			base := path.Base(s.name)
			if base == "doc.go" || len(files) == 1 || base == "main.go" && s.file.Doc != nil {
				doc, name = s.file.Doc, s.file.Name.Name
			}
		}
		want := "Package " + name + " "
		if name == "main" {
			want = "Command " + path.Base(dir) + " "
		}
		switch {
		case name == "":
			t.Errorf("%s has no doc.go", dir)
		case doc == nil || len(doc.Text()) < 80:
			t.Errorf("%s/doc.go says nothing of the package", dir)
		case !strings.HasPrefix(doc.Text(), want):
			t.Errorf("%s/doc.go begins %.30q, want %q", dir, doc.Text(), want)
		}
	}
}
