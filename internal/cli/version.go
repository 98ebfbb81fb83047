package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/varvelog/varve"
)

// build is what a binary knows of its making.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the source, when built from a checkout
	Modified bool   `json:"modified,omitempty"` // the checkout had changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Format   int    `json:"format"` // version of the data directory it writes
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of varve and of the directories it writes",
		Long:    "Print the version of varve, how it was built, and the version of the data\ndirectories it writes.",
		Example: `  varve version --json`,
		Args:    exactArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			b := thisBuild()
			if asJSON {
				return writeJSON(a.out, b)
			}
			_, err := fmt.Fprintf(a.out, "varve %s %s %s, data directory format %d\n", b.describe(), b.Go, b.Platform, b.Format)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return c
}

func thisBuild() build {
	b := build{
		Version:  "(devel)",
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Format:   varve.FormatVersion,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b build) describe() string {
	s := b.Version
	if b.Revision != "" {
		s += " (" + b.Revision[:min(12, len(b.Revision))]
		if b.Modified {
			s += ", modified"
		}
		s += ")"
	}
	return s
}
