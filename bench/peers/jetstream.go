package peers

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// JetStream is a NATS server inside the process, reached without a socket. Its
// documentation has asynchronous publishes for throughput, SyncAlways for records that
// must survive a power cut, and an ordered consumer to read a stream from its start.
var JetStream = Peer{Name: "JetStream", Module: "github.com/nats-io/nats-server/v2", Weak: true, Open: openJetStream}

type jetStream struct {
	server   *server.Server
	conn     *nats.Conn
	js       nats.JetStreamContext
	subjects []string
}

func openJetStream(dir string, o Options) (Store, error) {
	srv, err := server.NewServer(&server.Options{
		DontListen: true, NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: dir, JetStreamMaxStore: 1 << 40,
		SyncAlways: o.Durable,
	})
	if err != nil {
		return nil, err
	}
	srv.Start()
	j := &jetStream{server: srv}
	if !srv.ReadyForConnections(10 * time.Second) {
		return nil, errors.Join(errors.New("the server does not get ready"), j.Close())
	}
	if err := j.connect(o); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

func (j *jetStream) connect(o Options) (err error) {
	if j.conn, err = nats.Connect("", nats.InProcessServer(j.server)); err != nil {
		return err
	}
	if j.js, err = j.conn.JetStream(nats.PublishAsyncMaxPending(64 << 10)); err != nil {
		return err
	}
	for i := range o.Logs {
		name := fmt.Sprintf("log%d", i)
		if _, err := j.js.AddStream(&nats.StreamConfig{Name: name, Storage: nats.FileStorage}); err != nil {
			return err
		}
		j.subjects = append(j.subjects, name)
	}
	return nil
}

func (j *jetStream) Append(log int, batch [][]byte) error {
	acks := make([]nats.PubAckFuture, len(batch))
	for i, rec := range batch {
		var err error
		if acks[i], err = j.js.PublishAsync(j.subjects[log], rec); err != nil {
			return err
		}
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return err
		}
	}
	return nil
}

func (j *jetStream) Read(log int, visit func([]byte)) error {
	info, err := j.js.StreamInfo(j.subjects[log])
	if err != nil {
		return err
	}
	done := make(chan struct{})
	left := info.State.Msgs
	if left == 0 {
		return nil
	}
	sub, err := j.js.Subscribe(j.subjects[log], func(m *nats.Msg) {
		visit(m.Data)
		if left--; left == 0 {
			close(done)
		}
	}, nats.OrderedConsumer())
	if err != nil {
		return err
	}
	<-done
	return sub.Unsubscribe()
}

func (j *jetStream) Close() error {
	if j.conn != nil {
		j.conn.Close()
	}
	j.server.Shutdown()
	j.server.WaitForShutdown()
	return nil
}
