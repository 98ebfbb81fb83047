package cli

import "github.com/spf13/cobra"

func (a *app) walCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "wal",
		Short: "Look into the journal: what a start after a crash would put back",
		Long: `Look into the journal of a data directory, which has the latest appends of all
topics until their own files have them. The command opens no engine and takes no
lock, so it also works on a copy or a directory that is in use; it changes nothing.`,
		Example: `  varve wal dump
  varve wal dump --frames`,
	}
	c.AddCommand(a.walDumpCommand())
	return asGroup(c)
}
