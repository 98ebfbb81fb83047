package crash

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/varvelog/varve/internal/vfs"
)

// site is a call of the file layer: the function that makes it, and which it is.
type site struct {
	function string
	op       vfs.OpKind
}

// cell is a site in a kind of step.
type cell struct {
	site site
	kind string
}

// tally counts calls of the file layer that change something, and the crash points
// among them.
//
//	field             guarded by   written by
//	known             knownMu      name
//	called, crashed   mu           call, crash
type tally struct {
	knownMu sync.RWMutex
	known   map[stack]string

	mu      sync.Mutex
	called  map[cell]int
	crashed map[cell]int
}

// stack is the frames behind the file layer, as far as they are looked at: to walk them
// costs more than the call.
type stack [4]uintptr

// skipped are the frames in front: of the runtime, this package, and the file layer.
const skipped = 5

func newTally() *tally {
	return &tally{known: map[stack]string{}, called: map[cell]int{}, crashed: map[cell]int{}}
}

// call counts a call, made by the goroutine that calls it. fresh: no crash point was
// at one of its cell yet.
func (t *tally) call(op vfs.OpKind, kind string) (c cell, fresh bool) {
	var pcs stack
	runtime.Callers(skipped, pcs[:])
	c = cell{site{t.name(pcs), op}, kind}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.called[c]++
	return c, t.crashed[c] == 0
}

func (t *tally) crash(c cell) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.crashed[c]++
}

// name finds the innermost function that is not of the file layer. Stacks repeat, so
// each is looked up once.
func (t *tally) name(pcs stack) string {
	t.knownMu.RLock()
	name, ok := t.known[pcs]
	t.knownMu.RUnlock()
	if ok {
		return name
	}
	name = nameOf(pcs[:])
	t.knownMu.Lock()
	t.known[pcs] = name
	t.knownMu.Unlock()
	return name
}

const module = "github.com/varvelog/varve"

// nameOf is package, function and line: wal.Journal.write:148.
func nameOf(pcs []uintptr) string {
	frames := runtime.CallersFrames(pcs)
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		name, ours := strings.CutPrefix(f.Function, module)
		if !ours || strings.HasPrefix(name, "/internal/vfs.") {
			continue
		}
		name, _, _ = strings.Cut(name, ".func")
		if name[0] == '.' {
			name = "varve" + name
		}
		return fmt.Sprintf("%s:%d", plain.Replace(name), f.Line)
	}
	return "?"
}

var plain = strings.NewReplacer("(*", "", ")", "", "/internal/", "", "/", "")

// kinds are the columns of the table, in this order.
var kinds = []string{
	"start", "create", "delete", "alter", "grow", "publish", "crowd", "burst", "large", "durable",
	"trim", "roll", "retain", "commit", "work", "crew", "reset", "forget", "disband", "idle", "stop", "recover",
}

// print prints the table: crash points by site and kind of step. A "." is what never
// happened; a hole, 0, is what happened and had no crash. It returns how many holes
// there are.
func (t *tally) print(w io.Writer) (holes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sites := map[site]bool{}
	for c := range t.called {
		sites[c.site] = true
	}
	fmt.Fprintf(w, "%-56s", "crash points at calls of the file layer, by kind of step")
	for _, k := range kinds {
		fmt.Fprintf(w, " %7s", k)
	}
	fmt.Fprintln(w)
	order := slices.SortedFunc(maps.Keys(sites), func(a, b site) int {
		return cmp.Or(strings.Compare(a.function, b.function), cmp.Compare(a.op, b.op))
	})
	for _, s := range order {
		fmt.Fprintf(w, "%-56s", s.function+" "+s.op.String())
		for _, k := range kinds {
			c := cell{s, k}
			switch {
			case t.called[c] == 0:
				fmt.Fprintf(w, " %7s", ".")
			default:
				fmt.Fprintf(w, " %7d", t.crashed[c])
				if t.crashed[c] == 0 {
					holes++
				}
			}
		}
		fmt.Fprintln(w)
	}
	return holes
}
