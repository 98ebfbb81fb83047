package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) topicCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "topic",
		Short: "Create, list, describe, change, trim and delete topics",
		Example: `  varve topic create orders --partitions 4
  varve topic list`,
	}
	c.AddCommand(
		a.topicCreateCommand(),
		a.topicListCommand(),
		a.topicDescribeCommand(),
		a.topicAlterCommand(),
		a.topicDeleteCommand(),
		a.topicTrimCommand(),
	)
	return asGroup(c)
}

// configFlag collects --config k=v; a key given twice is a slip, not a choice.
type configFlag map[string]string

func (f *configFlag) String() string { return "" }
func (f *configFlag) Type() string   { return "key=value" }

func (f *configFlag) Set(s string) error {
	k, v, ok := strings.Cut(s, "=")
	if !ok || k == "" {
		return usagef("want key=value, as in retention.ms=86400000")
	}
	if _, twice := (*f)[k]; twice {
		return usagef("%s is given twice", k)
	}
	if *f == nil {
		*f = configFlag{}
	}
	(*f)[k] = v
	return nil
}

// topicNames completes the first argument with the topics there are. It looks
// at the directory only: a running process may hold the engine's lock.
func (a *app) topicNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return listNames(a.topicsDir()), cobra.ShellCompDirectiveNoFileComp
}

// configKeys are the configs a topic can have, for completion.
var configKeys = []string{
	"cleanup.policy", "compression.type", "durability", "flush.ms", "hold.full", "hold.groups", "hold.max.bytes", "index.interval.bytes",
	"max.message.bytes", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms",
	"message.timestamp.type", "retention.bytes", "retention.ms", "segment.bytes",
	"segment.index.bytes", "segment.ms",
}

// completeConfig completes the values of --config and --unset.
func completeConfig(suffix string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var keys []string
		for _, k := range configKeys {
			keys = append(keys, k+suffix)
		}
		return keys, cobra.ShellCompDirectiveNoSpace
	}
}
