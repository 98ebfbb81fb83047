package crash

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// logged is what an engine logged as a warning or an error.
//
//	field   guarded by   written by
//	lines   mu           Handle
type logged struct {
	mu    sync.Mutex
	lines []string
}

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
	return nil
}

func (g *logged) firstError() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, line := range g.lines {
		if strings.HasPrefix(line, slog.LevelError.String()) {
			return line
		}
	}
	return ""
}

func (g *logged) all() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.lines...)
}
