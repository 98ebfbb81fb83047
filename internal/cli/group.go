package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/varvelog/varve"
)

func (a *app) groupCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "group",
		Short: "List, describe, reset and delete consumer groups",
		Example: `  varve group list
  varve group reset billing --to earliest --dry-run`,
	}
	c.AddCommand(
		a.groupListCommand(),
		a.groupDescribeCommand(),
		a.groupResetCommand(),
		a.groupDeleteCommand(),
	)
	return asGroup(c)
}

// noGroup makes the best of an error of a call about a group, for its reader.
func (a *app) noGroup(err error, group string) error {
	var id *varve.GroupIDError
	switch {
	case errors.As(err, &id):
		return &usageError{err}
	case errors.Is(err, varve.ErrNoGroup):
		return hintf(fmt.Errorf("group %q does not exist in %s", group, a.dataDir()), "see which there are with: varve group list")
	}
	return err
}

// groupNames completes nothing: which groups there are is in records, and a running
// process may hold the engine's lock.
func groupNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}
