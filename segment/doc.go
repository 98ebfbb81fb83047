// Package segment is one log file of a partition with its two indexes: a
// segment takes appends while it is active, and once sealed never changes again.
//
// Meet [Segment] first, then [Files], which bounds how many of them hold a file
// open, [Seal], what is known of a sealed segment without opening it, and
// [Scanner], which walks any log file and says where it stops making sense.
//
// A log file is record batches back to back, nothing else:
//
//	00000000000000004096.log
//	+---------------------+---------------------+-----
//	| batch, base 4096    | batch, base 4103    | …
//	+---------------------+---------------------+-----
//	^ position 0          ^ position = size of the batch before
//
// # Concurrency
//
// One goroutine at a time appends, syncs may run beside it, and any number of
// goroutines read without a lock. A reader is given the published end by its
// caller and touches no byte at or above the position that was made visible
// with it. It pins the open file for the length of one call: a file that is
// evicted or removed meanwhile stays readable until the last pin is gone.
//
// # Damage
//
// A batch is handed out when its checksum is right and its header fits. The first
// 17 bytes of a header stand outside the checksum. They are held against the end of
// the batch before, the index entry that led there, and the ends of the segment. In
// a log with gaps, and where the leader epoch changes, that leaves a choice; so when
// such a segment is first read, all its headers are gone through once and held
// against the checksum of them that is kept in the seal or the checkpoint. A single
// flipped bit is found by that sum.
//
// Behind damage reading goes on at the next batch that is one beyond doubt: a value
// may hold bytes that check. Lost is the batch that was hit, and where neither its
// checksum nor its length is left to go by, what stands in front of the next index
// entry.
//
// Not noticed: in a log with gaps, a base offset that turned into another one
// between those beside it, in what this process appended to a segment that is not
// finished, or after the headers were gone through; and of what recovery reads
// without a seal, the leader epoch of the first or the last batch, or one that rose
// to that of later batches.
//
// # What it does not do
//
// It gives out no offsets, decides no roll and no deletion, and knows neither
// topics nor durability levels: that is package partition. It never repairs a
// log file; cutting a torn tail is asked for by name.
package segment
