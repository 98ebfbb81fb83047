// Command mutants breaks the engine on purpose, one protection at a time, and runs
// the crash tests on what is left: each break has to be caught.
//
//	go run ./fuzz/mutants [NAME…]
//
// It works in a copy of the module, prints a table, and exits with 1 when a break
// survives. Each takes the time of building and running one selection of tests, at
// most a minute.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// mutant is one break: old, which is in the file once, becomes new.
type mutant struct {
	name string // what is broken
	file string
	old  string
	new  string
	pkg  string // whose tests catch it
	run  string // which of them
}

// apply breaks the file in the module at root, and returns what puts it right again.
func (m *mutant) apply(root string) (undo func() error, err error) {
	name := filepath.Join(root, filepath.FromSlash(m.file))
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return nil, fmt.Errorf("%s: the text to break is there %d times", m.file, n)
	}
	broken := strings.Replace(string(text), m.old, m.new, 1)
	return func() error { return os.WriteFile(name, text, 0o600) }, os.WriteFile(name, []byte(broken), 0o600)
}

// limit is what one run of tests may take; a test that hangs has noticed something.
const limit = time.Minute

// caught runs the tests of a mutant. The answer says by what they noticed it; it is
// empty when they passed.
func (m *mutant) caught(root string) (by string, err error) {
	build := exec.Command("go", "vet", m.pkg)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("does not build: %s", out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	defer cancel()
	args := []string{"test", "-failfast", "-timeout", limit.String(), "-run", m.run}
	if m.pkg != campaign { // a program of the campaign is one test, and has to be run as often as it asks for
		args = append(args, "-short")
	}
	test := exec.CommandContext(ctx, "go", append(args, m.pkg)...)
	test.Dir = root
	out, err := test.CombinedOutput()
	if err == nil {
		return "", nil
	}
	for _, line := range strings.Split(string(out), "\n") {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			return strings.Fields(name)[0], nil
		}
		if strings.HasPrefix(line, "panic: ") {
			return line, nil
		}
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return "", err
	}
	return "", fmt.Errorf("tests failed and named none: %s", out)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(mutants, func(m mutant) bool { return m.name == name }) {
			return fmt.Errorf("there is no break %q in the list", name)
		}
	}
	root, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	if err := copyModule(root); err != nil {
		return err
	}
	survived := 0
	for _, m := range mutants {
		if len(names) > 0 && !slices.Contains(names, m.name) {
			continue
		}
		undo, err := m.apply(root)
		if err != nil {
			return err
		}
		start := time.Now()
		by, err := m.caught(root)
		if err := errors.Join(err, undo()); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if by == "" {
			survived++
			by = "SURVIVED"
		}
		fmt.Printf("%-55s %5.1fs  %s\n", m.name, time.Since(start).Seconds(), by)
	}
	if survived > 0 {
		return fmt.Errorf("%d survived", survived)
	}
	return nil
}

// copyModule copies the module in the working directory, without what is hidden.
func copyModule(to string) error {
	if _, err := os.Stat("go.mod"); err != nil {
		return errors.New("run it in the directory of the module")
	}
	return filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o600)
	})
}
