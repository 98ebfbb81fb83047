package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/varvelog/varve"
)

func (a *app) topicTrimCommand() *cobra.Command {
	var partition int
	var before int64
	c := &cobra.Command{
		Use:   "trim NAME",
		Short: "Drop the oldest records of a partition",
		Long: `Drop every record of a partition below an offset, and print the offset it then
starts at. Disk space comes back by whole segments. What retention takes goes too.`,
		Example:           `  varve topic trim orders --partition 0 --before 1000000`,
		Args:              exactArgs("a topic name"),
		ValidArgsFunction: a.topicNames,
		RunE: func(c *cobra.Command, args []string) error {
			for _, name := range []string{"partition", "before"} {
				if !c.Flags().Changed(name) {
					return usagef("trim needs --%s (see: %s --help)", name, c.CommandPath())
				}
			}
			if before < 0 {
				return usagef("--before %d: an offset is never negative", before)
			}
			return a.withTopic(args[0], func(e *varve.Engine, t *varve.Topic) error {
				p, err := onePartition(t, partition)
				if err != nil {
					return err
				}
				_, err = p.Trim(varve.Offset(before))
				var out *varve.OutOfRangeError
				if errors.As(err, &out) {
					return hintf(outOfRange(p, out), "--before %d drops all there is, and is the most it can be", out.End)
				}
				if err != nil {
					return err
				}
				a.retain(e)
				_, err = fmt.Fprintln(a.out, p.Start())
				return err
			})
		},
	}
	numberVar(c.Flags(), &partition, "partition", 0, "trim partition `N`")
	numberVar(c.Flags(), &before, "before", 0, "the first `offset` to keep")
	return c
}
