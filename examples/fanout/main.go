// Command fanout tells others of each change of a table. Two groups follow the same
// topic: "search" keeps an index of who lives where, "audit" counts changes. Neither knows
// of the other, each gets every change, and each has a place of its own, from which it
// goes on after it was away.
//
// The key of a change is that of its row, so that the changes of a row are in one
// partition, in order. A change says what the row was and what it is: whoever follows
// need not look at the table, which may have moved on.
//
//	go run ./examples/fanout
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/varvelog/varve"
)

func main() {
	dir := flag.String("dir", "", "data directory to use and keep (default: a temporary one)")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *dir); err != nil {
		log.Fatalf("fanout: %v", err)
	}
}

func run(ctx context.Context, w io.Writer, dir string) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "varve-fanout-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	engine, err := varve.Open(dir, varve.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer engine.Close()
	topic, err := engine.EnsureTopic("people", varve.TopicConfig{Partitions: 2})
	if err != nil {
		return err
	}
	people, index, audit := table{topic, map[string]string{}}, map[string][]string{}, 0

	if err := people.set(ctx, "ada=London", "alan=Wilmslow", "emmy=Erlangen", "grace=New York"); err != nil {
		return err
	}
	toIndex := func(c *change) { c.index(index) }
	count := func(*change) { audit++ }
	if err := follow(ctx, engine, "search", toIndex); err != nil {
		return err
	}
	if err := follow(ctx, engine, "audit", count); err != nil {
		return err
	}
	fmt.Fprintf(w, "audit has seen %d changes, search %v\n", audit, index)

	// Nobody of "audit" is there for these; "search" gets them all the same.
	if err := people.set(ctx, "emmy=Göttingen", "emmy=Bryn Mawr", "alan=", "kurt=Princeton"); err != nil {
		return err
	}
	if err := follow(ctx, engine, "search", toIndex); err != nil {
		return err
	}
	groups, err := engine.Groups()
	if err != nil {
		return err
	}
	for _, g := range groups {
		fmt.Fprintf(w, "%s is %d changes behind\n", g.ID, g.Lag)
	}
	if err := follow(ctx, engine, "audit", count); err != nil {
		return err
	}
	fmt.Fprintf(w, "audit has seen %d changes, search %v\n", audit, index)
	return engine.Close()
}

// table is people, and where they live.
type table struct {
	changes *varve.Topic
	rows    map[string]string
}

// change is one change of a row; a city of "" is no row.
type change struct{ Name, Before, After string }

// set changes rows: each NAME=CITY, or NAME= for who is no more. The change is durable
// before the row is.
func (t *table) set(ctx context.Context, rows ...string) error {
	for _, row := range rows {
		name, city, _ := strings.Cut(row, "=")
		c := change{name, t.rows[name], city}
		value, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if _, err := t.changes.Publish(ctx, varve.Record{Key: []byte(c.Name), Value: value}); err != nil {
			return err
		}
		t.rows[c.Name] = c.After
	}
	return nil
}

// index enters the change into names by city.
func (c *change) index(index map[string][]string) {
	left := slices.DeleteFunc(index[c.Before], func(name string) bool { return name == c.Name })
	if index[c.Before] = left; len(left) == 0 {
		delete(index, c.Before)
	}
	if c.After != "" {
		index[c.After] = slices.Sorted(slices.Values(append(index[c.After], c.Name)))
	}
}

// follow has a member of a group handle what is new, and leave.
func follow(ctx context.Context, engine *varve.Engine, group string, handle func(*change)) error {
	m, err := engine.Join(ctx, group, []string{"people"}, varve.JoinOptions{})
	if err != nil {
		return err
	}
	defer m.Leave(ctx)
	for {
		polled, some, err := m.TryPoll(ctx) // a service would Poll, which waits
		if err != nil || !some {
			return err
		}
		for _, rec := range polled.Records {
			var c change
			if err := json.Unmarshal(rec.Value, &c); err != nil {
				return err
			}
			handle(&c)
		}
		if err := m.Commit(ctx); err != nil {
			return err
		}
	}
}
