package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/varvelog/varve"
)

func (a *app) topicCreateCommand() *cobra.Command {
	var partitions int
	var config configFlag
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a topic",
		Long: `Create a topic, and the data directory if there is none.

Order holds within a partition; records with the same key share one. Configs have
Kafka's names and meaning; "varve topic describe" lists them all.`,
		Example: `  varve topic create orders --partitions 4 --config retention.ms=86400000`,
		Args:    exactArgs("a topic name"),
		RunE: func(c *cobra.Command, args []string) error {
			if partitions < 1 {
				return usagef("--partitions %d: a topic has at least one (see: %s --help)", partitions, c.CommandPath())
			}
			topic := varve.TopicConfig{Partitions: partitions, Config: config}
			return a.withNewEngine(args[0], topic, func(e *varve.Engine) error {
				t, err := e.CreateTopic(args[0], topic)
				if errors.Is(err, varve.ErrTopicExists) {
					return hintf(fmt.Errorf("topic %q exists already in %s", args[0], a.dataDir()),
						"see it with: varve topic describe %s", args[0])
				}
				if err != nil {
					return asked(err)
				}
				a.created(t)
				return nil
			})
		},
	}
	numberVar(c.Flags(), &partitions, "partitions", 1, "make a topic of `N` partitions")
	c.Flags().Var(&config, "config", "a config of the topic; may be repeated")
	c.RegisterFlagCompletionFunc("config", completeConfig("="))
	return c
}

// created says that a topic was made.
func (a *app) created(t *varve.Topic) {
	fmt.Fprintf(a.err, "created topic %s with %s in %s\n", t.Name(), count(int64(t.Partitions()), "partition"), a.dataDir())
}
