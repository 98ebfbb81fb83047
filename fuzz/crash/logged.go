package crash

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"github.com/varvelog/varve"
)

// logged is what an engine logged as a warning or an error.
//
//	field   guarded by   written by
//	lines, clamps   mu   Handle
//	right   mu           brought
//	lower   (immutable)  newLife
type logged struct {
	mu     sync.Mutex
	lines  []string
	clamps []clamp
	right  int         // so many of these were held against what is known
	lower  func(clamp) // is told of each, nil: nobody is
}

// brought begins what an engine says of a place that it brought down: an error that is
// right after a power cut, and only then.
const brought = "group has committed more than a crash has left"

func (g *logged) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (g *logged) WithAttrs([]slog.Attr) slog.Handler               { return g }
func (g *logged) WithGroup(string) slog.Handler                    { return g }

func (g *logged) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Level.String() + " " + r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, ", %s %v", a.Key, a.Value)
		return true
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lines = append(g.lines, b.String())
	if strings.HasPrefix(r.Message, brought) {
		c := clampOf(r)
		g.clamps = append(g.clamps, c)
		g.lower(c)
	}
	return nil
}

func clampOf(r slog.Record) (c clamp) {
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "group":
			c.group = a.Value.String()
		case "partition":
			topic, part, _ := strings.Cut(a.Value.String(), "/")
			c.at.topic = topic
			c.at.part, _ = strconv.Atoi(part)
		case "committed":
			c.from = a.Value.Any().(varve.Offset)
		case "end":
			c.end = a.Value.Any().(varve.Offset)
		}
		return true
	})
	return c
}

// brought are the places that were brought down. Whoever asks finds out whether that is
// right: of these none counts as an error.
func (g *logged) brought() []clamp {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.right = len(g.clamps)
	return append([]clamp(nil), g.clamps...)
}

func (g *logged) firstError() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	right := g.right
	for _, line := range g.lines {
		text, is := strings.CutPrefix(line, slog.LevelError.String()+" ")
		if !is {
			continue
		}
		if strings.HasPrefix(text, brought) && right > 0 {
			right--
			continue
		}
		return line
	}
	return ""
}

func (g *logged) all() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.lines...)
}
