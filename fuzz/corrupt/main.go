// Command corrupt damages a small data directory, one thing at a time, and holds what
// the engine makes of it against what was published.
//
//	go run ./fuzz/corrupt [-n N] [-seed S] [-kind KIND] [-for TIME] [MUTATION…]
//
// The directory is left behind in four ways, see state. Each bit of each file is flipped,
// each file is cut to each length, taken away, replaced by an older copy, changed for
// another of its kind, and more, see mutation. Then the engine is opened, read in every
// way there is, written to, stopped or cut off, and opened and read again. What must hold:
//
//   - no panic, and nothing that hangs;
//   - what is handed out is, byte for byte, what was published at that offset;
//   - what is not handed out is in a gap that readers are told of, or refused with an
//     error that names the file, or, at the end of a log, named in the log; cost says where
//     nothing is left that could tell;
//   - nothing is lost but what the mutation hit;
//   - no offset is given out twice;
//   - the second engine hands out what the first did.
//
// It prints a table, and exits with 1 when a promise is broken, each time with the command
// that does that mutation alone. Without -n everything is done: nearly six hundred
// thousand directories, which is most of an hour on two processors. The bytes are the same in every
// run, so a mutation means the same. A mutation is written STATE OPERATION FILE
// [NUMBER|NAME]; quote it.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"
)

func main() {
	if os.Getenv(atWorkEnv) == "" {
		os.Exit(supervise())
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "corrupt:", err)
		os.Exit(1)
	}
}

func run() error {
	n := flag.Int("n", 0, "so many `mutations`, of each sort as many as of the others; 0: all there are")
	seed := flag.Uint64("seed", 1, "which ones")
	only := flag.String("kind", "", "only files of one `kind`, as the table has them")
	limit := flag.Duration("for", 0, "`time` after which no more are begun; 0: no limit")
	workers := flag.Int("workers", runtime.GOMAXPROCS(0), "how many at a time")
	flag.Parse()
	debug.SetGCPercent(400)       // the disks are small, and many,
	debug.SetMemoryLimit(1 << 30) // and what a pool has outlives its engine by two collections
	start := time.Now()
	w, err := agreedWorld()
	if err != nil {
		return err
	}
	if *only != "" {
		w.strata = slices.DeleteFunc(w.strata, func(s stratum) bool { return string(s.kind) != *only })
	}
	list := sample(w.strata, *n, *seed)
	if flag.NArg() > 0 {
		list = nil
		for _, text := range flag.Args() {
			m, err := parseMutation(text)
			if err != nil {
				return err
			}
			list = append(list, m)
		}
	}
	fmt.Printf("seed %d: %d of %d mutations of directory %s\n", *seed, len(list), w.total(), w.digest())
	at, err := openAtWork(*workers)
	if err != nil {
		return err
	}
	c := &campaign{world: w, at: at, progress: flag.NArg() == 0}
	if *limit > 0 {
		c.until = start.Add(*limit)
	}
	c.run(list, *workers)
	c.print(os.Stdout)
	took := time.Since(start)
	fmt.Printf("%d mutations in %s, %.0f a second\n", c.done(), took.Round(time.Second), float64(c.done())/took.Seconds())
	if c.failed > 0 {
		return fmt.Errorf("%d mutations broke a promise", c.failed)
	}
	return nil
}
