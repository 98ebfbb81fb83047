package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/varvelog/varve"
)

func (a *app) groupDeleteCommand() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "delete GROUP",
		Short: "Delete a consumer group and its places",
		Long: `Delete a consumer group with the places it has in all topics, for good. On a terminal
it asks first; elsewhere it needs --yes.`,
		Example:           `  varve group delete billing --yes`,
		Args:              exactArgs("a group"),
		ValidArgsFunction: groupNames,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withEngine(func(e *varve.Engine) error { return a.deleteGroup(c.Context(), e, args[0], yes) })
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}

func (a *app) deleteGroup(ctx context.Context, e *varve.Engine, group string, yes bool) error {
	d, err := e.DescribeGroup(group)
	if err != nil {
		return a.noGroup(err, group)
	}
	if !yes {
		what := fmt.Sprintf("group %q and its places in %s", group, count(int64(d.Partitions), "partition"))
		if err := a.confirm(ctx, what); err != nil {
			return err
		}
	}
	if err := e.DeleteGroup(group); err != nil {
		return a.noGroup(err, group)
	}
	fmt.Fprintf(a.err, "deleted group %s\n", oneLine(group))
	return nil
}
