package docs

import (
	"regexp"
	"strings"
	"testing"
)

var adrForm = regexp.MustCompile(`^docs/adr/(\d{4})-[a-z0-9-]+\.md$`)

// Every decision is one short page of the same three parts, listed under its
// number and title.
func TestDecisionsHaveTheirForm(t *testing.T) {
	list := map[string]string{}
	for _, row := range pageNamed(t, "docs/adr/README.md").tableOf(t, "number", "decision", "status").rows {
		list[row[0]] = row[1]
	}
	found := 0
	for _, p := range allPages(t) {
		m := adrForm.FindStringSubmatch(p.name)
		if m == nil {
			continue
		}
		found++
		title, ok := strings.CutPrefix(p.lines[0], "# "+m[1]+": ")
		link := "[" + m[1] + "](" + strings.TrimPrefix(p.name, "docs/adr/") + ")"
		if !ok || list[link] != title {
			t.Errorf("%s: the title %q is not what docs/adr/README.md lists, %q", p.name, p.lines[0], list[link])
		}
		if !strings.HasPrefix(p.lines[2], "Status: ") {
			t.Errorf("%s: the third line is not its status", p.name)
		}
		for _, part := range []string{"Context", "Decision", "Consequences"} {
			p.section(t, part)
		}
		lines := 0
		for _, line := range p.lines {
			if !strings.HasPrefix(line, "|") { // figures take the room they need
				lines++
			}
		}
		if lines > 70 {
			t.Errorf("%s: %d lines are more than a page", p.name, lines)
		}
	}
	if found != len(list) {
		t.Errorf("%d decisions, docs/adr/README.md lists %d", found, len(list))
	}
}
