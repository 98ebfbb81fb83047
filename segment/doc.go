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
// # What it does not do
//
// It gives out no offsets, decides no roll and no deletion, and knows neither
// topics nor durability levels: that is package partition. It never repairs a
// log file; cutting a torn tail is asked for by name.
package segment
