// Package index is the sparse index of one segment: by offset and by time, in
// Kafka's two file formats. It is derived from the log, costs a few entries per
// megabyte, and whatever is wrong with it can be put right by rebuilding it.
//
// Meet [Active] first, the index of a segment that takes appends, then [Sealed],
// the mapped index of one that never changes again, and [Mark], what must be
// kept outside the files to believe them. [Entries] and [Times] list any file.
//
// All integers are big-endian, offsets are relative to the base offset of the
// segment, and there is neither header nor checksum inside the files:
//
//	00000000000000004096.index          00000000000000004096.timeindex
//	 0  4  last offset of a batch        0  8  largest timestamp so far, ms
//	 4  4  position of that batch        8  4  last offset of the batch that carries it
//	 8  …  next entry                   12  …  next entry
//
// Both numbers of an entry are larger than those of the entry before it, and
// none is negative (Kafka's OffsetIndex and TimeIndex). An offset entry is made
// at a batch when more than the interval was appended since the last one; call
// that a moment. At a moment the largest timestamp so far becomes a time entry,
// unless it is one already, and once more when the segment is sealed (at rest too,
// for the time of the stop). The largest timestamp starts at NoTimestamp, so times
// before 1970 never make an entry: Kafka's tools would take them for an error.
//
// # Lookup by time
//
// Let L be the first time entry whose timestamp is at or after ts. At the last
// moment before L was made the largest timestamp was still below ts: otherwise L,
// or an earlier entry, would have been made there. So no batch up to that moment
// reaches ts, and its offset entry is where scanning may start. It is the last
// offset entry below the offset of L, because the batch that L names was appended
// after that moment. Where there is no L, the last offset entry of all will do.
//
// This needs every offset entry to have had its time entry. Therefore a moment
// whose entries cannot both be stored is dropped whole, and time entries are
// published before offset entries while readers load them in the other order.
// Where the page that may hold L cannot be read, its first entry is in memory and
// older than ts: no batch up to that entry's offset reaches ts either.
//
// # Memory
//
// Of each file an active index keeps the last page (512 or 341 entries, grown on
// demand) and 16 bytes for each page before it: the first entry and a checksum.
// Full pages are in the file. A lookup searches memory, then at most one page
// that it reads and checks; if that fails it answers the page's first entry,
// which is right and no more than 2 MiB of log (at the default interval and
// small batches) further back. No descriptor is held between calls.
//
// # Concurrency
//
// Lookups take no lock. A table publishes a view by an atomic pointer: the fences
// of the full pages, the last page, and the count of its entries. An entry is
// written before the atomic count that covers it is stored, and bytes below the
// count never change, so a reader that loads the view and then the count sees
// whole entries. A page that is full or too small is left to its readers and
// replaced together with the fences; it is never reused. A page becomes a fence
// only after it was written to the file, where it never changes again either.
// So an old view stays right for ever, it just does not grow.
//
// # What it does not do
//
// It makes nothing durable by itself and syncs no directory. It never looks at
// the log: an answer is a hint that the log can confirm, because the batch at an
// entry's position ends with the entry's offset. It decides no roll, removes no
// file that it did not replace, and does not repair: whoever gets a [DamageError]
// or [ErrIncomplete] makes a new index by Create, one Append per batch, and Seal,
// which gives the same bytes as the appends did at their time.
package index
