package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/twin"
	"github.com/varvelog/varve/internal/vfs"
)

func TestMain(m *testing.M) {
	// With -race every process sleeps a second before it exits, unless told not to.
	os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0")
	testscript.Main(m, map[string]func(){
		"varve": func() {
			os.Exit(Main(os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
		},
	})
}

// The stories in testdata/script read like the documentation of a command. Beside
// testscript's own commands they use
//
//	exits CODE varve ARG…     the command must end with this exit code
//	flip FILE POSITION        flip a bit of a file
//	cut FILE BYTES            cut bytes off the end of a file
//	lines FILE COUNT SIZE     write a file of lines of SIZE bytes
//	firstline FIFO            wait for the first line that comes through a pipe
//	newer DIR                 make a data directory one of a newer version
//	bytes FILE TEXT           write a file with Go's escapes, such as \r and \xff
//	crashed DIR TOPIC LINE…   publish lines, and leave the data directory as a kill does
//	zeros FILE POSITION BYTES write zeros over a part of a file
//	alias DIR TOPIC           let the document in a topic's directory name another topic
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": scriptExits,
			"flip":  scriptFlip,
			"cut":   scriptCut,
			"lines": scriptLines,
			"bytes": scriptBytes,
			"zeros": scriptZeros,

			"firstline": scriptFirstLine,
			"newer":     scriptNewer,
			"alias":     scriptAlias,
			"crashed":   scriptCrashed,
		},
		Setup: func(e *testscript.Env) error {
			e.Setenv("VARVE_DIR", "")
			e.Setenv("GORACE", os.Getenv("GORACE"))
			return nil
		},
		RequireUniqueNames: true,
	})
}

func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARG…")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code is %d, want %s", got, args[0])
	}
	stderr := ts.ReadFile("stderr")
	onTheWay := strings.Count(stderr, "\nvarve: partition ") // what was passed over
	if got != 0 && strings.Count(stderr, "\nvarve: ")-onTheWay > 1 {
		ts.Fatalf("more than one error line:\n%s", stderr)
	}
}

func scriptFlip(ts *testscript.TestScript, _ bool, args []string) {
	data := []byte(ts.ReadFile(args[0]))
	data[scriptInt(ts, args[1])] ^= 1
	scriptWrite(ts, args[0], data)
}

func scriptCut(ts *testscript.TestScript, _ bool, args []string) {
	data := []byte(ts.ReadFile(args[0]))
	scriptWrite(ts, args[0], data[:len(data)-scriptInt(ts, args[1])])
}

func scriptLines(ts *testscript.TestScript, _ bool, args []string) {
	line := bytes.Repeat([]byte{'x'}, scriptInt(ts, args[2]))
	scriptWrite(ts, args[0], bytes.Repeat(append(line, '\n'), scriptInt(ts, args[1])))
}

func scriptBytes(ts *testscript.TestScript, _ bool, args []string) {
	s, err := strconv.Unquote(`"` + args[1] + `"`)
	ts.Check(err)
	scriptWrite(ts, args[0], []byte(s))
}

func scriptFirstLine(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Defer(func() { f.Close() })
	_, err = bufio.NewReader(f).ReadString('\n')
	ts.Check(err)
}

func scriptNewer(ts *testscript.TestScript, _ bool, args []string) {
	body := fmt.Appendf(nil, `{"version":%d}`, varve.FormatVersion+1)
	ts.Check(twin.Save(vfs.Dir(ts.MkAbs(args[0])), "FORMAT", 99, body))
}

func scriptAlias(ts *testscript.TestScript, _ bool, args []string) {
	dir := vfs.Dir(ts.MkAbs(args[0]))
	doc, err := twin.Load(dir, topicName, twin.Identity{})
	ts.Check(err)
	var body map[string]any
	ts.Check(json.Unmarshal(doc.Body, &body))
	body["name"] = args[1]
	data, err := json.Marshal(body)
	ts.Check(err)
	ts.Check(twin.Save(dir, topicName, doc.Generation+1, data))
}

func scriptCrashed(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(crash(ts.MkAbs(args[0]), args[1], nil, args[2:], 0))
}

func scriptZeros(ts *testscript.TestScript, _ bool, args []string) {
	data := []byte(ts.ReadFile(args[0]))
	clear(data[scriptInt(ts, args[1]):][:scriptInt(ts, args[2])])
	scriptWrite(ts, args[0], data)
}

func scriptInt(ts *testscript.TestScript, s string) int {
	n, err := strconv.Atoi(s)
	ts.Check(err)
	return n
}

func scriptWrite(ts *testscript.TestScript, name string, data []byte) {
	ts.Check(os.WriteFile(ts.MkAbs(name), data, 0o600))
}
