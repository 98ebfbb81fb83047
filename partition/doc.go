// Package partition is one partition: an ordered run of segments of which only
// the last takes appends, its offsets, and its only writer.
//
// Meet [Log] first, then [Append], one request to it, [Single], a record that shares
// a batch with those of others, and [Journal], what a log needs of somebody else to
// make an append durable.
//
//	log start                      published end     log end
//	    |                                |              |
//	    v                                v              v
//	....[==== sealed ====][==== sealed ====][== active ==|
//	^ trimmed             ^ a segment ends where the next one starts
//
// Offsets below the log start are gone, those from the published end on are not
// there yet for readers. On a topic of level fsync the published end is the
// durable end, so that no reader sees what a crash could take back.
//
// # The directory
//
//	00000000000000004096.log, .index, .timeindex   a segment, see package segment
//	seals                     one [segment.Seal] behind the other, of segments that need no recovery
//	partition.json, .copy     log start, kept twice (package twin)
//	leader-epoch-checkpoint   where each leader epoch begins, Kafka's format
//	00000000000000000000.log.swap                  while damage is set aside, see [Quarantine]
//
// # Concurrency
//
// Appends queue up; whoever finds nobody at work becomes the appender and writes
// for all that wait, with one write. Readers take no lock: they load the
// published end, then the segments, and return nothing at or above that end.
// Locks are taken in the order syncMu, appendMu, listMu. Done is called with
// none of them held. Only syncMu, trimMu and tidyMu are held across a sync: no append
// and no read waits for one, but for the first append to a new segment of a topic of
// level fsync.
//
// # What it does not do
//
// It starts no goroutine and has no clock of its own: the engine drives it. It
// knows nothing of topics, keys or groups.
package partition
