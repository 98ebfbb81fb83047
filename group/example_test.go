package group_test

import (
	"fmt"
	"time"

	"github.com/varvelog/varve/group"
)

// A member has all partitions; another comes. It gets its share when the first has
// let go of it.
func Example() {
	now := time.Now()
	orders := group.TopicID{1}
	g := group.New("billing", now, group.Options{})
	g.SetTopics(now, group.Topics{"orders": {Name: "orders", ID: orders, Partitions: 4}})

	say := func(d group.Decision, err error) group.Decision {
		if err != nil {
			fmt.Println(err)
			return d
		}
		fmt.Printf("%s: epoch %d, %s", d.Answer.Member, d.Answer.Epoch, d.Answer.Phase)
		for _, p := range d.Answer.Assigned {
			fmt.Printf(" %d", p.Number)
		}
		fmt.Printf(", wake %v\n", d.Wake)
		return d
	}
	say(g.Join(now, group.Join{Member: "a", Topics: []string{"orders"}}))
	b := say(g.Join(now, group.Join{Member: "b", Topics: []string{"orders"}}))
	a := say(g.Heartbeat(now, group.Heartbeat{Member: "a", Epoch: 1}))

	// a finishes what it has of 2 and 3, commits, and says what it has left.
	fmt.Println("commit of a:", g.CheckCommit("a", "", a.Answer.Epoch))
	say(g.Heartbeat(now, group.Heartbeat{Member: "a", Epoch: a.Answer.Epoch, Owned: a.Answer.Assigned}))
	say(g.Heartbeat(now, group.Heartbeat{Member: "b", Epoch: b.Answer.Epoch, Owned: []group.Partition{}}))

	// a is silent for longer than its session.
	late := now.Add(group.DefaultSessionTimeout)
	for _, f := range g.Expire(late).Fenced {
		fmt.Println(f.Member, f.Reason)
	}
	fmt.Println(g.CheckCommit("a", "", 2))

	// Output:
	// a: epoch 1, stable 0 1 2 3, wake []
	// b: epoch 2, unreleased, wake [a]
	// a: epoch 1, unrevoked 0 1, wake []
	// commit of a: <nil>
	// a: epoch 2, stable 0 1, wake [b]
	// b: epoch 2, stable 2 3, wake []
	// a session timeout
	// b session timeout
	// group billing: no member "a"
}
