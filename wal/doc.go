// Package wal is the journal: it makes the latest appends of all partitions
// durable with one sync of one file.
//
// Meet [Journal] first, which writes rounds, then [Frame], of which a round
// consists, and [Read], which reads back what a crash left.
//
// A journal is a directory of files that were written with zeros, synced and only
// then used, because syncing such a file costs the disk one write and no change of
// its own bookkeeping. A file is a header page and rounds, each of which starts at
// a page, so that no page belongs to two rounds and a torn write can only touch
// the round that was being written:
//
//	0000000007.wal
//	+--------+-----------------+--------+----------------------------
//	| header | round 41        | round  | round 43 | zeros, or rounds of
//	|        | frame frame …   | 42     |          | an earlier life
//	+--------+-----------------+--------+----------------------------
//	0        4096              12288    16384
//
// Every checksum of a round is seeded with the id of the file and the position it
// stands at. So zeros do not parse, nor do rounds of an earlier life of a file that is
// used again, for it gets another id, nor pages that were written to a wrong place; and
// since no frame depends on the one before it, a flipped bit takes one frame. The id
// stands in the header, which is there twice. docs/format/journal.md has every byte.
//
// # What tells torn from damaged
//
// A round is written after the round before it was synced. So where round 43
// parses, rounds up to 42 were on stable storage, and whatever is wrong with them
// is damage. Only the last round may be unfinished. Its caller writes an empty round,
// the closing mark, when there is nothing else to write: it says so of the last round
// that had something in it.
//
// # What is taken back
//
// The caller writes its own files while a round is under way, and one of them may refuse
// what the round has. Then the caller writes another round, right behind it, with a [Cut]
// frame for each such log, and answers nobody before. Read, which looks one round ahead,
// hands on what the cuts leave: a reader never sees what was taken back, so it need not
// undo it: bytes that stand in a segment at that place since, and that no frame has, are
// never written over.
//
// # Room
//
// Files are released when their caller says that their rounds are safe elsewhere, and
// used again. Where all are needed a new one is made, of twice the size of the last, as
// long as there is room on the disk and within [Options]; where there is none, a round is
// refused with [ErrFull] and nothing has happened.
//
// # Concurrency
//
// One goroutine at a time writes, retires and closes; a second one, the journal's own,
// prepares the next file. Round, Bytes, MaxRound and Release may be called by any.
//
// # What it does not do
//
// It knows frames, not topics: what a frame means for which file is its caller's
// business, and so is when the content of a round is safe elsewhere.
package wal
