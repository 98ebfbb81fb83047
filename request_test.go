package varve

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// What checkSize takes for the size of records is what they take when encoded, to
// the byte: a limit one below it refuses them, and it is no more than mostSize says.
func TestSizeOfRecordsIsExact(t *testing.T) {
	bytes := rapid.Custom(func(t *rapid.T) []byte {
		n := rapid.SampledFrom([]int{-1, 0, 1, 63, 64, 8191, 8192}).Draw(t, "bytes")
		if n < 0 {
			return nil
		}
		return make([]byte, n)
	})
	header := rapid.Custom(func(t *rapid.T) Header {
		return Header{Key: string(bytes.Draw(t, "key")), Value: bytes.Draw(t, "value")}
	})
	rec := rapid.Custom(func(t *rapid.T) Record {
		return Record{
			Timestamp: rapid.OneOf(rapid.Just[int64](0), rapid.Int64()).Draw(t, "timestamp"),
			Key:       bytes.Draw(t, "key"), Value: bytes.Draw(t, "value"),
			Headers: rapid.SliceOfN(header, 0, 3).Draw(t, "headers"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		recs := rapid.SliceOfN(rec, 1, 80).Draw(t, "records")
		now := rapid.Int64().Draw(t, "now")
		var r request
		(&Partition{}).encode(&r, recs, record.None, now)
		most := int64(record.BatchOverhead)
		for i := range recs {
			most += mostSize(&recs[i])
		}
		size := len(r.buf)
		if most < int64(size) {
			t.Fatalf("%d bytes, at most %d", size, most)
		}
		if err := checkSize(recs, most, record.None, size, now); err != nil {
			t.Fatalf("with a limit of %d bytes: %v", size, err)
		}
		var large *TooLargeError
		err := checkSize(recs, most, record.None, size-1, now)
		if !errors.As(err, &large) || large.Size != size || large.Limit != size-1 {
			t.Fatalf("with a limit one below %d bytes: %v", size, err)
		}
	})
}

// sharing is n records that share one value and have a header without one: as many
// bytes as are wanted to encode, few of memory.
func sharing(n int, value []byte) (recs []Record, most int64) {
	recs = make([]Record, n)
	for i := range recs {
		recs[i] = Record{Timestamp: 1, Value: value, Headers: []Header{{Key: "h"}}}
		most += mostSize(&recs[i])
	}
	return recs, most
}

// The bound of what a batch inflates to is that of readers, and it is the bytes
// with all that is around keys and values.
func TestBoundOfWhatABatchInflatesTo(t *testing.T) {
	const n, value = 240, maxBatchLimit/240 + 1
	shared := make([]byte, value)
	fits := func(last int) error {
		recs, most := sharing(n, shared)
		recs[n-1].Value = shared[:last]
		return checkSize(recs, most, record.Zstd, 1<<20, 1)
	}
	size := int64(0) // of all but the last one's value
	for i := range n {
		size += record.RecordSize(i, 0, nil, shared, []Header{{Key: "h"}})
	}
	last := value - int(size-maxBatchLimit)
	if err := fits(last); err != nil {
		t.Errorf("as much as readers take: %v", err)
	}
	var large *TooLargeError
	if err := fits(last + 1); !errors.As(err, &large) || large.Size != maxBatchLimit+1 || large.Limit != maxBatchLimit {
		t.Errorf("one byte more: %v", err)
	}
}

// What readers would refuse is not acknowledged, however well it compresses: it is
// refused before anything is encoded or stored.
func TestPublishOfWhatReadersRefuse(t *testing.T) {
	e, err := OpenFS(vfs.NewMem(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	topic, err := e.CreateTopic("t", TopicConfig{Config: map[string]string{"compression.type": "zstd"}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := topic.Partition(0)
	if err != nil {
		t.Fatal(err)
	}
	one := Record{Value: make([]byte, maxBatchLimit)} // never touched, so that it takes no memory
	overhead, _ := sharing(maxBatchLimit>>20, make([]byte, 1<<20-1))
	pub := topic.Publisher(PublisherOptions{})
	for name, publish := range map[string]func() error{
		"one record": func() error {
			_, err := p.Publish(context.Background(), one)
			return err
		},
		"many records": func() error {
			_, err := topic.PublishAll(context.Background(), overhead)
			return err
		},
		"async": func() error {
			if err := pub.PublishAsync(context.Background(), one, nil); err != nil {
				return err
			}
			return pub.Flush(context.Background())
		},
	} {
		var large *TooLargeError
		if err := publish(); !errors.As(err, &large) || large.Limit != maxBatchLimit || large.Size <= maxBatchLimit {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p.LogEnd() != 0 || p.Stats().Bytes != 0 {
		t.Errorf("%d records, %d bytes are stored", p.LogEnd(), p.Stats().Bytes)
	}
}
