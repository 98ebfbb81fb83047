// Command varve creates topics, publishes records to them, replays and follows
// them, and looks into the files they are kept in.
//
// Run varve help for the list of commands; each one's help ends in an example.
package main

import (
	"os"

	"github.com/varvelog/varve/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
