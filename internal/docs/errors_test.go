package docs

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// Whatever error a caller of the root package can tell apart, docs/operations.md
// explains: symptom, cause, what to do.
func TestEveryErrorIsExplained(t *testing.T) {
	explained := map[string]bool{}
	for _, s := range pageNamed(t, "docs/operations.md").code() {
		explained[strings.TrimPrefix(strings.TrimPrefix(s.text, "*"), "varve.")] = true
	}
	found := 0
	for _, s := range packages(t)["."] {
		for _, name := range errorNames(s.file) {
			found++
			if !explained[name] {
				t.Errorf("docs/operations.md does not explain %s (%s)", name, s.name)
			}
		}
	}
	if found == 0 {
		t.Error("the root package exports no error")
	}
}

// errorNames lists a file's exported sentinels (Err…) and error types (…Error).
func errorNames(file *ast.File) []string {
	var names []string
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.VAR && gen.Tok != token.TYPE {
			continue
		}
		for _, spec := range gen.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if strings.HasPrefix(name.Name, "Err") {
						names = append(names, name.Name)
					}
				}
			case *ast.TypeSpec:
				if spec.Name.IsExported() && strings.HasSuffix(spec.Name.Name, "Error") {
					names = append(names, spec.Name.Name)
				}
			}
		}
	}
	return names
}
