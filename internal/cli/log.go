package cli

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"
)

func (a *app) logCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "log",
		Short: "Look into log files: what is in them, and whether it is whole",
		Long: `Look into log files as they lie on disk, varve's own and Apache Kafka's. dump and
verify open no engine and take no lock, so they also work on a copy, a backup or a
directory that is in use; they change nothing. quarantine sets damage aside, in a
data directory that is not in use.`,
		Example: `  varve log dump --topic orders --partition 0
  varve log verify --all`,
	}
	c.AddCommand(a.logDumpCommand(), a.logVerifyCommand(), a.logQuarantineCommand())
	return asGroup(c)
}

// logPaths are the flags and arguments that say which files to look at.
type logPaths struct {
	topic     string
	partition int
	all       bool
}

func (p *logPaths) flags(a *app, c *cobra.Command) {
	c.Flags().StringVar(&p.topic, "topic", "", "look at this `topic` of the data directory")
	numberVar(c.Flags(), &p.partition, "partition", -1, "with --topic: only partition `N`")
	c.Flags().Lookup("partition").DefValue = "0" // keeps -1 out of the help
	c.Flags().BoolVar(&p.all, "all", false, "look at every topic of the data directory")
	c.RegisterFlagCompletionFunc("topic", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return listNames(a.topicsDir()), cobra.ShellCompDirectiveNoFileComp
	})
}

// resolve returns the paths to look at: the arguments or what the flags say.
func (p *logPaths) resolve(a *app, c *cobra.Command, args []string) ([]string, error) {
	chosen := c.Flags().Changed("partition")
	switch {
	case len(args) > 0 && (c.Flags().Changed("topic") || p.all || chosen):
		return nil, usagef("give paths, or --topic, or --all, not several of them")
	case c.Flags().Changed("topic") && p.all:
		return nil, usagef("--topic and --all do not go together")
	case chosen && !c.Flags().Changed("topic"):
		return nil, usagef("--partition needs --topic")
	case chosen && p.partition < 0:
		return nil, usagef("--partition %d: partitions count from 0", p.partition)
	case len(args) > 0:
		return args, nil
	case p.all:
		return []string{a.topicsDir()}, nil
	case !c.Flags().Changed("topic"):
		return nil, usagef("nothing to look at (give a path, --topic NAME or --all)")
	}
	if err := checkName(p.topic); err != nil { // it becomes a part of a path
		return nil, err
	}
	dir := filepath.Join(a.topicsDir(), p.topic)
	if !isDir(dir) {
		return nil, fmt.Errorf("topic %q does not exist in %s", p.topic, a.dataDir())
	}
	if chosen {
		dir = filepath.Join(dir, strconv.Itoa(p.partition))
		if !isDir(dir) {
			return nil, hintf(fmt.Errorf("topic %q has no partition %d", p.topic, p.partition), "see them with: varve topic describe %s", p.topic)
		}
	}
	return []string{dir}, nil
}
