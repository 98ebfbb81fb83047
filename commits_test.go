package varve

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/varvelog/varve/group"
)

// Of two commits of a partition the one that stands behind the other in the log counts,
// whichever is acknowledged first; one that was refused does not.
func TestCommitsAcknowledgedOutOfOrder(t *testing.T) {
	at := group.Partition{Topic: group.TopicID(uuid.New())}
	place := func(off Offset) []entry { return []entry{{"t", at, &group.Commit{Offset: off}}} }
	want := func(table *commitTable, off Offset) {
		t.Helper()
		if c, ok := table.get(at); !ok || c.Offset != off {
			t.Errorf("the commit is %+v, %v, want %d", c, ok, off)
		}
	}
	table := &commitTable{}
	for range 3 {
		table.begin()
	}
	table.apply(place(7), 11, nil)
	table.apply(place(5), 10, nil)
	want(table, 7)
	table.apply(place(9), 12, errors.New("disk full"))
	want(table, 7)
}
