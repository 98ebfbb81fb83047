package varve_test

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/varvelog/varve"
)

// testdata/murmur2.txt was made by Kafka's own client.
func TestMurmur2IsThatOfTheJavaClient(t *testing.T) {
	file, err := os.Open("testdata/murmur2.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	keys := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		fields := strings.Fields(lines.Text())
		key, err := hex.DecodeString(strings.TrimPrefix(fields[0], "-"))
		if err != nil || len(fields) != 7 {
			t.Fatalf("line %q: %v", lines.Text(), err)
		}
		for i, n := range []int{1, 4, 7, 1000, math.MaxInt32} {
			want, err := strconv.Atoi(fields[2+i])
			if err != nil {
				t.Fatal(err)
			}
			if got := varve.Murmur2(key, n); got != want {
				t.Errorf("%x over %d partitions: %d, the Java client says %d", key, n, got, want)
			}
		}
		keys++
	}
	if keys < 30 {
		t.Errorf("%d keys, want at least 30", keys)
	}
}

// The sums are those of librdkafka's test of its "consistent" partitioner, made
// with another program, and of a few keys more.
func TestCRC32IsThatOfLibrdkafka(t *testing.T) {
	for key, sum := range map[string]uint32{
		"": 0, "23456": 0xb1b451d7, "this is another string with more length to it perhaps": 0xb0150df7, "hejsan": 0xd077037e,
		"123456789": 0xcbf43926, "a": 0xe8b7be43, "\x00": 0xd202ef8d, "\xff\xff\xff\xff": 0xffffffff,
	} {
		for _, n := range []int{1, 4, 7, 17, 1000, math.MaxInt32} {
			if got, want := varve.CRC32([]byte(key), n), int(sum%uint32(n)); got != want {
				t.Errorf("%q over %d partitions: %d, want %d", key, n, got, want)
			}
		}
	}
}

// Sarama takes the hash for a signed number and the remainder without its sign.
// The first four are librdkafka's, the others were made with sarama 1.61.1
// (NewHashPartitioner), over 1, 4, 7, 1000 and 2147483647 partitions.
func TestFNV1aIsThatOfSarama(t *testing.T) {
	for key, hash := range map[string]int{
		"": 0x7ee3623b, "23456": 0x27e6f469, "this is another string with more length to it perhaps": 0x155e3e5f, "hejsan": 0x17b1e27a,
	} {
		for _, n := range []int{1, 7, 17, math.MaxInt32} {
			if got, want := varve.FNV1a([]byte(key), n), hash%n; got != want {
				t.Errorf("%q over %d partitions: %d, want %d", key, n, got, want)
			}
		}
	}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for key, want := range map[string][5]int{
		"": {0, 3, 2, 35, 2128831035}, "a": {0, 0, 6, 76, 468965076}, "hejsan": {0, 2, 3, 818, 397533818},
		"order-1001": {0, 0, 2, 724, 1854980724}, "23456": {0, 1, 5, 273, 669447273}, "\x00": {0, 3, 5, 351, 84696351},
		"\xff": {0, 2, 0, 606, 2047574606}, "\xff\xff\xff\xff": {0, 3, 0, 455, 485093455},
		string(all): {0, 3, 5, 563, 1868277563}, "über": {0, 3, 0, 511, 2074338511},
	} {
		for i, n := range []int{1, 4, 7, 1000, math.MaxInt32} {
			if got := varve.FNV1a([]byte(key), n); got != want[i] {
				t.Errorf("%.20q over %d partitions: %d, sarama says %d", key, n, got, want[i])
			}
		}
	}
}

func TestPartitionersByName(t *testing.T) {
	for name, want := range map[string]varve.Partitioner{"murmur2": varve.Murmur2, "crc32": varve.CRC32, "fnv1a": varve.FNV1a} {
		got, err := varve.PartitionerByName(name)
		if err != nil || got([]byte("key"), 1000) != want([]byte("key"), 1000) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "Murmur2", "random", "murmur2_random"} {
		if _, err := varve.PartitionerByName(name); err == nil {
			t.Errorf("there is a partitioner %q", name)
		}
	}
}

// A record with a key goes where its key says, in every way of publishing; an
// empty key is a key. So records of one key stay in order.
func TestKeyedRecordsGoWhereTheirKeySays(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 7, "durability=os")
	for name, of := range map[string]varve.Partitioner{"murmur2": varve.Murmur2, "crc32": varve.CRC32, "fnv1a": varve.FNV1a, "": nil} {
		pub := topic.Publisher(varve.PublisherOptions{Partitioner: of})
		if of == nil {
			of = varve.Murmur2
		}
		var recs []varve.Record
		for i := range 50 {
			recs = append(recs, varve.Record{Key: noise(i, i%9), Value: fmt.Appendf(nil, "%s %d", name, i)})
		}
		check := func(rec varve.Record, pl varve.Place, err error) {
			if want := of(rec.Key, 7); err != nil || int(pl.Partition) != want {
				t.Errorf("%s: key %x is in partition %d, want %d: %v", name, rec.Key, pl.Partition, want, err)
				return
			}
			r.note(r.part("t", int(pl.Partition)), pl.Offset, rec)
		}
		for _, rec := range recs {
			pl, err := pub.Publish(context.Background(), rec)
			check(rec, pl, err)
			if err := pub.PublishAsync(context.Background(), rec, func(pl varve.Place, err error) { check(rec, pl, err) }); err != nil {
				t.Fatal(err)
			}
		}
		if err := pub.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		pls, err := pub.PublishAll(context.Background(), recs)
		for i := range recs {
			check(recs[i], pls[i], err)
		}
	}
}

// Records without a key run to one partition for a while, then to the next: all
// get about the same, and a batch is not torn apart for every record (KIP-480).
func TestKeylessRecordsSpreadInRuns(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 5, "durability=os", "retention.ms=-1")
	const n = 4000
	last, turns := int32(-1), 0
	bytes := make([]int, 5)
	for i := range n {
		rec := varve.Record{Value: noise(i, 50+i%200)}
		pl, err := topic.Publish(context.Background(), rec)
		if err != nil {
			t.Fatal(err)
		}
		r.note(r.part("t", int(pl.Partition)), pl.Offset, rec)
		if pl.Partition != last {
			last = pl.Partition
			turns++
		}
		bytes[pl.Partition] += len(rec.Value)
	}
	if turns > n/20 || turns < 10 {
		t.Errorf("%d records changed the partition %d times", n, turns)
	}
	for i, b := range bytes {
		if mean := n * 150 / 5; b < mean*3/4 || b > mean*5/4 {
			t.Errorf("partition %d got %d bytes of %v", i, b, bytes)
		}
	}
}

// A partitioner that chooses what there is not is refused before anything of it
// is stored.
func TestPartitionerThatChoosesNothing(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 3)
	for _, choice := range []int{-1, 3, math.MaxInt32, math.MinInt32} {
		pub := topic.Publisher(varve.PublisherOptions{Partitioner: func([]byte, int) int { return choice }})
		rec := varve.Record{Key: []byte("k")}
		if _, err := pub.Publish(context.Background(), rec); !errors.Is(err, varve.ErrNoPartition) {
			t.Errorf("%d: publish: %v", choice, err)
		}
		if _, err := pub.PublishAll(context.Background(), []varve.Record{text("no key"), rec}); !errors.Is(err, varve.ErrNoPartition) {
			t.Errorf("%d: publish all: %v", choice, err)
		}
		called := false
		if err := pub.PublishAsync(context.Background(), rec, func(varve.Place, error) { called = true }); !errors.Is(err, varve.ErrNoPartition) || called {
			t.Errorf("%d: publish async: %v, called %t", choice, err, called)
		}
		if err := pub.Flush(context.Background()); err != nil {
			t.Errorf("%d: flush: %v", choice, err)
		}
	}
	if n := topic.Stats().Records; n != 0 {
		t.Errorf("%d records were stored", n)
	}
}
