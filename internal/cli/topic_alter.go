package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/varvelog/varve"
)

func (a *app) topicAlterCommand() *cobra.Command {
	var partitions int
	var config configFlag
	var unset []string
	c := &cobra.Command{
		Use:   "alter NAME",
		Short: "Change a topic's configs, or add partitions",
		Long: `Change configs of a topic, give them back their default, or add partitions.

With more partitions a key may go to another one than before: records of the same
key are in order from then on, but not with those written earlier. A topic never
loses partitions.

What retention takes by the new configs goes before the command ends.`,
		Example: `  varve topic alter orders --config retention.bytes=1073741824 --unset retention.ms
  varve topic alter orders --partitions 8`,
		Args:              exactArgs("a topic name"),
		ValidArgsFunction: a.topicNames,
		RunE: func(c *cobra.Command, args []string) error {
			more := c.Flags().Changed("partitions")
			if !more && len(config) == 0 && len(unset) == 0 {
				return usagef("nothing to change (give --config, --unset or --partitions)")
			}
			for _, k := range unset {
				if _, both := config[k]; both {
					return usagef("%s is both set and unset", k)
				}
			}
			if more && (partitions < 1 || partitions > varve.MaxPartitions) {
				return usagef("--partitions %d: a topic has from 1 to %d (see: %s --help)", partitions, varve.MaxPartitions, c.CommandPath())
			}
			return a.withTopic(args[0], func(e *varve.Engine, t *varve.Topic) error {
				defer a.retain(e)
				if more && partitions <= t.Partitions() {
					return usagef("topic %q has %s: --partitions %d would add none",
						t.Name(), count(int64(t.Partitions()), "partition"), partitions)
				}
				if len(config) > 0 || len(unset) > 0 {
					if err := t.Alter(config, unset...); err != nil {
						return asked(err)
					}
					fmt.Fprintf(a.err, "changed the configs of topic %s\n", t.Name())
				}
				if more {
					return a.addPartitions(t, partitions)
				}
				return nil
			})
		},
	}
	c.Flags().Var(&config, "config", "a config to set; may be repeated")
	c.Flags().StringArrayVar(&unset, "unset", nil, "a config `key` to give back its default; may be repeated")
	numberVar(c.Flags(), &partitions, "partitions", 0, "have `N` partitions in all")
	c.RegisterFlagCompletionFunc("config", completeConfig("="))
	c.RegisterFlagCompletionFunc("unset", completeConfig(""))
	return c
}

func (a *app) addPartitions(t *varve.Topic, total int) error {
	before := t.Partitions()
	if err := t.AddPartitions(total); err != nil {
		return asked(err)
	}
	fmt.Fprintf(a.err, "topic %s has %d partitions now, %d before: a key may go to another one from here on\n",
		t.Name(), t.Partitions(), before)
	return nil
}
