package crash

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

var (
	flagPoints  = flag.Int64("crash.points", 3000, "crash points of the campaign, or of the program")
	flagSeed    = flag.Uint64("crash.seed", 1, "seed of the campaign, or of the program")
	flagProgram = flag.String("crash.program", "create a 1 retention.ms=-1; publish a/0 3; roll 1; publish a/0 1", "the program that TestProgram runs")
)

// bubbles runs functions in bubbles of a test.
func bubbles(t *testing.T) func(func()) {
	return func(f func()) { synctest.Test(t, func(*testing.T) { f() }) }
}

// Whatever an engine is asked to do, and wherever it is stopped: what was promised
// holds. The command is in docs/testing.md.
func TestCampaign(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	c := &Campaign{Seed: *flagSeed, Points: *flagPoints, Workers: runtime.GOMAXPROCS(0), Bubble: bubbles(t), Out: os.Stdout}
	if raceDetector {
		c.Points = min(c.Points, 200)
	} else if testing.Short() {
		c.Points = min(c.Points, 1000)
	}
	start := time.Now()
	f := c.Run()
	holes := 0
	if f == nil && c.Points >= 100_000 {
		holes = c.tally.print(os.Stdout)
	}
	t.Logf("seed %d: %s", c.Seed, c.figures(time.Since(start)))
	if f != nil {
		t.Fatalf("a promise is broken:\n%s", f)
	}
	if holes > 0 {
		t.Errorf("%d kinds of calls had no crash", holes)
	}
}

// One program, again and again: what goroutines do beside each other is not the same
// each time.
func TestProgram(t *testing.T) {
	p, err := Parse(*flagProgram)
	if err != nil {
		t.Fatal(err)
	}
	c := &Campaign{Seed: *flagSeed, Points: *flagPoints, Bubble: bubbles(t), Out: os.Stdout}
	if f := c.Repeat(p); f != nil {
		t.Fatalf("a promise is broken:\n%s", f)
	}
	t.Logf("%s", c.figures(time.Second))
}
