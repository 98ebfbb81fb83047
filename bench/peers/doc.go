// Package peers has other embedded logs and stores behind one small interface, so that
// the same work can be given to each. Meet [Peer] and [Store] first, then one file a peer.
//
// Each is set up as its own documentation says is fastest for the promise that is asked
// of it, with a note where that is said; Durable and weak (the operating system has
// it, as varve's level os) are told apart by [Options]. What a peer offers no way
// to do, it is not asked: raft-wal syncs always, and so has no weak form.
//
// Concurrency: a Store takes appends from any number of goroutines; where its library
// does not, the file of the peer has the lock.
//
// It measures nothing.
package peers
