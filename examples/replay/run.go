package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/varvelog/varve"
)

const topicName = "events"

// run publishes and replays in o.dir and reports to w. Its error says what went
// wrong first.
func run(ctx context.Context, w io.Writer, o options) error {
	fmt.Fprintf(w, "replay      %s events of %s users, %d partitions, seed %d, in %s\n",
		humanize.Comma(int64(o.records)), humanize.Comma(users), o.partitions, o.seed, o.dir)
	l := newLedger(o.partitions)
	if err := publish(ctx, w, o, l); err != nil {
		return err
	}
	started := time.Now()
	engine, err := varve.Open(o.dir, quiet())
	if err != nil {
		return err
	}
	defer engine.Close()
	topic, err := engine.Topic(topicName)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "reopen      in %s\n", time.Since(started).Round(time.Microsecond))
	for _, r := range replays(l) {
		if err := r.run(ctx, w, topic, l); err != nil {
			return err
		}
	}
	fmt.Fprintln(w, "result      every replay equals what was published")
	return engine.Close()
}

func quiet() varve.Options {
	return varve.Options{Logger: slog.New(slog.DiscardHandler)}
}

// publish makes the events up and stores them; l learns where each one went.
func publish(ctx context.Context, w io.Writer, o options, l *ledger) error {
	engine, err := varve.Open(o.dir, quiet())
	if err != nil {
		return err
	}
	defer engine.Close()
	topic, err := engine.CreateTopic(topicName, varve.TopicConfig{
		Partitions: o.partitions,
		Config: map[string]string{
			"retention.ms":  "-1", // the events are of 2025: they would be too old
			"segment.bytes": "16777216",
		},
	})
	if err != nil {
		return err
	}
	started := time.Now()
	var bytes int64
	pub := topic.Publisher(varve.PublisherOptions{MaxInFlight: 4 << 20})
	for g, n := newEvents(o.seed), 0; n < o.records; n++ {
		e := g.next()
		key := strconv.AppendInt([]byte{'u'}, int64(e.user), 10)
		value := append([]byte(nil), e.value...) // the engine holds it until done
		note := entry{hash: l.hash(e.time, key, value), time: e.time}
		bytes += int64(len(value))
		err := pub.PublishAsync(ctx, varve.Record{Timestamp: e.time, Key: key, Value: value},
			func(at varve.Place, err error) { l.noted(note, at, err) })
		if err != nil {
			return err
		}
	}
	if err := pub.Flush(ctx); err != nil {
		return err
	}
	if l.err != nil {
		return l.err
	}
	fmt.Fprintf(w, "publish     %s\n", rate(int64(o.records), bytes, time.Since(started)))
	return engine.Close()
}

// rate writes how much was done, and how fast.
func rate(records, bytes int64, took time.Duration) string {
	s := max(took.Seconds(), 1e-9)
	return fmt.Sprintf("%9s records, %6.1f MB, in %5.2f s: %9s records/s, %5.0f MB/s",
		humanize.Comma(records), float64(bytes)/1e6, took.Seconds(),
		humanize.Comma(int64(float64(records)/s)), float64(bytes)/1e6/s)
}
