package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What would say that something is unfinished; spelt so that this file passes.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b|(?i:not (yet )?imple` + `mented)`)

// The words of the project (CONTRIBUTING.md lists them): what a page must not
// call a record or a byte in a file.
var strayWords = regexp.MustCompile(`(?i)\b(file offset|byte offset|high water mark|message broker)\b`)

func TestNothingIsLeftUnfinished(t *testing.T) {
	kinds := []string{".go", ".md", ".mod", ".java", ".xml", ".sh", ""}
	err := walk(func(name string) error {
		if !slices.Contains(kinds, path.Ext(name)) {
			return nil
		}
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(data), "\n") {
			if word := unfinished.FindString(line); word != "" {
				t.Errorf("%s:%d: %s", name, i+1, word)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPagesKeepToTheWords(t *testing.T) {
	for _, p := range allPages(t) {
		for i, line := range p.prose {
			if word := strayWords.FindString(line); word != "" {
				t.Errorf("%s:%d: %q is not a word of this project", p.name, i+1, word)
			}
		}
	}
}
