package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/varvelog/varve"
)

// topicLine is a topic in the output of topic list --json. One that cannot be opened
// has its name and the error alone.
type topicLine struct {
	Name string `json:"name"`
	*topicFigures
	Error string `json:"error,omitempty"` // why it, or the first such partition, cannot be opened
}

// topicFigures are what there is of a topic, in the partitions that could be opened.
type topicFigures struct {
	ID         string `json:"id"`
	Partitions int    `json:"partitions"`
	Records    int64  `json:"records"`
	Bytes      int64  `json:"bytes"`
}

func (a *app) topicListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the topics",
		Long: `List the topics with the number of records they hold and the bytes these take on
disk. What cannot be opened, a topic or one of its partitions, is listed with the
error; the exit code is 1 then.`,
		Example: `  varve topic list --json | jq -r .name`,
		Args:    exactArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withEngine(func(e *varve.Engine) error { return a.list(e, asJSON) })
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a topic, a line each")
	return c
}

func (a *app) list(e *varve.Engine, asJSON bool) error {
	tab := newTable("TOPIC", "PARTITIONS", "RECORDS", "BYTES")
	var closed []string // what could not be opened
	for _, t := range e.Topics() {
		line, shut := lineOf(t)
		closed = append(closed, shut...)
		if asJSON {
			if err := writeJSON(a.out, line); err != nil {
				return err
			}
		}
		tab.row(t.Name(), line.Partitions, line.Records, line.Bytes)
	}
	for _, name := range listNames(a.topicsDir()) {
		// A folder that is no topic's has no error of its own.
		_, err := e.Topic(name)
		if err == nil || errors.Is(err, varve.ErrNoTopic) {
			continue
		}
		closed = append(closed, oneLine(err.Error()))
		if asJSON {
			if err := writeJSON(a.out, topicLine{Name: name, Error: oneLine(err.Error())}); err != nil {
				return err
			}
		}
		tab.row(name, noFigure{}, noFigure{}, noFigure{})
	}
	if !asJSON {
		if err := tab.writeTo(a.out); err != nil {
			return err
		}
		for _, why := range closed {
			fmt.Fprintln(a.out, "cannot be opened: "+why)
		}
	}
	if len(closed) == 0 {
		return nil
	}
	return hintf(fmt.Errorf("cannot open %s", closedText(len(closed))), "varve log verify --all tells more")
}

func closedText(n int) string {
	if n == 1 {
		return "1 topic or partition"
	}
	return fmt.Sprintf("%d topics or partitions", n)
}

// lineOf takes stock of a topic. closed are the errors of partitions that could not
// be opened.
func lineOf(t *varve.Topic) (line topicLine, closed []string) {
	stats := t.Stats()
	line = topicLine{Name: t.Name(), topicFigures: &topicFigures{
		ID: t.ID().String(), Partitions: t.Partitions(), Records: stats.Records, Bytes: stats.Bytes,
	}}
	for i := range stats.Partitions {
		if p := &stats.Partitions[i]; notOpened(p) {
			closed = append(closed, oneLine(p.Err.Error()))
		}
	}
	if len(closed) > 0 {
		line.Error = closed[0]
	}
	return line, closed
}

// notOpened says that a partition could not be opened: one that was has at least the
// segment that takes appends. One that only takes no publishes has an error too.
func notOpened(p *varve.PartitionStats) bool { return p.Err != nil && len(p.Segments) == 0 }
