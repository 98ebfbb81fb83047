package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What the Go blocks of the guides take for granted.
const guidePrelude = `package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/varvelog/varve"
)

var _, _, _ = fmt.Sprint, errors.Is, time.Hour

func main() {}
`

const guideGiven = `(ctx context.Context, engine *varve.Engine, m *varve.Member, orders, clicks *varve.Topic, account *varve.Partition,
	next varve.Offset, rec varve.Record, recs []varve.Record) error {`

// The Go blocks of the guides compile, each as the body of a function to which the
// things its page speaks of are given.
func TestGuideBlocksCompile(t *testing.T) {
	var program strings.Builder
	program.WriteString(guidePrelude)
	found := 0
	for _, p := range allPages(t) {
		for _, b := range p.blocks {
			if b.lang != "go" || !strings.HasPrefix(p.name, "docs/") {
				continue
			}
			head := fmt.Sprintf("func block%d%s\n//line %s:%d\n", found, guideGiven, p.name, b.line+1)
			names, err := declared(head + b.text + "\nreturn nil\n}")
			if err != nil {
				t.Errorf("%s:%d: %v", p.name, b.line, err)
				continue
			}
			found++
			program.WriteString("\n" + head + b.text + "\n")
			for _, name := range names {
				program.WriteString("_ = " + name + "\n")
			}
			program.WriteString("return nil\n}\n")
		}
	}
	if found == 0 {
		t.Fatal("no guide has a Go block")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "main.go")
	if err := os.WriteFile(file, []byte(program.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	vet := exec.Command("go", "vet", file)
	vet.Dir = root
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s", err, out)
	}
}

// declared lists the names that a function declares in its outermost block.
func declared(function string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+function, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, stmt := range file.Decls[0].(*ast.FuncDecl).Body.List {
		assign, ok := stmt.(*ast.AssignStmt)
		if !ok || assign.Tok != token.DEFINE {
			continue
		}
		for _, left := range assign.Lhs {
			if id, ok := left.(*ast.Ident); ok && id.Name != "_" {
				names = append(names, id.Name)
			}
		}
	}
	return names, nil
}
