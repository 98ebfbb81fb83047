package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/record"
)

// The program starts itself; in a test that is the test.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-dir" {
		main()
		return
	}
	os.Exit(m.Run())
}

// The next run pays as much again, and all is booked.
func TestSQLOnce(t *testing.T) {
	dir := t.TempDir()
	for round := 1; round <= 2; round++ {
		var out bytes.Buffer
		if err := run(t.Context(), &out, dir); err != nil {
			t.Fatal(err)
		}
		sum := round * payments * (payments - 1) / 2
		want := "killed before the commit of a transaction\nkilled after the commit of a transaction\n" +
			fmt.Sprintf("paid: %d, booked: %d, handed out again: 0\n", sum, sum)
		if out.String() != want {
			t.Errorf("it printed\n%s\nwant\n%s", out.String(), want)
		}
	}
}

// A record is booked once, whoever comes late with it; one of a later leader epoch is another,
// at an offset that a crash had freed.
func TestPlaceMovesForwardOnly(t *testing.T) {
	db, err := openDatabase(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i, c := range []struct {
		epoch  record.Epoch
		offset varve.Offset
		fresh  bool
	}{{0, 0, true}, {0, 0, false}, {0, 4, true}, {0, 3, false}, {1, 2, true}, {0, 9, false}, {1, 3, true}} {
		d := varve.Delivery{Record: varve.Record{Key: []byte("c"), Value: []byte("1"), Offset: c.offset}, LeaderEpoch: c.epoch}
		fresh, err := db.book(context.Background(), &d, "")
		if err != nil || fresh != c.fresh {
			t.Errorf("%d: offset %d of epoch %d: booked %t, %v", i, c.offset, c.epoch, fresh, err)
		}
	}
	var total int
	if err := db.QueryRow(`SELECT total FROM balances`).Scan(&total); err != nil || total != 4 {
		t.Errorf("total %d, %v", total, err)
	}
}
