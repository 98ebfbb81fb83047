package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/varvelog/varve"
)

// topicDetail is the output of topic describe --json.
type topicDetail struct {
	Name string `json:"name"`
	topicFigures
	PartitionList []partitionDetail `json:"partition_list"`
	Configs       []configDetail    `json:"configs"`
}

type partitionDetail struct {
	Partition int `json:"partition"`
	*partitionFigures
	Error string `json:"error,omitempty"` // why it cannot be opened, or takes no publishes
}

// partitionFigures are what there is of a partition that could be opened.
type partitionFigures struct {
	Start    varve.Offset `json:"start"` // first offset that can be read
	End      varve.Offset `json:"end"`   // next offset to be written, as readers see it
	Bytes    int64        `json:"bytes"`
	Segments int          `json:"segments"` // that hold records
}

type configDetail struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	Default bool   `json:"default"`
	Doc     string `json:"doc"`
}

func (a *app) topicDescribeCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "describe NAME",
		Short: "Show a topic's partitions and configs",
		Long: `Show the partitions of a topic, each with its first offset, its end (the offset
the next record gets), its bytes on disk and its segments, and then every config:
its value, whether that is the default, and what it means. A partition that cannot
be opened is shown with the error; the exit code is 1 then.`,
		Example:           `  varve topic describe orders`,
		Args:              exactArgs("a topic name"),
		ValidArgsFunction: a.topicNames,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withTopic(args[0], func(_ *varve.Engine, t *varve.Topic) error {
				d, closed := detailOf(t)
				var err error
				if asJSON {
					err = writeJSON(a.out, d)
				} else {
					err = a.describe(d)
				}
				if err == nil && closed > 0 {
					err = hintf(fmt.Errorf("cannot open %s of topic %q", count(int64(closed), "partition"), t.Name()),
						"varve log verify --topic %s tells more", t.Name())
				}
				return err
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return c
}

// detailOf takes stock of a topic. closed is how many partitions could not be opened.
func detailOf(t *varve.Topic) (d topicDetail, closed int) {
	stats := t.Stats()
	d = topicDetail{Name: t.Name(), topicFigures: topicFigures{
		ID: t.ID().String(), Partitions: t.Partitions(), Records: stats.Records, Bytes: stats.Bytes,
	}}
	for i := range stats.Partitions {
		p := &stats.Partitions[i]
		detail := partitionDetail{Partition: i}
		if notOpened(p) {
			closed++
		} else {
			detail.partitionFigures = figuresOf(p)
		}
		if p.Err != nil {
			detail.Error = oneLine(p.Err.Error())
		}
		d.PartitionList = append(d.PartitionList, detail)
	}
	for _, c := range t.Config() {
		d.Configs = append(d.Configs, configDetail{Key: c.Key, Value: c.Value, Default: c.Default, Doc: c.Doc})
	}
	return d, closed
}

func figuresOf(p *varve.PartitionStats) *partitionFigures {
	f := &partitionFigures{Start: p.Start, End: p.End, Bytes: p.Bytes}
	for _, s := range p.Segments {
		if s.Bytes > 0 { // else it is the one that takes appends, and has no file yet
			f.Segments++
		}
	}
	return f
}

func (a *app) describe(d topicDetail) error {
	fmt.Fprintf(a.out, "topic %s, id %s: %s, %s, %s\n\n", d.Name, d.ID,
		count(int64(d.Partitions), "partition"), count(d.Records, "record"), bytesText(d.Bytes))
	parts := newTable("PARTITION", "START", "END", "BYTES", "SEGMENTS")
	for _, p := range d.PartitionList {
		if p.partitionFigures == nil {
			parts.row(p.Partition, noFigure{}, noFigure{}, noFigure{}, noFigure{})
			continue
		}
		parts.row(p.Partition, p.Start, p.End, p.Bytes, p.Segments)
	}
	if err := parts.writeTo(a.out); err != nil {
		return err
	}
	for _, p := range d.PartitionList {
		switch {
		case p.Error == "":
		case p.partitionFigures == nil:
			fmt.Fprintf(a.out, "partition %d cannot be opened: %s\n", p.Partition, p.Error)
		default:
			fmt.Fprintf(a.out, "partition %d takes no publishes: %s\n", p.Partition, p.Error)
		}
	}
	fmt.Fprintln(a.out)
	configs := newTable("CONFIG", "VALUE", "", "MEANING")
	for _, c := range d.Configs {
		origin := "set"
		if c.Default {
			origin = "default"
		}
		configs.row(c.Key, c.Value, origin, c.Doc)
	}
	return configs.writeTo(a.out)
}
