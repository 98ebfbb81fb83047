package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/varvelog/varve"
)

// consumeFlags are the flags of consume as given.
type consumeFlags struct {
	from, to   string
	partitions numbersFlag
	count      int64
	follow     bool
	reverse    bool
	format     string
	separator  string
	group      string
}

func (a *app) consumeCommand() *cobra.Command {
	var f consumeFlags
	c := &cobra.Command{
		Use:   "consume NAME",
		Short: "Print the records of a topic",
		Long: `Print the records of a topic to standard output, up to the end as it stands at
the start, partition after partition; with --follow all partitions at once, and go
on as records come, until Ctrl-C or SIGTERM, which is its usual end: exit code 0,
unless there is a --count or --to that it did not reach. Reading takes nothing away:
the same records can be read again and again.

While one command has the data directory open no other can, and that goes for
consume --follow too: until it ends nobody else can publish there, so it prints what
is stored and then waits. A program that publishes and wants to follow does both in
its own process, with the library.

With --group it is read as that consumer group: from where the group has come to, or
--from where it has no place yet; and what was printed becomes the group's place. So
the next time there is only what is new.

` + placeHelp + `

Formats: text is the value and a newline, after the key when there is a
--key-separator, with null as nothing; json keeps everything apart and is what
produce --format json reads to the same record, but for a timestamp of 0; raw is
the bytes of the values and nothing else.

Damage met on the way is named on standard error and passed over, and so is a
partition that cannot be opened; the exit code is 1 then.`,
		Example: `  varve consume orders --from -10
  varve consume orders --from 2026-01-02T15:00:00Z --to 2026-01-02T16:00:00Z
  varve consume orders --from -100 --format json | jq .value
  varve consume orders --group billing`,
		Args:              exactArgs("a topic name"),
		ValidArgsFunction: a.topicNames,
		RunE: func(c *cobra.Command, args []string) error {
			if f.reverse && !c.Flags().Changed("from") {
				f.from = "latest"
			}
			o, err := f.check(c.Flags().Changed("count"))
			if err != nil {
				return err
			}
			return a.withTopic(args[0], func(e *varve.Engine, t *varve.Topic) error {
				if c.Flags().Changed("group") {
					return a.consumeAsGroup(c.Context(), e, t, o)
				}
				return a.consume(c.Context(), t, o)
			})
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.from, "from", "earliest", "`place` to start at")
	flags.StringVar(&f.to, "to", "", "`place` to stop in front of")
	flags.Var(&f.partitions, "partition", "read only partition `N`; may be repeated")
	numberVar(flags, &f.count, "count", 0, "stop after `N` records")
	flags.BoolVarP(&f.follow, "follow", "f", false, "wait for more at the end")
	flags.BoolVar(&f.reverse, "reverse", false, "newest first, beginning in front of --from (default: the end)")
	flags.StringVar(&f.format, "format", formatText, "text, json or raw")
	flags.StringVar(&f.separator, "key-separator", "", "text: print the key and this before the value (\\t is a tab)")
	flags.StringVarP(&f.group, "group", "g", "", "read on as consumer group `GROUP`, and commit what was printed")
	c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{formatText, formatJSON, formatRaw}, cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("from", cobra.FixedCompletions([]string{"earliest", "latest"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// consumeOptions are the flags after they were checked.
type consumeOptions struct {
	consumeFlags
	from place
	to   *place
}

func (f consumeFlags) check(counted bool) (o consumeOptions, err error) {
	o.consumeFlags = f
	if o.from, err = parsePlace(f.from); err != nil {
		return o, err
	}
	if f.to != "" {
		to, err := parsePlace(f.to)
		if err != nil {
			return o, err
		}
		o.to = &to
	}
	switch {
	case f.follow && f.reverse:
		return o, usagef("--follow and --reverse do not go together")
	case f.reverse && o.to != nil:
		return o, usagef("--reverse and --to do not go together (use --count)")
	case f.group != "" && (f.reverse || o.to != nil || len(f.partitions) > 0):
		return o, usagef("--group does not go with --reverse, --to and --partition")
	case counted && f.count < 1:
		return o, usagef("--count %d: want at least 1", f.count)
	case f.format != formatText && f.format != formatJSON && f.format != formatRaw:
		return o, usagef("--format %q: want text, json or raw (see: varve consume --help)", f.format)
	case f.separator != "" && f.format != formatText:
		return o, usagef("--key-separator goes with --format text only")
	}
	if !counted {
		o.count = math.MaxInt64
	}
	o.separator = unescapeTab(f.separator)
	return o, nil
}

// unescapeTab lets people write \t for a tab, which shells make hard.
func unescapeTab(s string) string { return strings.ReplaceAll(s, `\t`, "\t") }

// errEnough ends reading when --count records are out.
var errEnough = errors.New("enough records")

// consumer is one run of consume.
type consumer struct {
	consumeOptions
	app     *app
	printer *printer
	left    int64 // records still to print
	gaps    int   // met on the way
	closed  int   // partitions that could not be opened
	last    gap
}

func (a *app) consume(ctx context.Context, t *varve.Topic, o consumeOptions) error {
	parts, err := choosePartitions(t, o.partitions)
	if err != nil {
		return err
	}
	c := &consumer{consumeOptions: o, app: a, printer: newPrinter(a.out, o.format, o.separator), left: o.count}
	if parts, err = c.opened(t, parts); err != nil {
		return err
	}
	// All are opened before anything is printed: a place that one of them does
	// not have is an error without half an answer.
	var streams []*stream
	for _, p := range parts {
		s, err := c.open(ctx, p)
		if err != nil {
			return err
		}
		streams = append(streams, s)
	}
	switch {
	case o.follow:
		err = c.followAll(ctx, streams)
	case o.reverse:
		err = c.each(ctx, streams, c.backward)
	default:
		err = c.each(ctx, streams, c.replay)
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	if ferr := c.printer.flush(); err == nil {
		err = ferr
	}
	if missed := c.missed(); err == nil && missed != "" {
		err = hintf(fmt.Errorf("%s could not be read", missed), "varve log verify --topic %s tells more", t.Name())
	}
	return err
}

// opened tells of the partitions that could not be opened, and returns the others. Of
// one that was asked for alone that is the error.
func (c *consumer) opened(t *varve.Topic, parts []*varve.Partition) (open []*varve.Partition, err error) {
	stats := t.Stats()
	for _, p := range parts {
		s := &stats.Partitions[p.Index()]
		switch {
		case !notOpened(s):
			open = append(open, p)
		case len(parts) == 1:
			return nil, s.Err
		default:
			c.closed++
			fmt.Fprintf(c.app.err, "varve: partition %d: cannot be opened: %s\n", p.Index(), oneLine(s.Err.Error()))
		}
	}
	return open, nil
}

// missed says what of that which was asked for could not be read, or "".
func (c *consumer) missed() string {
	var what []string
	if c.gaps > 0 {
		what = append(what, count(int64(c.gaps), "range")+" of offsets")
	}
	if c.closed > 0 {
		what = append(what, count(int64(c.closed), "partition"))
	}
	return strings.Join(what, " and ")
}

// each reads the streams one after the other.
func (c *consumer) each(ctx context.Context, streams []*stream, read func(context.Context, *stream) error) error {
	for _, s := range streams {
		if err := read(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// emit prints one record.
func (c *consumer) emit(r *varve.Record) error {
	if err := c.printer.print(r); err != nil {
		return err
	}
	if c.left--; c.left == 0 {
		return errEnough
	}
	return nil
}

// choosePartitions returns the partitions asked for, or all.
func choosePartitions(t *varve.Topic, wanted []int) ([]*varve.Partition, error) {
	if len(wanted) == 0 {
		for i := range t.Partitions() {
			wanted = append(wanted, i)
		}
	}
	var parts []*varve.Partition
	seen := map[int]bool{}
	for _, i := range wanted {
		if seen[i] {
			continue
		}
		seen[i] = true
		p, err := onePartition(t, i)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func onePartition(t *varve.Topic, i int) (*varve.Partition, error) {
	p, err := t.Partition(i)
	if errors.Is(err, varve.ErrNoPartition) {
		err = noPartition(t, i)
	}
	return p, err
}

func noPartition(t *varve.Topic, i int) error {
	return hintf(fmt.Errorf("topic %q has no partition %d: it has 0 to %d", t.Name(), i, t.Partitions()-1),
		"see them with: varve topic describe %s", t.Name())
}
