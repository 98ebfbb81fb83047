package cli

import (
	"context"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Streams are what a command reads and writes. Where one is an *os.File it may
// be a terminal, which turns on questions (In) and progress bars (Err).
type Streams struct {
	In  io.Reader
	Out io.Writer // data only
	Err io.Writer // everything else
}

// Main runs one command line, without the program's name, and returns the exit
// code. It may be called once in the life of a process: it takes over signals.
func Main(args []string, std Streams) int {
	// A broken pipe must come back as an error, or "varve consume | head" would
	// die by the signal with the engine open.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := untilSignal(context.Background())
	defer stop()

	a := &app{in: std.In, out: &output{w: std.Out}, err: std.Err}
	root := a.command()
	root.SetArgs(args)
	return a.exit(root.ExecuteContext(ctx))
}

// app is what all commands share: streams and global flags.
type app struct {
	in  io.Reader
	out *output
	err io.Writer

	dir     string // --dir
	verbose bool   // --verbose
}

// command builds the tree of commands.
func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "varve",
		Short: "A durable, partitioned, append-only log",
		Long: `varve keeps records in topics, in order, for as long as you say, and replays
them from any offset or time. All of it lies in one data directory: --dir, else
$VARVE_DIR, else ./varve-data.`,
		Example: `  varve topic create orders --partitions 4
  echo 'hello' | varve produce orders
  varve consume orders --from earliest`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetUsageTemplate(usageTemplate)
	root.SetHelpFunc(a.printHelp)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%s (see: %s --help)", flagText(err), c.CommandPath())
	})
	root.CompletionOptions.DisableDefaultCmd = true // there is one in completion.go

	flags := root.PersistentFlags()
	flags.StringVar(&a.dir, "dir", "", "data `directory` (default $VARVE_DIR, else "+defaultDir+")")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "also show what the engine does, on standard error")

	root.AddCommand(
		a.topicCommand(),
		a.produceCommand(),
		a.consumeCommand(),
		a.groupCommand(),
		a.logCommand(),
		a.walCommand(),
		a.benchCommand(),
		a.versionCommand(),
		a.completionCommand(),
	)
	root.SetHelpCommand(helpCommand(root))
	asGroup(root)
	return root
}
