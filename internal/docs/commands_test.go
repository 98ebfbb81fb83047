package docs

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	commandForm = regexp.MustCompile(`(?:^|[|(] *)varve ((?:[a-z]+ ?)*)`)
	flagForm    = regexp.MustCompile(`(?:^|\s)(--[a-z-]+)`)
	listedForm  = regexp.MustCompile(`(?m)^  ([a-z]+) {2,}\S`)
)

// commandLine is the command, built once, and its help.
type commandLine struct {
	binary string
	texts  map[string]string // help by "topic create"
}

func buildCommand(t *testing.T) *commandLine {
	t.Helper()
	c := &commandLine{binary: filepath.Join(t.TempDir(), "varve.exe"), texts: map[string]string{}}
	build := exec.Command("go", "build", "-o", c.binary, "./cmd/varve")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return c
}

func (c *commandLine) help(t *testing.T, name string) string {
	t.Helper()
	if text, ok := c.texts[name]; ok {
		return text
	}
	out, err := exec.Command(c.binary, append(strings.Fields(name), "--help")...).Output()
	if err != nil {
		t.Fatalf("varve %s --help: %v", name, err)
	}
	c.texts[name] = string(out)
	return string(out)
}

// below lists the commands under one.
func (c *commandLine) below(t *testing.T, name string) []string {
	t.Helper()
	_, list, found := strings.Cut(c.help(t, name), "\nCommands:\n")
	if !found {
		return nil
	}
	list, _, _ = strings.Cut(list, "\n\n")
	var names []string
	for _, m := range listedForm.FindAllStringSubmatch(list, -1) {
		names = append(names, strings.TrimSpace(name+" "+m[1]))
	}
	return names
}

// all lists every command that does something.
func (c *commandLine) all(t *testing.T, name string) []string {
	t.Helper()
	below := c.below(t, name)
	if len(below) == 0 {
		return []string{name}
	}
	var names []string
	for _, n := range below {
		names = append(names, c.all(t, n)...)
	}
	return names
}

// A command line that a page shows is one: the command is there, and has the flags.
// The guide to the command leaves none of either out.
func TestCommandLinesOfPagesExist(t *testing.T) {
	c := buildCommand(t)
	t.Run("pages", c.linesExist)
	t.Run("guide", c.guideIsComplete)
}

func (c *commandLine) linesExist(t *testing.T) {
	groups := map[string]bool{"": true}
	real := map[string]bool{"": true}
	for _, name := range c.all(t, "") {
		real[name] = true
		if group, _, below := strings.Cut(name, " "); below {
			real[group], groups[group] = true, true
		}
	}
	found := 0
	for _, p := range allPages(t) {
		for _, s := range p.commands() {
			m := commandForm.FindStringSubmatchIndex(s.text)
			if m == nil {
				continue
			}
			words := strings.Fields(s.text[m[2]:m[3]])
			n := len(words)
			for !real[strings.Join(words[:n], " ")] {
				n--
			}
			name := strings.Join(words[:n], " ")
			if groups[name] && n < len(words) {
				t.Errorf("%s:%d: there is no command varve %s", p.name, s.line, strings.Join(words, " "))
				continue
			}
			found++
			for _, f := range flagForm.FindAllStringSubmatch(s.text[m[3]:], -1) {
				if !regexp.MustCompile(`(?m)` + f[1] + `\b`).MatchString(c.help(t, name)) {
					t.Errorf("%s:%d: varve %s has no flag %s", p.name, s.line, name, f[1])
				}
			}
		}
	}
	if found == 0 {
		t.Error("no page shows a command line")
	}
}

func (c *commandLine) guideIsComplete(t *testing.T) {
	text := strings.Join(pageNamed(t, "docs/guide/cli.md").lines, "\n")
	for _, name := range c.all(t, "") {
		if !strings.Contains(text, "varve "+name) {
			t.Errorf("docs/guide/cli.md does not show varve %s", name)
		}
		_, flags, _ := strings.Cut(c.help(t, name), "\nFlags:\n")
		flags, _, _ = strings.Cut(flags, "\nExamples:")
		for _, m := range regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z-]+)`).FindAllStringSubmatch(flags, -1) {
			if !strings.Contains(text, m[1]) {
				t.Errorf("docs/guide/cli.md does not show the flag %s of varve %s", m[1], name)
			}
		}
	}
}
