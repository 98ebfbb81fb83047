package peers

import (
	"bytes"
	"fmt"
	"testing"
)

// Every peer gives back what it was given, in order, each log its own: a peer that
// loses half is fast.
func TestPeersKeepWhatTheyAreGiven(t *testing.T) {
	for _, p := range All {
		for _, durable := range []bool{true, false} {
			if !durable && !p.Weak {
				continue
			}
			t.Run(fmt.Sprintf("%s/durable=%v", p.Name, durable), func(t *testing.T) {
				s, err := p.Open(t.TempDir(), Options{Logs: 2, Durable: durable, Publishers: 2})
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}()
				for i := range 20 {
					for log := range 2 {
						if err := s.Append(log, batchOf(log, i)); err != nil {
							t.Fatal(err)
						}
					}
				}
				for log := range 2 {
					n := 0
					err := s.Read(log, func(rec []byte) {
						if want := batchOf(log, n/10)[n%10]; !bytes.Equal(rec, want) {
							t.Errorf("record %d of log %d is %q", n, log, rec)
						}
						n++
					})
					if n != 200 || err != nil {
						t.Errorf("%d records, %v", n, err)
					}
				}
			})
		}
	}
}

func batchOf(log, n int) [][]byte {
	var batch [][]byte
	for i := range 10 {
		batch = append(batch, fmt.Appendf(nil, "log %d batch %d record %d", log, n, i))
	}
	return batch
}
