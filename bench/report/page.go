package report

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// What stands between these lines of a page is written by a run; the rest is prose of
// people, and stays.
const (
	begin = "<!-- figures: begin; written by make bench -->"
	end   = "<!-- figures: end -->"
)

// WritePage writes the tables into a page, and the pictures into a folder beside it that
// has the page's name.
func (r *Report) WritePage(path string) error {
	page, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		page, err = []byte("# Benchmarks\n\n"+begin+"\n"+end+"\n"), nil
	}
	if err != nil {
		return err
	}
	folder := strings.TrimSuffix(path, filepath.Ext(path))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, c := range r.Charts {
		if err := os.WriteFile(filepath.Join(folder, c.Name+".svg"), c.SVG(), 0o644); err != nil {
			return err
		}
	}
	if page, err = splice(page, r.markdown(filepath.Base(folder))); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, page, 0o644)
}

// splice puts text between the two lines of a page.
func splice(page []byte, text string) ([]byte, error) {
	before, rest, ok := bytes.Cut(page, []byte(begin))
	_, after, ended := bytes.Cut(rest, []byte(end))
	if !ok || !ended {
		return nil, fmt.Errorf("there are no lines %q and %q to write between", begin, end)
	}
	return slices.Concat(before, []byte(begin+"\n\n"+text+"\n"+end), after), nil
}

func (r *Report) markdown(folder string) string {
	var b strings.Builder
	r.head(&b)
	b.WriteString("\n## Targets\n\n| row | measured | spread | target | |\n|---|---:|---|---|---|\n")
	for _, t := range r.Tables {
		for _, v := range t.Verdicts {
			fmt.Fprintf(&b, "| `%s` | %s %s | %s | %s | %s |\n", v.Name, number(v.Median), v.What, spread(v.Spread), v.goal(), v.verdict())
		}
	}
	for _, t := range r.Tables {
		t.markdown(&b)
	}
	if len(r.Charts) > 0 {
		b.WriteString("\n## How cost grows\n\n")
	}
	for _, c := range r.Charts {
		fmt.Fprintf(&b, "![%s](%s/%s.svg)\n\n", c.Title, folder, c.Name)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func (r *Report) head(b *strings.Builder) {
	fmt.Fprintf(b, "Run on %s by `%s`, sizes times %s.\n\n", r.Date, r.Command, number(r.Scale))
	fmt.Fprintf(b, "| | |\n|---|---|\n")
	for _, line := range r.Machine.lines() {
		fmt.Fprintf(b, "| %s | %s |\n", line[0], line[1])
	}
	var names []string
	for name := range r.Versions {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(b, "| `%s` | %s |\n", name, r.Versions[name])
	}
}

func (t *Table) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", t.Title, t.Text)
	if len(t.Figures) == 0 {
		return
	}
	b.WriteString("\n| who | median | | spread | runs |\n|---|---:|---|---|---:|\n")
	for _, f := range t.Figures {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %d |\n", f.Who, number(f.Median), f.Unit, spread(f.Spread), f.Runs)
	}
}
