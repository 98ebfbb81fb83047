package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// The example comes last, where the eye is when the text has scrolled by.
const usageTemplate = `Usage:{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND [flags]{{else}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableInheritedFlags}}

Global flags:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}

Examples:
{{.Example | trimTrailingWhitespaces}}
`

// printHelp is cobra's, which prints an error of writing where output keeps it for
// the exit code.
func (a *app) printHelp(c *cobra.Command, _ []string) {
	text := c.Long
	if text == "" {
		text = c.Short
	}
	io.WriteString(a.out, strings.TrimSpace(text)+"\n\n"+c.UsageString())
}

// asGroup makes c a command that only groups others: alone it prints its help,
// and what it does not know is a usage error with the nearest name it does.
func asGroup(c *cobra.Command) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		hint := "see: " + c.CommandPath() + " --help"
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "did you mean: " + c.CommandPath() + " " + strings.Join(near, ", ") + "?"
		}
		return usagef("unknown command %q for %q (%s)", args[0], c.CommandPath(), hint)
	}
	c.Args = cobra.ArbitraryArgs
	c.SuggestionsMinimumDistance = 2
	return c
}

func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]…",
		Short:   "Print the help of a command",
		Long:    "Print the help of a command, as its --help does.",
		Example: "  varve help topic create",
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("unknown command %q (see: varve --help)", strings.Join(args, " "))
			}
			c.InitDefaultHelpFlag() // else the help would not show --help itself
			return c.Help()
		},
	}
}
