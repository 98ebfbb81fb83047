package docs

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

func TestLinksAndAnchorsResolve(t *testing.T) {
	byName := map[string]*page{}
	for _, p := range allPages(t) {
		byName[p.name] = p
	}
	for _, p := range byName {
		for _, link := range p.links() {
			if strings.Contains(link.text, "://") || strings.HasPrefix(link.text, "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(link.text, "#")
			target := p.name
			if file != "" {
				target = path.Join(path.Dir(p.name), file)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s:%d: link to %s: no such file", p.name, link.line, link.text)
				continue
			}
			if anchor == "" {
				continue
			}
			if to := byName[target]; to == nil || !to.anchors()[anchor] {
				t.Errorf("%s:%d: link to %s: no such heading", p.name, link.line, link.text)
			}
		}
	}
}

// A page nobody links to is a page nobody reads.
func TestEveryPageIsReachedFromTheReadme(t *testing.T) {
	byName := map[string]*page{}
	for _, p := range allPages(t) {
		byName[p.name] = p
	}
	seen := map[string]bool{}
	queue := []string{"README.md"}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		p := byName[name]
		if p == nil || seen[name] {
			continue
		}
		seen[name] = true
		for _, link := range p.links() {
			file, _, _ := strings.Cut(link.text, "#")
			if file != "" && !strings.Contains(file, "://") {
				queue = append(queue, path.Join(path.Dir(name), file))
			}
		}
	}
	for name := range byName {
		if strings.HasPrefix(name, "docs/") && !seen[name] {
			t.Errorf("%s is not linked from any page that README.md leads to", name)
		}
	}
}
