package docs

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A page names a test as `package.TestName`, or `TestName` where the package
// is clear; a fuzz target, example or benchmark likewise.
var testForm = regexp.MustCompile(`^(?:([a-z0-9/]+)\.)?((?:Test|Fuzz|Example|Benchmark)[A-Za-z0-9_]+)(?:/.*)?$`)

// testNames lists the test functions of the tree as "folder.Name" and "Name".
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, s := range allSources(t) {
		if !s.test {
			continue
		}
		for _, decl := range s.file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if ok && fn.Recv == nil && testForm.MatchString(fn.Name.Name) {
				found[fn.Name.Name] = true
				found[s.dir+"."+fn.Name.Name] = true
			}
		}
	}
	return found
}

func TestNamedTestsExist(t *testing.T) {
	exists := testNames(t)
	for _, p := range allPages(t) {
		for _, s := range p.commands() {
			m := testForm.FindStringSubmatch(s.text)
			if m == nil {
				continue
			}
			name := m[2]
			if m[1] != "" {
				name = rowName(m[1]) + "." + m[2]
			}
			if !exists[name] {
				t.Errorf("%s:%d: there is no test %s", p.name, s.line, s.text)
			}
		}
	}
}

var promiseForm = regexp.MustCompile(`^### (\d+)\. `)

// Every promise of docs/durability.md is numbered without a gap and ends in
// the tests that hold it.
func TestEveryPromiseHasAWitness(t *testing.T) {
	number, held := 0, true
	for _, line := range append(pageNamed(t, "docs/durability.md").section(t, "Promises"), "### 0. end") {
		if m := promiseForm.FindStringSubmatch(line); m != nil {
			if !held {
				t.Errorf("promise %d names no test", number)
			}
			number++
			if !strings.HasPrefix(line, "### 0.") && m[1] != strconv.Itoa(number) {
				t.Errorf("promise %s stands where %d is due", m[1], number)
			}
			held = false
		}
		if rest, ok := strings.CutPrefix(line, "Held by "); ok {
			for _, m := range codeForm.FindAllStringSubmatch(rest, -1) {
				held = held || testForm.MatchString(m[1])
			}
		}
	}
	if number < 2 {
		t.Error("docs/durability.md promises nothing")
	}
}

var (
	makeForm   = regexp.MustCompile(`(?:^|\s)make ([a-z0-9-]+)`)
	targetForm = regexp.MustCompile(`(?m)^([a-z0-9-]+):(.*)$`)
)

func TestNamedMakeTargetsExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, m := range targetForm.FindAllStringSubmatch(string(makefile), -1) {
		targets[m[1]] = true
		if !strings.Contains(m[2], "## ") {
			t.Errorf("Makefile: the target %s does not say what it does", m[1])
		}
	}
	for _, p := range allPages(t) {
		for _, s := range p.commands() {
			for _, m := range makeForm.FindAllStringSubmatch(s.text, -1) {
				if !targets[m[1]] {
					t.Errorf("%s:%d: there is no target %q", p.name, s.line, "make "+m[1])
				}
			}
		}
	}
	ci, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range makeForm.FindAllStringSubmatch(string(ci), -1) {
		if !targets[m[1]] {
			t.Errorf(".ci/run: there is no target %q", "make "+m[1])
		}
	}
	if !strings.Contains(string(ci), "\nmake test\n") {
		t.Error(".ci/run does not run the README's test command")
	}
}
