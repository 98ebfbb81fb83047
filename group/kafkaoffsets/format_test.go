package kafkaoffsets

import (
	"math"
	"testing"
)

// The numbers are those of Java 21: String.hashCode, and Kafka's Utils.abs of it.
func TestPartitionForIsKafkas(t *testing.T) {
	for _, c := range []struct {
		group         string
		hash          int32
		of50, ofSeven int32
	}{
		{"", 0, 0, 0},
		{"a", 97, 47, 6},
		{"orders-readers", -879800024, 24, 5},
		{"polygenelubricants", math.MinInt32, 0, 0},
		{"grün", 3185949, 49, 4},
		{"🐟-fish", 2123623875, 25, 2},
		{"group-42", 506311820, 20, 0},
		{"AaAa", 2031744, 44, 1},
		{"payments", 1382682413, 13, 0},
	} {
		if got := javaHash(c.group); got != c.hash {
			t.Errorf("the hash of %q is %d, want %d", c.group, got, c.hash)
		}
		if of50, of7 := PartitionFor(c.group, Partitions), PartitionFor(c.group, 7); of50 != c.of50 || of7 != c.ofSeven {
			t.Errorf("%q is in %d of 50 and %d of 7, want %d and %d", c.group, of50, of7, c.of50, c.ofSeven)
		}
	}
	for _, n := range []int32{0, -1, math.MinInt32} {
		if got := PartitionFor("a", n); got != 0 {
			t.Errorf("of %d partitions it is in %d", n, got)
		}
	}
}
