package cli

import (
	"github.com/spf13/cobra"

	"github.com/varvelog/varve"
)

// groupLine is a group in the output of group list --json, and the head of it in that of
// group describe --json.
type groupLine struct {
	Group      string `json:"group"`
	Status     string `json:"status"`
	Members    int    `json:"members"`
	Partitions int    `json:"partitions"`
	Lag        int64  `json:"lag"`
}

func groupLineOf(s *varve.GroupSummary) groupLine {
	return groupLine{s.ID, string(s.Status), s.Members, s.Partitions, s.Lag}
}

func (a *app) groupListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the consumer groups",
		Long: `List the consumer groups with the number of partitions in which they have a place,
and how many records they have still to read in these.`,
		Example: `  varve group list --json | jq 'select(.lag > 1000)'`,
		Args:    exactArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withEngine(func(e *varve.Engine) error { return a.listGroups(e, asJSON) })
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a group, a line each")
	return c
}

func (a *app) listGroups(e *varve.Engine, asJSON bool) error {
	groups, err := e.Groups()
	if err != nil {
		return err
	}
	tab := newTable("GROUP", "STATUS", "MEMBERS", "PARTITIONS", "LAG")
	for i := range groups {
		g := groupLineOf(&groups[i])
		if asJSON {
			if err := writeJSON(a.out, g); err != nil {
				return err
			}
		}
		tab.row(oneLine(g.Group), g.Status, g.Members, g.Partitions, g.Lag)
	}
	if asJSON {
		return nil
	}
	return tab.writeTo(a.out)
}
