package cli

import (
	"github.com/spf13/cobra"

	"github.com/varvelog/varve"
)

// topicLine is a topic in the output of topic list --json.
type topicLine struct {
	Name       string `json:"name"`
	ID         string `json:"id"`
	Partitions int    `json:"partitions"`
	Records    int64  `json:"records"`
	Bytes      int64  `json:"bytes"`
}

func (a *app) topicListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the topics",
		Long:    "List the topics with the number of records they hold and the bytes these take on disk.",
		Example: `  varve topic list --json | jq -r .name`,
		Args:    exactArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withEngine(func(e *varve.Engine) error {
				if asJSON {
					return a.listJSON(e)
				}
				return a.listTable(e)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a topic, a line each")
	return c
}

func (a *app) listJSON(e *varve.Engine) error {
	for _, t := range e.Topics() {
		sum := t.Stats()
		err := writeJSON(a.out, topicLine{
			Name: t.Name(), ID: t.ID().String(), Partitions: t.Partitions(),
			Records: sum.Records, Bytes: sum.Bytes,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *app) listTable(e *varve.Engine) error {
	tab := newTable("TOPIC", "PARTITIONS", "RECORDS", "BYTES")
	for _, t := range e.Topics() {
		sum := t.Stats()
		tab.row(t.Name(), t.Partitions(), sum.Records, sum.Bytes)
	}
	return tab.writeTo(a.out)
}
