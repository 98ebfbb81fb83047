//go:build unix

package varve_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/varvelog/varve"
)

func init() { children["crowd"] = publishAsCrowd }

const (
	crowdPartitions = 24
	crowdSize       = 8
)

// publishAsCrowd publishes from several goroutines to many partitions of each level,
// makes checkpoints, rolls and trims beside it, and says what was acknowledged where.
func publishAsCrowd(dir string, out io.Writer) error {
	e, err := varve.Open(dir, varve.Options{Logger: silent(), JournalBytes: smallJournal, RetentionInterval: 20 * time.Millisecond})
	if err != nil {
		return err
	}
	var topics []*varve.Topic
	for _, level := range []string{"fsync", "interval", "os"} {
		t, err := e.EnsureTopic(level, varve.TopicConfig{Partitions: crowdPartitions,
			Config: config("durability="+level, "segment.bytes=3000", "segment.ms=50", "retention.ms=-1")})
		if err != nil {
			return err
		}
		topics = append(topics, t)
	}
	run := rand.Uint64()
	var mu sync.Mutex
	fail := make(chan error)
	for worker := range crowdSize {
		go func() {
			for i := 0; ; i++ {
				t := topics[rand.IntN(len(topics))]
				p, err := t.Partition(rand.IntN(crowdPartitions))
				if err != nil {
					fail <- err
					return
				}
				value := fmt.Sprintf("%x.%d.%d.%s", run, worker, i, strings.Repeat("v", rand.IntN(200)))
				off, err := p.Publish(context.Background(), varve.Record{Value: []byte(value)})
				if err != nil {
					fail <- err
					return
				}
				mu.Lock()
				fmt.Fprintln(out, t.Name(), p.Index(), off, value)
				mu.Unlock()
			}
		}()
	}
	return <-fail
}

// A real process on a real file system is killed, over and over, while it publishes to
// many partitions: everything that it has said to be acknowledged, on whatever level,
// is there afterwards at its offset, in each later life too.
func TestKilledOverAndOver(t *testing.T) {
	dir := t.TempDir()
	acked := map[string]string{} // value by "topic partition offset"
	for round := range 24 / stride(4) {
		cmd := childCommand(t, "crowd", dir)
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := bufio.NewReader(stdout)
		for left := 1 + rand.IntN(400); ; left-- {
			line, err := said.ReadString('\n')
			if err != nil {
				break // a line that was cut by the kill says nothing
			}
			if i := strings.LastIndexByte(line, ' '); acked[line[:i]] != "" {
				t.Fatalf("round %d: %s was given out twice", round, line[:i])
			} else {
				acked[line[:i]] = strings.TrimSpace(line[i+1:])
			}
			if left == 0 {
				cmd.Process.Kill()
			}
		}
		cmd.Wait()
		if t.Failed() || checkAcked(t, dir, acked) {
			t.Fatalf("after kill %d", round)
		}
	}
	if len(acked) < 100 {
		t.Errorf("only %d records were acknowledged", len(acked))
	}
}

// checkAcked holds a directory against what was acknowledged.
func checkAcked(t *testing.T, dir string, acked map[string]string) (failed bool) {
	e, err := varve.Open(dir, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	found := 0
	for _, topic := range e.Topics() {
		for i := range topic.Partitions() {
			p := partOf(t, topic, i)
			next := p.Start()
			for _, rec := range collect(t, p.Records(context.Background(), varve.Earliest())) {
				if rec.Offset != next {
					t.Errorf("%s/%d: offset %d comes behind %d", topic.Name(), i, rec.Offset, next-1)
				}
				next = rec.Offset + 1
				if want, ok := acked[fmt.Sprint(topic.Name(), " ", i, " ", rec.Offset)]; ok {
					if found++; string(rec.Value) != want {
						t.Errorf("%s/%d, offset %d holds %q, acknowledged was %q", topic.Name(), i, rec.Offset, rec.Value, want)
					}
				}
			}
		}
	}
	if found != len(acked) {
		t.Errorf("of %d acknowledged records %d are there", len(acked), found)
	}
	return t.Failed()
}
