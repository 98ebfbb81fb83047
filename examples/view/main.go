// Command view counts the visits of pages. The visits are the truth, in a topic; the counts
// are a view of them, in a file, which can be thrown away and made again.
//
// The file has the counts and the places up to which visits are in them, and is replaced by
// a rename: it is never of two moments. So a start takes it and reads on from its places,
// and each visit counts once: effectively once, without a transaction. That is why the view
// keeps its places itself and does not commit them to a group: they would move before or
// after the counts.
//
// When the view is to be another, its version rises, and it is replayed from the first
// visit on. The new one is made beside the old, which serves meanwhile.
//
//	go run ./examples/view
//	go run ./examples/view -dir ./visits    # several times: it goes on
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"os"
	"path/filepath"

	"github.com/varvelog/varve"
)

func main() {
	dir := flag.String("dir", "", "directory to use and keep (default: a temporary one)")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *dir); err != nil {
		log.Fatalf("view: %v", err)
	}
}

func run(ctx context.Context, w io.Writer, dir string) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "varve-view-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	engine, err := varve.Open(filepath.Join(dir, "log"), varve.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer engine.Close()
	// Without retention: of visits that are gone no view can be made any more.
	topic, err := engine.EnsureTopic("visits", varve.TopicConfig{Partitions: 3, Config: map[string]string{"retention.ms": "-1"}})
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "view.json")
	v := load(file, 1)
	for range 2 {
		if err := visit(ctx, topic); err != nil {
			return err
		}
		n, err := v.catchUp(ctx, topic)
		if err == nil {
			err = v.save(file)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%d new visits, in all %v\n", n, v.Counts)
		v = load(file, 1) // as a restart does
	}
	again := load(file, 2) // another version: not what is in the file
	n, err := again.catchUp(ctx, topic)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "made anew of %d visits: %v\n", n, again.Counts)
	if !maps.Equal(v.Counts, again.Counts) {
		return errors.New("the views differ")
	}
	return engine.Close()
}

// visit publishes six visits of three pages. What its keys are does not matter to the
// counts, so they have none and are spread over the partitions.
func visit(ctx context.Context, topic *varve.Topic) error {
	var recs []varve.Record
	for _, page := range []string{"/", "/docs", "/", "/blog", "/docs", "/"} {
		recs = append(recs, varve.Record{Value: []byte(page)})
	}
	_, err := topic.PublishAll(ctx, recs)
	return err
}

// view is how often each page was visited, and in each partition the next visit to count.
type view struct {
	Version int
	Counts  map[string]int
	Next    map[int]varve.Offset
}

// load reads the view. Where there is none, of another version, or one that a power cut
// has spoiled, it begins anew: nothing is lost by that.
func load(file string, version int) *view {
	v := &view{}
	data, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(data, v) != nil || v.Version != version {
		return &view{version, map[string]int{}, map[int]varve.Offset{}}
	}
	return v
}

// catchUp counts what is new, and says how much that was.
func (v *view) catchUp(ctx context.Context, topic *varve.Topic) (n int, err error) {
	for i := range topic.Partitions() {
		p, err := topic.Partition(i)
		if err != nil {
			return n, err
		}
		for rec, err := range p.Records(ctx, varve.At(v.Next[i])) { // up to the end there is now
			if err != nil {
				return n, err
			}
			v.Counts[string(rec.Value)]++
			v.Next[i] = rec.Offset + 1
			n++
		}
	}
	return n, nil
}

// save replaces the file, which is not synced: see load.
func (v *view) save(file string) error {
	data, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(file+".new", data, 0o600)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	return err
}
