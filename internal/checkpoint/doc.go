// Package checkpoint has the two files in which an engine keeps how its logs stand:
// the checkpoint itself, and the mark of a clean stop. Both are derived: without
// them a start reads more, and the answers are the same.
//
// Meet [File] first, then [Entry], which it has of each log, and [Mark].
//
// The file "checkpoint", all integers big-endian, replaced by rename:
//
//	 0   8  "varvecp2"
//	 8   8  generation, rising with every save
//	16   4  number of logs
//	20   4  reserved, 0
//	24      for each log: topic id (16), partition (4), round of the journal (8),
//	        and the [partition.CheckpointSize] bytes of partition.Checkpoint
//	last 4  CRC-32C of everything before
//
// Directories of version 1 had no journal: "varvecp1", and no rounds. They are read
// as if every round were 0.
//
// The file "clean" says that nothing was written after that checkpoint:
//
//	 0   8  "varvecl1"
//	 8   8  generation of the checkpoint
//	16   8  starts of engines on the directory, up to the one that stopped
//	24   4  CRC-32C of the bytes before
//
// # Concurrency
//
// Values without locks: whoever shares one guards it.
//
// # What it does not do
//
// It touches no file system: when the files are written, and in which order, is the
// engine's crash argument and stands there.
package checkpoint
