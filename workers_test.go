package varve

import (
	"testing"

	"github.com/varvelog/varve/partition"
)

// A log that is queued while somebody works on it is worked on again: what was
// added since may have come too late for the first.
func TestPoolForgetsNoWakeUp(t *testing.T) {
	l := new(partition.Log)
	begun, goOn := make(chan struct{}), make(chan struct{})
	p := newPool(1, func(*partition.Log) {
		begun <- struct{}{}
		<-goOn
	})
	p.add(l)
	<-begun
	p.add(l)
	goOn <- struct{}{}
	<-begun
	goOn <- struct{}{}
	p.stop()
}
