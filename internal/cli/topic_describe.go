package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/varvelog/varve"
)

// topicDetail is the output of topic describe --json.
type topicDetail struct {
	topicLine
	PartitionList []partitionDetail `json:"partition_list"`
	Configs       []configDetail    `json:"configs"`
}

type partitionDetail struct {
	Partition int          `json:"partition"`
	Start     varve.Offset `json:"start"` // first offset that can be read
	End       varve.Offset `json:"end"`   // next offset to be written, as readers see it
	Bytes     int64        `json:"bytes"`
	Segments  int          `json:"segments"`
	Error     string       `json:"error,omitempty"` // why it takes no publishes
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
its value, whether that is the default, and what it means.`,
		Example:           `  varve topic describe orders`,
		Args:              exactArgs("a topic name"),
		ValidArgsFunction: a.topicNames,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withTopic(args[0], func(t *varve.Topic) error {
				d := detailOf(t)
				if asJSON {
					return writeJSON(a.out, d)
				}
				return a.describe(d)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return c
}

func detailOf(t *varve.Topic) topicDetail {
	stats := t.Stats()
	d := topicDetail{topicLine: topicLine{
		Name: t.Name(), ID: t.ID().String(), Partitions: t.Partitions(),
		Records: stats.Records, Bytes: stats.Bytes,
	}}
	for i, p := range stats.Partitions {
		detail := partitionDetail{Partition: i, Start: p.Start, End: p.End, Bytes: p.Bytes, Segments: len(p.Segments)}
		if p.Err != nil {
			detail.Error = oneLine(p.Err.Error())
		}
		d.PartitionList = append(d.PartitionList, detail)
	}
	for _, c := range t.Config() {
		d.Configs = append(d.Configs, configDetail{Key: c.Key, Value: c.Value, Default: c.Default, Doc: c.Doc})
	}
	return d
}

func (a *app) describe(d topicDetail) error {
	fmt.Fprintf(a.out, "topic %s, id %s: %s, %s, %s\n\n", d.Name, d.ID,
		count(int64(d.Partitions), "partition"), count(d.Records, "record"), bytesText(d.Bytes))
	parts := newTable("PARTITION", "START", "END", "BYTES", "SEGMENTS")
	for _, p := range d.PartitionList {
		parts.row(p.Partition, p.Start, p.End, p.Bytes, p.Segments)
	}
	if err := parts.writeTo(a.out); err != nil {
		return err
	}
	for _, p := range d.PartitionList {
		if p.Error != "" {
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
