package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// allCommands lists every command that a user can see.
func allCommands(root *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{root}
	for _, c := range root.Commands() {
		if !c.Hidden {
			list = append(list, allCommands(c)...)
		}
	}
	return list
}

// Every help says what the command does, and ends in an example that names it.
func TestHelp(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: &output{w: &out}, err: &out}
	commands := allCommands(a.command())
	if len(commands) < 12 {
		t.Fatalf("only %d commands", len(commands))
	}
	for _, c := range commands {
		out.Reset()
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		help := out.String()
		_, example, found := strings.Cut(help, "\nExamples:\n")
		if !found || !strings.Contains(example, c.CommandPath()) {
			t.Errorf("%s: help does not end in an example of it:\n%s", c.CommandPath(), help)
		}
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short text is %q", c.CommandPath(), c.Short)
		}
		for line := range strings.Lines(help) {
			if n := len([]rune(line)); n > 110 {
				t.Errorf("%s: %d characters in %q", c.CommandPath(), n, line)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s: --%s has no text", c.CommandPath(), f.Name)
			}
		})
	}
}

// The flags that an example shows exist.
func TestExamplesUseRealFlags(t *testing.T) {
	a := &app{out: &output{w: &bytes.Buffer{}}}
	root := a.command()
	for _, c := range allCommands(root) {
		for line := range strings.Lines(c.Example) {
			for _, part := range strings.Split(line, "|") {
				i := strings.Index(part, "varve ")
				if i < 0 {
					continue
				}
				used, _, err := root.Find(strings.Fields(part[i+len("varve "):]))
				if err != nil {
					t.Errorf("%s: %v", strings.TrimSpace(line), err)
					continue
				}
				for _, m := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(part, -1) {
					if used.Flags().Lookup(m[1]) == nil && used.InheritedFlags().Lookup(m[1]) == nil {
						t.Errorf("%s: no flag --%s", strings.TrimSpace(line), m[1])
					}
				}
			}
		}
	}
}
