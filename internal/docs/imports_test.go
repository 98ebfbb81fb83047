package docs

import (
	"slices"
	"strings"
	"testing"
)

// layering reads the import table of docs/architecture.md: for each package
// what it may import of this module and of others.
func layering(t *testing.T) map[string]map[string]bool {
	t.Helper()
	may := map[string]map[string]bool{}
	for _, row := range pageNamed(t, "docs/architecture.md").tableOf(t, "package", "may import", "libraries").rows {
		allowed := map[string]bool{}
		for _, cell := range row[1:3] {
			for _, m := range codeForm.FindAllStringSubmatch(cell, -1) {
				allowed[rowName(m[1])] = true
			}
		}
		may[rowName(uncode(row[0]))] = allowed
	}
	return may
}

// rowName maps the table's word for the root package to its folder.
func rowName(name string) string {
	if name == "varve" {
		return "."
	}
	return name
}

func TestImportsFollowTheTable(t *testing.T) {
	may := layering(t)
	real := packages(t)
	for dir, files := range real {
		allowed, listed := may[dir]
		if !listed {
			t.Errorf("docs/architecture.md: the import table lacks %s", dir)
			continue
		}
		for _, s := range files {
			own, foreign := s.imports()
			for _, name := range own {
				if !allowed[name] {
					t.Errorf("%s imports %s, which the table does not allow", s.name, name)
				}
			}
			for _, name := range foreign {
				if !allowsModule(allowed, name) {
					t.Errorf("%s imports %s, which the table does not allow", s.name, name)
				}
			}
		}
	}
	for dir := range may {
		if real[dir] == nil {
			t.Errorf("docs/architecture.md: the import table lists %s, which is not in the tree", dir)
		}
	}
}

// allowsModule says whether the table names the module a package belongs to:
// its path without the host, or the beginning of that path.
func allowsModule(allowed map[string]bool, name string) bool {
	_, short, _ := strings.Cut(name, "/")
	for module := range allowed {
		if short == module || strings.HasPrefix(short, module+"/") {
			return true
		}
	}
	return false
}

// The table must be a layering: an order in which each package imports only
// what stands before it.
func TestImportTableHasNoCycle(t *testing.T) {
	may := layering(t)
	placed := map[string]bool{}
	for len(placed) < len(may) {
		before := len(placed)
		for dir, allowed := range may {
			ready := true
			for name := range allowed {
				if may[name] != nil && !placed[name] {
					ready = false
				}
			}
			if ready {
				placed[dir] = true
			}
		}
		if len(placed) == before {
			t.Fatalf("the import table has a cycle: only %d of %d packages can be ordered", before, len(may))
		}
	}
}

// A program that embeds the engine must link neither the command line nor what watches it.
func TestEmbeddingLinksNoCommandLine(t *testing.T) {
	real := packages(t)
	seen := map[string]bool{}
	queue := []string{"."}
	for len(queue) > 0 {
		dir := queue[0]
		queue = queue[1:]
		if seen[dir] {
			continue
		}
		seen[dir] = true
		for _, s := range real[dir] {
			own, foreign := s.imports()
			queue = append(queue, own...)
			for _, name := range foreign {
				if slices.ContainsFunc(notEmbedded, func(lib string) bool { return strings.HasPrefix(name, lib) }) {
					t.Errorf("%s, which every embedding program links, imports %s", s.name, name)
				}
			}
		}
	}
	for _, dir := range []string{"internal/cli", "metrics"} {
		if seen[dir] {
			t.Errorf("the root package links %s", dir)
		}
	}
}

var notEmbedded = []string{
	"github.com/dustin/", "github.com/schollz/", "github.com/spf13/", "golang.org/x/term",
	"github.com/prometheus/",
}
