// Command bench measures varve: against the least that a log can do, against other
// embedded logs, and against its targets. `make bench` runs all of it and writes
// docs/benchmarks.md; `make bench-quick` prints a line a row and fails where one is short.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/varvelog/varve/bench/peers"
	"github.com/varvelog/varve/bench/report"
	"github.com/varvelog/varve/bench/rows"
)

func main() {
	if child, err := rows.Child(os.Args[1:]); child {
		exit(err)
	}
	exit(run())
}

func exit(err error) {
	switch {
	case err == nil:
		os.Exit(0)
	case errors.Is(err, errShort):
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(2)
}

// errShort says that a target was missed; the lines have told which.
var errShort = errors.New("short")

// settings are the flags.
type settings struct {
	quick    bool
	growth   bool
	only     *regexp.Regexp
	scale    float64
	rounds   int
	dir      string
	page     string
	json     string
	profiles string
}

func parse() (s settings, err error) {
	var only string
	flag.BoolVar(&s.quick, "quick", false, "only the rows that a change is most likely to spoil, with fewer contenders and a tenth of the sizes")
	flag.BoolVar(&s.growth, "growth", false, "also draw how cost grows")
	flag.StringVar(&only, "rows", "", "only rows whose name matches `expression`")
	flag.Float64Var(&s.scale, "scale", 1, "`factor` on sizes and times")
	flag.IntVar(&s.rounds, "rounds", 5, "rounds of every comparison")
	flag.StringVar(&s.dir, "dir", ".", "`directory` to write below, on the disk to measure")
	flag.StringVar(&s.page, "page", "", "write tables into this `page`, and pictures beside it")
	flag.StringVar(&s.json, "json", "", "compare with this `file`, then write it")
	flag.StringVar(&s.profiles, "profiles", "", "write processor and blocking profiles of every run into this `directory`")
	flag.Parse()
	if flag.NArg() > 0 {
		return s, fmt.Errorf("there are no arguments, only flags: %q", flag.Arg(0))
	}
	if s.scale <= 0 || s.rounds < 1 {
		return s, errors.New("scale and rounds are above zero")
	}
	if s.quick {
		s.scale /= 10
	}
	s.only, err = regexp.Compile(only)
	return s, err
}

func run() error {
	s, err := parse()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(s.dir, "varve-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	r := &report.Report{
		Date: time.Now().UTC().Format(time.DateOnly), Command: command(s), Scale: s.scale,
		Machine: report.ThisMachine(dir), Versions: versions(),
	}
	env := &rows.Env{Dir: dir, Rounds: s.rounds, Scale: s.scale, Quick: s.quick, Log: os.Stderr}
	if err := s.measure(env, r); err != nil {
		return err
	}
	if err := s.keep(r); err != nil {
		return err
	}
	if s.quick && len(r.Short()) > 0 { // the page keeps what is short, marked
		return errShort
	}
	return nil
}

// measure runs the rows and prints their verdicts as they come.
func (s *settings) measure(env *rows.Env, r *report.Report) error {
	for _, row := range rows.All {
		if !s.only.MatchString(row.Name) || s.quick && !row.Quick {
			continue
		}
		p := &profiler{dir: s.profiles, row: row.Name}
		begin := time.Now()
		env.Watch = p.watch
		t, err := row.Run(env)
		if err = errors.Join(err, p.err); err != nil {
			return fmt.Errorf("%s: %w", row.Name, err)
		}
		r.Tables = append(r.Tables, t)
		for _, v := range t.Verdicts {
			fmt.Println(v.Line())
		}
		fmt.Fprintf(os.Stderr, "%s took %.1f s\n", row.Name, time.Since(begin).Seconds())
	}
	if !s.growth {
		return nil
	}
	env.Watch = nil
	charts, err := rows.Growth(env)
	r.Charts = charts
	return err
}

// keep compares with the run before and writes what was asked for.
func (s *settings) keep(r *report.Report) error {
	if s.json != "" {
		old, err := report.Read(s.json)
		if err != nil {
			return err
		}
		for _, c := range report.Compare(old, r) {
			fmt.Println(c.Line())
		}
		if err := r.Write(s.json); err != nil {
			return err
		}
	}
	if s.page != "" {
		return r.WritePage(s.page)
	}
	return nil
}

// command is how to do the run again.
func command(s settings) string {
	if s.page != "" && s.growth && s.scale == 1 && s.only.String() == "" {
		return "make bench"
	}
	return strings.Join(append([]string{"go run ."}, os.Args[1:]...), " ")
}

func versions() map[string]string {
	var modules []string
	for _, p := range peers.All {
		modules = append(modules, p.Module)
	}
	return report.Versions(modules...)
}
