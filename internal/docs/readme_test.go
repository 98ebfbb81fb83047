package docs

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadmeIsShort(t *testing.T) {
	p := pageNamed(t, "README.md")
	if n := len(p.lines) - 1; n > 200 {
		t.Errorf("README.md has %d lines, more than 200", n)
	}
	screen := strings.Join(p.lines[:min(len(p.lines), 30)], "\n")
	for _, command := range []string{"make run", "make test"} {
		if !strings.Contains(screen, command) {
			t.Errorf("README.md does not name %q on its first screen", command)
		}
	}
}

// quickStart is the first Go block of the README: a whole program.
func quickStart(t *testing.T) string {
	t.Helper()
	for _, b := range pageNamed(t, "README.md").blocks {
		if b.lang == "go" {
			return b.text + "\n"
		}
	}
	t.Fatal("README.md has no Go block")
	return ""
}

func TestReadmeQuickStartIsTheExample(t *testing.T) {
	example, err := os.ReadFile(filepath.Join(root, "example_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	want := functionText(t, "example_test.go", string(example), "quickStart")
	got := functionText(t, "README.md", quickStart(t), "quickStart")
	if got != want {
		t.Errorf("the README's quick start differs from the tested one.\nREADME.md:\n%s\nexample_test.go:\n%s", got, want)
	}
}

// functionText cuts one function out of Go source, byte for byte.
func functionText(t *testing.T, name, text, function string) string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Name.Name == function {
			return text[files.Position(fn.Pos()).Offset:files.Position(fn.End()).Offset]
		}
	}
	t.Fatalf("%s has no function %s", name, function)
	return ""
}

// The README's program is built against this tree and run twice in one folder:
// what it prints is what the block behind it shows.
func TestReadmeQuickStartRuns(t *testing.T) {
	dir := t.TempDir()
	program, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "quickstart.exe")
	if err := os.WriteFile(program, []byte(quickStart(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", binary, program)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	run := exec.Command(binary)
	run.Dir = dir
	out, err := run.Output()
	if err != nil {
		t.Fatalf("the README's program: %v", err)
	}
	p := pageNamed(t, "README.md")
	for i, b := range p.blocks {
		if b.lang == "go" {
			if want := p.blocks[i+1].text + "\n"; string(out) != want {
				t.Errorf("the README's program prints\n%s\nand README.md says\n%s", out, want)
			}
			return
		}
	}
}

func TestGoBlocksAreFormatted(t *testing.T) {
	for _, p := range allPages(t) {
		for _, b := range p.blocks {
			if b.lang != "go" {
				continue
			}
			text := []byte(b.text + "\n")
			if formatted, err := format.Source(text); err != nil {
				t.Errorf("%s:%d: Go block: %v", p.name, b.line, err)
			} else if !bytes.Equal(formatted, text) {
				t.Errorf("%s:%d: Go block is not formatted", p.name, b.line)
			}
		}
	}
}
