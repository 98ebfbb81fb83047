package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/varvelog/varve"
)

// groupDetail is the output of group describe --json.
type groupDetail struct {
	groupLine
	PartitionList []groupPlace `json:"partition_list"`
}

// groupPlace is a group's place in a partition. What is not known is null.
type groupPlace struct {
	Topic       string     `json:"topic"`
	Partition   int32      `json:"partition"`
	Committed   *int64     `json:"committed"`
	CommittedAt *time.Time `json:"committed_at"`
	Metadata    string     `json:"metadata,omitempty"`
	Start       int64      `json:"start"`
	End         int64      `json:"end"`
	Lag         *int64     `json:"lag"`
	Lost        int64      `json:"lost,omitempty"`  // taken by retention before the group read it
	Above       int64      `json:"above,omitempty"` // what was committed, before a crash took the end of the log
	Error       string     `json:"error,omitempty"` // why the partition cannot be opened
}

func groupPlaceOf(p *varve.GroupPartition) groupPlace {
	g := groupPlace{
		Topic: p.Topic, Partition: p.Partition, Metadata: p.Metadata,
		Start: int64(p.Start), End: int64(p.End), Lost: p.Lost, Above: max(int64(p.Above), 0),
	}
	if p.Committed >= 0 {
		offset, at, lag := int64(p.Committed), p.CommittedAt.UTC(), p.Lag
		g.Committed, g.CommittedAt, g.Lag = &offset, &at, &lag
	}
	if p.Err != nil {
		g.Error = oneLine(p.Err.Error())
	}
	return g
}

func (a *app) groupDescribeCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "describe GROUP",
		Short: "Show where a consumer group stands",
		Long: `Show where a consumer group stands in each partition: the offset it has committed, when,
and how many records it has still to read, its lag. Members are programs that have
the data directory open, so while this command has it there are none.`,
		Example:           `  varve group describe billing --json | jq .lag`,
		Args:              exactArgs("a group"),
		ValidArgsFunction: groupNames,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withEngine(func(e *varve.Engine) error {
				d, err := e.DescribeGroup(args[0])
				if err != nil {
					return a.noGroup(err, args[0])
				}
				return a.describeGroup(&d, asJSON)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return c
}

func (a *app) describeGroup(d *varve.GroupDescription, asJSON bool) error {
	detail := groupDetail{groupLine: groupLineOf(&d.GroupSummary)}
	for i := range d.PartitionList {
		detail.PartitionList = append(detail.PartitionList, groupPlaceOf(&d.PartitionList[i]))
	}
	if asJSON {
		return writeJSON(a.out, detail)
	}
	fmt.Fprintf(a.out, "group %s: %s in %s, lag %d\n\n", oneLine(d.ID), d.Status, count(int64(d.Partitions), "partition"), d.Lag)
	tab := newTable("TOPIC", "PARTITION", "COMMITTED", "LAG", "START", "END", "AT")
	for i := range d.PartitionList {
		p := &d.PartitionList[i]
		if p.Committed < 0 {
			tab.row(p.Topic, p.Partition, noFigure{}, noFigure{}, p.Start, p.End, "")
			continue
		}
		tab.row(p.Topic, p.Partition, p.Committed, p.Lag, p.Start, p.End, timeText(p.CommittedAt.UnixMilli()))
	}
	if err := tab.writeTo(a.out); err != nil {
		return err
	}
	for _, p := range detail.PartitionList {
		if p.Lost > 0 {
			fmt.Fprintf(a.out, "%s/%d: retention took %s that the group had not read\n", p.Topic, p.Partition, count(p.Lost, "offset"))
		}
		if p.Above > 0 {
			fmt.Fprintf(a.out, "%s/%d: it had committed %d, and a crash took what was above %d\n", p.Topic, p.Partition, p.Above, *p.Committed)
		}
		if p.Error != "" {
			fmt.Fprintf(a.out, "%s/%d: cannot be opened: %s\n", p.Topic, p.Partition, p.Error)
		}
	}
	return nil
}
