package cli

import (
	"io"
	"log/slog"
	"testing"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// What --durability asks for holds whether a record names its partition or not.
func TestDeliveryDurability(t *testing.T) {
	e, err := varve.OpenFS(vfs.NewMem(), varve.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	topic, err := e.CreateTopic("orders", varve.TopicConfig{Config: map[string]string{"durability": "os"}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := topic.Partition(0)
	if err != nil {
		t.Fatal(err)
	}
	for i, partition := range []int32{anyPartition, 0} {
		d := newDelivery(topic, varve.PublisherOptions{Ack: varve.Fsync})
		if err := d.publish(input{record: varve.Record{Partition: partition, Value: []byte("v")}}); err != nil {
			t.Fatal(err)
		}
		if err := d.finish(io.Discard, nil); err != nil {
			t.Fatal(err)
		}
		if end := varve.Offset(i + 1); p.DurableEnd() != end {
			t.Errorf("partition %d: %d durable, want %d", partition, p.DurableEnd(), end)
		}
	}
}
