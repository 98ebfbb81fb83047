package docs

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// speaking are the packages whose errors and lines of the log reach a user. What the
// command says of its own says what to do with it.
var speaking = []string{".", "partition", "segment", "wal", "index", "internal/checkpoint", "internal/twin", "internal/vfs"}

// unmet are texts that no user meets, and why.
var unmet = map[string]string{
	"segment was removed":                       "passed on to nobody: the reader is told the log start",
	"segment is finished":                       "asked for again",
	"index is incomplete":                       "the index is made anew",
	"index %s: append after the end":            "the index is made anew",
	"mark has a negative number of entries":     "the index is made anew",
	"mark has an impossible tail":               "the index is made anew",
	"mark has no tail":                          "the index is made anew",
	"seal index %s: %w: %d entries are missing": "the index is made anew",
	"seal is cut short: %d of %d bytes":         "the segment is read",
	"seal has no mark %q":                       "the segment is read",
	"seal has a wrong checksum":                 "the segment is read",
	"seal of base offset %d contradicts itself": "the segment is read",
	"a round of %d bytes is larger than a file": "the round is written otherwise",
	"index %s: offset %d at position %d is beyond what an index entry can say": "the segment is rolled in front of it",
	"index %s: offset %d at position %d does not follow what was appended":     "the index is made anew",
	"group ends":   "asked again of the group that follows",
	"lock is held": "becomes a *LockedError",
	"mark has its largest timestamp at offset %d, outside the segment": "the index is made anew",
}

var verbForm = regexp.MustCompile(`%[-+#0-9.]*[a-zA-Z]`)

// Whatever text of an error or a line of the log a user can meet, docs/operations.md has
// the longest piece of it that is always the same. A text that ends in its cause only says
// what was being done: the cause has a text of its own.
func TestEveryTextIsExplained(t *testing.T) {
	page := strings.Join(pageNamed(t, "docs/operations.md").lines, "\n")
	all, found := packages(t), 0
	met := map[string]bool{}
	for _, dir := range speaking {
		for _, s := range all[dir] {
			for _, text := range texts(s.file) {
				met[text] = true
				found++
				if piece := longestPiece(text); len(piece) > 7 && unmet[text] == "" && !strings.HasSuffix(text, "%w") && !strings.Contains(page, piece) {
					t.Errorf("docs/operations.md does not explain %q (%s)", text, s.name)
				}
			}
		}
	}
	for text := range unmet {
		if !met[text] {
			t.Errorf("nothing says %q any more", text)
		}
	}
	if found < 100 {
		t.Errorf("only %d texts were found", found)
	}
}

// texts are the literal texts of the errors that a file makes, and of what it logs as a
// warning or an error.
func texts(file *ast.File) (all []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		fn, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch of, _ := fn.X.(*ast.Ident); {
		case fn.Sel.Name == "Errorf", fn.Sel.Name == "New" && of != nil && of.Name == "errors", fn.Sel.Name == "Warn", fn.Sel.Name == "Error":
			if text := literal(call.Args[0]); text != "" {
				all = append(all, text)
			}
		}
		return true
	})
	return all
}

// literal is a string literal, or several that are added up.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); e.Kind == token.STRING && err == nil {
			return text
		}
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	}
	return ""
}

func longestPiece(text string) (longest string) {
	for _, piece := range verbForm.Split(text, -1) {
		if piece = strings.Trim(piece, ` :,;()"`); len(piece) > len(longest) {
			longest = piece
		}
	}
	return longest
}
