// Package cli is the varve command: it turns arguments into calls of the engine
// and what comes back into lines of text or JSON.
//
// Meet [Main] first, which runs one command line, then the files named after the
// subcommands. Records travel from inputs (lines, NDJSON, whole files) through a
// delivery, which counts acknowledgements, into a topic; and from a topic through
// streams and a printer to standard output. log dump and log verify look at what
// findPartitions found and are visitors of one logWalk, which reads log files with a
// logScanner. What the journal of a killed engine has is found out by a replay, which
// lets log verify see the files as the next start will.
//
// # Manners
//
// Data goes to standard output and everything else to standard error. An error
// is one line: what, where, and in parentheses what to do about it. The exit
// code is
//
//	0    done; also a --follow without --count and --to that a signal ended, and
//	     output cut short by "| head"
//	1    failed
//	2    the command line makes no sense: unknown flags and words, numbers that are
//	     none, and what the engine refuses of names, configs and partition counts
//	130  interrupted (SIGINT) before it was done
//	143  told to stop (SIGTERM) before it was done
//
// The first signal stops a command cleanly: what was published is waited for and
// the engine is closed. A second one ends the process at once.
//
// # Concurrency
//
// A command runs on the goroutine of Main. Beside it run the done functions of
// asynchronous publishes, which share a delivery; one goroutine for each partition
// that is followed, which gives what it reads through a channel; and a read of the
// input, which is abandoned when a signal comes. Main waits for all of them but
// that read.
//
// # What it does not do
//
// It decides nothing about storage: log dump, log verify and wal dump read files as
// they lie, open no engine and take no lock; all other commands go through the engine
// of package varve.
package cli
