package varve

import (
	"context"
	"log/slog"
	"testing"

	"github.com/varvelog/varve/partition"
)

// A second member joins while the first has been given partitions, and has not begun in them:
// what the group wants back of these, nobody has to let go of first.
func TestJoinWhileAnotherBegins(t *testing.T) {
	e, err := Open(t.TempDir(), Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	topics := []string{"t"}
	if _, err := e.CreateTopic("t", TopicConfig{Partitions: 6}); err != nil {
		t.Fatal(err)
	}
	var a, b *Member
	if err := e.groups.with("g", func(g *groupState) (err error) {
		a, err = g.join(topics, JoinOptions{}.withDefaults(), partition.NewWaiter())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if b, err = e.Join(context.Background(), "g", topics, JoinOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := a.begin(context.Background()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first has not polled yet
		if _, _, err := b.TryPoll(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if len(a.Owned()) != 3 || len(b.Owned()) != 3 {
		t.Errorf("the first owns %v, the second %v", a.Owned(), b.Owned())
	}
}
