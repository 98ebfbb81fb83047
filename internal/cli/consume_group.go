package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/varvelog/varve"
)

// consumeAsGroup prints what a group has not read, and commits what was printed.
func (a *app) consumeAsGroup(ctx context.Context, e *varve.Engine, t *varve.Topic, o consumeOptions) error {
	c := &consumer{consumeOptions: o, app: a, printer: newPrinter(a.out, o.format, o.separator), left: o.count}
	m, err := e.Join(ctx, o.group, []string{t.Name()}, varve.JoinOptions{From: o.from.start()})
	if err != nil {
		return a.noGroup(err, o.group)
	}
	err = c.pollAll(ctx, m, t)
	if errors.Is(err, errEnough) {
		err = nil
	}
	if lerr := m.Leave(context.Background()); err == nil {
		err = lerr
	}
	if ferr := c.printer.flush(); err == nil {
		err = ferr
	}
	if missed := c.missed(); err == nil && missed != "" {
		err = hintf(fmt.Errorf("%s could not be read", missed), "varve log verify --topic %s tells more", t.Name())
	}
	return err
}

// pollAll polls up to the end, or with --follow until a signal, which is its usual end.
func (c *consumer) pollAll(ctx context.Context, m *varve.Member, t *varve.Topic) error {
	for {
		polled, ok, err := c.poll(ctx, m)
		switch {
		case ctx.Err() != nil && c.follow && c.endless():
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			err = c.passOver(t, &polled, err)
		case !ok:
			return nil
		default:
			err = c.printPolled(ctx, m, &polled)
		}
		if err != nil {
			return err
		}
	}
}

// poll waits for records only with --follow.
func (c *consumer) poll(ctx context.Context, m *varve.Member) (varve.Polled, bool, error) {
	polled, ok, err := m.TryPoll(ctx)
	if ok || err != nil || !c.follow {
		return polled, ok, err
	}
	polled, err = m.Poll(ctx)
	return polled, err == nil, err
}

// printPolled prints records and commits them once they are out: what is printed and
// not committed is printed again the next time, and nothing is passed over.
func (c *consumer) printPolled(ctx context.Context, m *varve.Member, polled *varve.Polled) error {
	var err error
	next := polled.Records[0].Offset
	for i := range polled.Records {
		if err = c.emit(&polled.Records[i]); err != nil && err != errEnough {
			return err
		}
		if next = polled.Records[i].Offset + 1; err != nil {
			break
		}
	}
	if ferr := c.printer.flush(); ferr != nil {
		return ferr
	}
	// A signal that has come meanwhile does not keep it from noting what was printed.
	at := varve.Commit{Topic: polled.Topic, Partition: polled.Partition, Offset: next}
	return errors.Join(m.CommitOffsets(context.WithoutCancel(ctx), at), err)
}

// passOver tells of what cannot be read; errors that are not about that it returns.
func (c *consumer) passOver(t *varve.Topic, polled *varve.Polled, why error) error {
	p, err := t.Partition(int(polled.Partition))
	if err != nil || polled.Topic == "" {
		return why
	}
	var closed *varve.PartitionError
	if errors.As(why, &closed) && !errors.As(why, new(*varve.OutOfRangeError)) {
		c.closed++
		fmt.Fprintf(c.app.err, "varve: partition %d: cannot be opened: %s\n", p.Index(), oneLine(closed.Err.Error()))
		return nil
	}
	return c.gap(p, why)
}
