package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/varvelog/varve"
)

// resetFlags are the flags of group reset as given.
type resetFlags struct {
	to         string
	shift      int64
	topics     []string
	partitions numbersFlag
	dryRun     bool
	json       bool
}

// movedPlace is a line of group reset --json.
type movedPlace struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Old       *int64 `json:"old"` // null: the group had no place
	New       int64  `json:"new"`
}

func (a *app) groupResetCommand() *cobra.Command {
	var f resetFlags
	c := &cobra.Command{
		Use:   "reset GROUP",
		Short: "Move a consumer group to another place",
		Long: `Move a consumer group, which must have no members, to another place: --to one, or
by --shift so many records ahead, or back where that is negative. It goes for all
partitions in which the group has a place, or those of --topic and --partition. It
prints the offset the group had in each, and the one it has now.

` + placeHelp,
		Example: `  varve group reset billing --to 2026-01-02T15:00:00Z --dry-run
  varve group reset billing --topic orders --partition 2 --shift -100`,
		Args:              exactArgs("a group"),
		ValidArgsFunction: groupNames,
		RunE: func(c *cobra.Command, args []string) error {
			o, err := f.check(c)
			if err != nil {
				return err
			}
			return a.withEngine(func(e *varve.Engine) error { return a.resetGroup(c.Context(), e, args[0], o, f) })
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.to, "to", "", "`place` to go to")
	numberVar(flags, &f.shift, "shift", 0, "go ahead by `N` records, or back by as many where it is negative")
	flags.StringArrayVar(&f.topics, "topic", nil, "only in topic `NAME`; may be repeated")
	flags.Var(&f.partitions, "partition", "only in partition `N` of the topic; may be repeated")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only print what would be done")
	flags.BoolVar(&f.json, "json", false, "one JSON object a partition, a line each")
	c.RegisterFlagCompletionFunc("topic", a.topicNames)
	return c
}

func (f *resetFlags) check(c *cobra.Command) (o varve.Reset, err error) {
	o = varve.Reset{Topics: f.topics, Shift: f.shift, DryRun: f.dryRun}
	switch {
	case c.Flags().Changed("to") == c.Flags().Changed("shift"):
		return o, usagef("reset needs either --to or --shift (see: %s --help)", c.CommandPath())
	case c.Flags().Changed("shift") && f.shift == 0:
		return o, usagef("--shift 0 moves nothing")
	case len(f.partitions) > 0 && len(f.topics) != 1:
		return o, usagef("--partition needs one --topic whose partitions these are")
	}
	if f.shift == 0 {
		to, err := parsePlace(f.to)
		if err != nil {
			return o, err
		}
		o.To = to.start()
	}
	for _, n := range f.partitions {
		if int(int32(n)) != n {
			return o, usagef("--partition %d: the number is too large or too small", n)
		}
		o.Topics = nil
		o.Partitions = append(o.Partitions, varve.TopicPartition{Topic: f.topics[0], Partition: int32(n)})
	}
	return o, nil
}

func (a *app) resetGroup(ctx context.Context, e *varve.Engine, group string, o varve.Reset, f resetFlags) error {
	for _, name := range f.topics { // for the better error
		t, err := a.topic(e, name)
		if err != nil {
			return err
		}
		for _, p := range o.Partitions {
			if _, err := onePartition(t, int(p.Partition)); err != nil {
				return err
			}
		}
	}
	moves, err := e.ResetGroup(ctx, group, o)
	if errors.Is(err, varve.ErrNoGroup) && len(f.topics) == 0 {
		return hintf(fmt.Errorf("group %q has no place in %s", group, a.dataDir()), "name the topics in which it is to have one with --topic")
	}
	if err != nil {
		return a.misreset(e, group, err)
	}
	tab := newTable("TOPIC", "PARTITION", "OLD", "NEW")
	for _, m := range moves {
		line := movedPlace{Topic: m.Topic, Partition: m.Partition, New: int64(m.New)}
		if old := int64(m.Old); old >= 0 {
			line.Old = &old
			tab.row(m.Topic, m.Partition, old, m.New)
		} else {
			tab.row(m.Topic, m.Partition, noFigure{}, m.New)
		}
		if f.json {
			if err := writeJSON(a.out, line); err != nil {
				return err
			}
		}
	}
	if !f.json {
		err = tab.writeTo(a.out)
	}
	if o.DryRun {
		fmt.Fprintln(a.err, "nothing was changed")
	}
	return err
}

// misreset says which partition a place is out of the range of.
func (a *app) misreset(e *varve.Engine, group string, err error) error {
	var which *varve.PartitionError
	var out *varve.OutOfRangeError
	switch {
	case errors.As(err, &which) && errors.As(err, &out):
		if t, terr := e.Topic(which.Topic); terr == nil {
			if p, perr := t.Partition(int(which.Partition)); perr == nil {
				return outOfRange(p, out)
			}
		}
	case errors.As(err, &which) && errors.Is(err, varve.ErrNoCommit):
		return hintf(fmt.Errorf("group %q has no place in partition %d of topic %q to move from", group, which.Partition, which.Topic),
			"give it one with --to")
	}
	return a.noGroup(err, group)
}
