package metrics

import "testing"

// What there is not is far away, in any order.
func TestNearer(t *testing.T) {
	for _, c := range [][3]int64{{3, 5, 3}, {5, 3, 3}, {none, 4, 4}, {4, none, 4}, {none, none, none}, {0, none, 0}, {0, 1, 0}} {
		if got := nearer(c[0], c[1]); got != c[2] {
			t.Errorf("of %d and %d the nearer is %d, want %d", c[0], c[1], got, c[2])
		}
	}
}
