package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"
)

// root is the checkout, seen from the folder the tests run in.
const root = "../.."

// page is one markdown file of the tree.
type page struct {
	name   string   // slash-separated, from the root of the tree
	lines  []string // as written
	prose  []string // the same lines with fenced blocks blanked out
	blocks []block
}

// block is a fenced code block.
type block struct {
	lang string
	line int // of its opening fence, from 1
	text string
}

// span is something found in a line of prose.
type span struct {
	line int // from 1
	text string
}

// table is a pipe table: header and rows as trimmed cells.
type table struct {
	line   int // of the header, from 1
	header []string
	rows   [][]string
}

var (
	headingForm = regexp.MustCompile(`^(#{1,6})\s+(.*?)\s*#*$`)
	codeForm    = regexp.MustCompile("`([^`]+)`")
	linkForm    = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)(?:\s+"[^"]*")?\)`)
	refForm     = regexp.MustCompile(`^\[[^\]]+\]:\s+(\S+)`)
)

// pages reads every markdown file of the tree once.
var pages = sync.OnceValues(func() ([]*page, error) {
	var all []*page
	err := walk(func(name string) error {
		if filepath.Ext(name) != ".md" {
			return nil
		}
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		all = append(all, parsePage(name, string(data)))
		return nil
	})
	return all, err
})

// walk calls visit for every file that belongs to the project: what tests
// leave or compare (testdata, hidden folders) does not.
func walk(visit func(name string) error) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") && path != root
			if hidden || d.Name() == "testdata" || d.Name() == "target" {
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(name))
	})
}

func allPages(t *testing.T) []*page {
	t.Helper()
	all, err := pages()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func pageNamed(t *testing.T, name string) *page {
	t.Helper()
	for _, p := range allPages(t) {
		if p.name == name {
			return p
		}
	}
	t.Fatalf("%s is missing", name)
	return nil
}

func parsePage(name, text string) *page {
	p := &page{name: name, lines: strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")}
	var open *block
	var body []string
	for i, line := range p.lines {
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case open == nil && isFence:
			open, body = &block{lang: fence, line: i + 1}, nil
			line = ""
		case open != nil && isFence:
			open.text = strings.Join(body, "\n")
			p.blocks = append(p.blocks, *open)
			open, line = nil, ""
		case open != nil:
			body = append(body, line)
			line = ""
		}
		p.prose = append(p.prose, line)
	}
	return p
}

// anchors are the fragments that links may point at: GitHub's slug of each
// heading, numbered when a heading repeats.
func (p *page) anchors() map[string]bool {
	found := map[string]bool{}
	for _, line := range p.prose {
		m := headingForm.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		slug := slugOf(m[2])
		unique := slug
		for n := 1; found[unique]; n++ {
			unique = slug + "-" + strconv.Itoa(n)
		}
		found[unique] = true
	}
	return found
}

func slugOf(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(linkForm.ReplaceAllString(heading, "")) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '_', r == '-':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	return b.String()
}

func (p *page) links() []span {
	var found []span
	for i, line := range p.prose {
		line = codeForm.ReplaceAllString(line, "code")
		for _, m := range linkForm.FindAllStringSubmatch(line, -1) {
			found = append(found, span{i + 1, m[1]})
		}
		if m := refForm.FindStringSubmatch(line); m != nil {
			found = append(found, span{i + 1, m[1]})
		}
	}
	return found
}

// code returns the inline code spans.
func (p *page) code() []span {
	var found []span
	for i, line := range p.prose {
		for _, m := range codeForm.FindAllStringSubmatch(line, -1) {
			found = append(found, span{i + 1, m[1]})
		}
	}
	return found
}

// commands returns what a reader may type: code spans and lines of fenced blocks.
func (p *page) commands() []span {
	found := p.code()
	for _, b := range p.blocks {
		for i, line := range strings.Split(b.text, "\n") {
			found = append(found, span{b.line + 1 + i, line})
		}
	}
	return found
}

// section returns the prose under a heading, up to the next heading of the
// same or a higher level.
func (p *page) section(t *testing.T, heading string) []string {
	t.Helper()
	level := 0
	var body []string
	for _, line := range p.prose {
		m := headingForm.FindStringSubmatch(line)
		switch {
		case m != nil && level > 0 && len(m[1]) <= level:
			return body
		case m != nil && level == 0 && m[2] == heading:
			level = len(m[1])
		case level > 0:
			body = append(body, line)
		}
	}
	if level == 0 {
		t.Fatalf("%s has no heading %q", p.name, heading)
	}
	return body
}

func (p *page) tables() []table {
	var found []table
	var open *table
	for i, line := range p.prose {
		row, isRow := cells(line)
		switch {
		case !isRow:
			open = nil
		case open == nil:
			found = append(found, table{line: i + 1, header: row})
			open = &found[len(found)-1]
		case i == open.line: // the line of dashes below the header
		default:
			open.rows = append(open.rows, row)
		}
	}
	return found
}

// tableOf returns the one table of a page whose header begins with the given cells.
func (p *page) tableOf(t *testing.T, header ...string) table {
	t.Helper()
	for _, tab := range p.tables() {
		if len(tab.header) >= len(header) && strings.Join(tab.header[:len(header)], "|") == strings.Join(header, "|") {
			return tab
		}
	}
	t.Fatalf("%s has no table that begins with the columns %q", p.name, header)
	return table{}
}

// cells splits a table line; a pipe inside a code span or behind a backslash
// belongs to its cell.
func cells(line string) ([]string, bool) {
	line = strings.TrimSpace(line)
	if len(line) < 2 || line[0] != '|' || line[len(line)-1] != '|' {
		return nil, false
	}
	var row []string
	var cell strings.Builder
	inCode := false
	for i := 1; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && line[i+1] == '|':
			cell.WriteByte('|')
			i++
		case c == '|' && !inCode:
			row = append(row, strings.TrimSpace(cell.String()))
			cell.Reset()
		default:
			if c == '`' {
				inCode = !inCode
			}
			cell.WriteByte(c)
		}
	}
	return row, true
}

// uncode takes the backquotes off a cell that is one code span.
func uncode(cell string) string { return strings.Trim(cell, "`") }

func TestPageIsTakenApart(t *testing.T) {
	p := parsePage("x.md", strings.Join([]string{
		"# A `code` heading, twice!",
		"see [this](a.md#b \"title\") and `[not](this)`",
		"```go",
		"# no heading",
		"[no](link)",
		"```",
		"## A code heading, twice",
		"| a | b |",
		"|---|---|",
		"| `x|y` | p\\|q |",
		"",
		"[ref]: b.md",
	}, "\n"))
	if got := p.anchors(); len(got) != 2 || !got["a-code-heading-twice"] || !got["a-code-heading-twice-1"] {
		t.Errorf("anchors = %v", got)
	}
	if got := p.links(); len(got) != 2 || got[0] != (span{2, "a.md#b"}) || got[1] != (span{12, "b.md"}) {
		t.Errorf("links = %v", got)
	}
	if len(p.blocks) != 1 || p.blocks[0].lang != "go" || p.blocks[0].text != "# no heading\n[no](link)" {
		t.Errorf("blocks = %v", p.blocks)
	}
	tab := p.tableOf(t, "a")
	if len(tab.rows) != 1 || tab.rows[0][0] != "`x|y`" || tab.rows[0][1] != "p|q" {
		t.Errorf("table = %v", tab)
	}
	if got := p.section(t, "A code heading, twice"); len(got) != 5 {
		t.Errorf("section = %q", got)
	}
}
