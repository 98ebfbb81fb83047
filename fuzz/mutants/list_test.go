package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every break still has its place in the code, a name of its own, and a line in
// docs/testing.md. Whether it is caught takes minutes to find out: make mutants.
func TestMutantsHaveTheirPlace(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "testing.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range mutants {
		if line := "| " + m.name + " | `" + m.file + "` |\n"; !strings.Contains(string(page), line) {
			t.Errorf("docs/testing.md does not have %s", line)
		}
		if names[m.name] {
			t.Errorf("there are two of the name %q", m.name)
		}
		names[m.name] = true
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(m.file)))
		if err != nil {
			t.Fatal(err)
		}
		root := t.TempDir()
		name := filepath.Join(root, filepath.FromSlash(m.file))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		undo, err := m.apply(root)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if broken, err := os.ReadFile(name); err != nil || string(broken) == string(text) {
			t.Errorf("%s changes nothing (%v)", m.name, err)
		}
		if err := undo(); err != nil {
			t.Fatal(err)
		}
		if again, err := os.ReadFile(name); err != nil || string(again) != string(text) {
			t.Errorf("%s: the file is not as it was (%v)", m.name, err)
		}
	}
}
