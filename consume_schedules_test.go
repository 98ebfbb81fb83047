package varve_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/varvelog/varve"
)

// pushPlan is a group whose records fail, are acknowledged and are handed out as dice
// say, in several lives with different options; and what must hold all the while.
type pushPlan struct {
	*rig
	mu    sync.Mutex
	dice  *rand.Rand
	fails map[string]int // how often a record is still to fail
	ended map[varve.TopicPartition]map[varve.Offset]bool
	calls map[string]int
}

// planLife is one subscription of a plan; its plan's mu guards it.
type planLife struct {
	*pushPlan
	opt  varve.ConsumeOptions
	at   map[string]varve.Offset // what an order has in hand, or had last
	busy map[string]bool
}

const planRecords = 40

func (p *pushPlan) roll(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dice.IntN(n)
}

func (p *planLife) order(d varve.Delivery) string {
	if p.opt.ByKey {
		return fmt.Sprintf("%d/%s", d.Partition, d.Key)
	}
	return fmt.Sprint(d.Partition)
}

// begin enters that a handler is called.
func (p *planLife) begin(d varve.Delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	order, name := p.order(d), fmt.Sprintf("%d@%d", d.Partition, d.Offset)
	inOrder := p.opt.ByKey || !p.opt.AckLater // else others overtake what waits
	if last, some := p.at[order]; inOrder && some && (p.busy[order] || last > d.Offset) {
		p.t.Errorf("%s: offset %d is handed out beside or behind %d", order, d.Offset, last)
	}
	if p.calls[name]++; p.opt.Guarantee == varve.AtMostOnce && p.calls[name] > 1 {
		p.t.Errorf("%s is handed out %d times", name, p.calls[name])
	}
	p.at[order], p.busy[order] = d.Offset, true
}

// end enters what becomes of a record, before the subscription is told. Where what fails
// may be given up it may count as processed from now on.
func (p *planLife) end(ctx context.Context, d varve.Delivery) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := fmt.Sprintf("%d@%d", d.Partition, d.Offset)
	if p.fails[name] > 0 {
		p.fails[name]--
		err = errBroken
	}
	if ctx.Err() != nil {
		return err
	}
	p.busy[p.order(d)] = false
	if err == nil || p.opt.OnFailure != varve.StopPartition {
		p.ended[varve.TopicPartition{Topic: "t", Partition: d.Partition}][d.Offset] = true
	}
	return err
}

func (p *planLife) handle(ctx context.Context, d varve.Delivery) error {
	p.begin(d)
	time.Sleep(time.Duration(p.roll(300)) * time.Millisecond)
	if p.opt.AckLater && p.roll(4) > 0 {
		time.AfterFunc(time.Duration(p.roll(2000))*time.Millisecond, func() { d.Done(p.end(ctx, d)) })
		return nil
	}
	if err := p.end(ctx, d); err != nil || !p.opt.AckLater {
		return err
	}
	return d.Done(nil)
}

// check looks at the commits: nothing may be below a place that was not processed.
func (p *planLife) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, ended := range p.ended {
		for off := range p.committed("g", "t", at.Partition) {
			if p.opt.Guarantee == varve.AtLeastOnce && !ended[off] {
				p.t.Fatalf("%s: %d is committed, and offset %d is not processed", at, p.committed("g", "t", at.Partition), off)
			}
		}
	}
}

func (p *pushPlan) finished() bool {
	p.mu.Lock()
	begun := len(p.calls)
	p.mu.Unlock()
	return begun == 2*planRecords && p.committed("g", "t", 0) == planRecords && p.committed("g", "t", 1) == planRecords
}

// live is one subscription, which is resumed now and then, and is stopped after a time or
// when all is done.
func (p *planLife) live(seconds int, patience time.Duration) {
	s := p.consume("g", p.handle, p.opt, "t")
	for i := 0; i < seconds && !p.finished(); i++ {
		time.Sleep(time.Second)
		p.check()
		for _, still := range s.Stopped() {
			if i%5 == 0 {
				if err := s.Resume(varve.TopicPartition{Topic: still.Topic, Partition: still.Partition}); err != nil {
					p.t.Error(err)
				}
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Stop(ctx); err != nil && !errors.As(err, new(*varve.UnfinishedError)) {
		p.t.Error(err)
	}
	p.check()
}

// Whatever fails, waits, is acknowledged late, stands still, is resumed and stopped: each
// record is processed, in order, no place is past one that is not, and at most once no
// record is handed out again.
func TestConsumeSchedules(t *testing.T) {
	seeds := 80
	if testing.Short() {
		seeds = 16
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			pushBubble(t, func(r *rig) {
				dice := rand.New(rand.NewPCG(uint64(seed), 47))
				p := &pushPlan{rig: r, dice: dice, fails: map[string]int{}, calls: map[string]int{}, ended: map[varve.TopicPartition]map[varve.Offset]bool{}}
				r.topic("dead", 1)
				r.topic("t", 2)
				for i := range 2 {
					p.ended[varve.TopicPartition{Topic: "t", Partition: int32(i)}] = map[varve.Offset]bool{}
					for n := range planRecords {
						rec := text("%d", n)
						if key := dice.IntN(5); key > 0 {
							rec.Key = fmt.Append(nil, key)
						}
						r.publish(r.part("t", i), rec)
						p.fails[fmt.Sprintf("%d@%d", i, n)] = max(0, dice.IntN(8)-4)
					}
				}
				once := dice.IntN(4) == 0
				policy := varve.FailurePolicy(dice.IntN(3))
				for life := range 4 { // dice only by roll: handlers may be at work
					w := &planLife{pushPlan: p, at: map[string]varve.Offset{}, busy: map[string]bool{}}
					w.opt = varve.ConsumeOptions{
						OnFailure: policy, DeadLetters: "dead", MaxAhead: 1 + p.roll(20), MaxBytes: 20 + p.roll(200),
						Retry: varve.Retry{Attempts: 1 + p.roll(3), First: time.Second}, CommitInterval: time.Duration(1+p.roll(3000)) * time.Millisecond,
					}
					if once {
						w.opt.Guarantee = varve.AtMostOnce
					} else {
						w.opt.ByKey, w.opt.AckLater = p.roll(2) == 0, p.roll(2) == 0
					}
					if life < 3 {
						w.live(p.roll(20), time.Duration(p.roll(3))*time.Second)
					} else {
						w.live(2000, time.Minute)
					}
				}
				if !p.finished() {
					t.Errorf("the group is at %d and %d, and does not go on", p.committed("g", "t", 0), p.committed("g", "t", 1))
				}
				if once && len(p.calls) != 2*planRecords {
					t.Errorf("%d records were handed out, want %d", len(p.calls), 2*planRecords)
				}
				time.Sleep(time.Minute) // what a stop did not wait for
				r.forget("dead")
				r.engine.DeleteTopic("dead")
			}, loud, workers(1+seed%4))
		})
	}
}
