// Package kafkaoffsets reads and writes the records of Kafka's topic
// __consumer_offsets as bytes: keys, values, and which partition a group's are
// in. `kafka-dump-log --offsets-decoder` decodes what it writes.
//
// Begin with AppendCommitKey and AppendCommitValue, and DecodeKey for the way back.
//
// Every key and value begins with two bytes. In a key they say what kind of
// record it is (Kind), in a value which version of the kind's schema follows. All
// integers are big-endian, and a record with a null value is a tombstone: what
// the key names is gone. A commit as this package writes it:
//
//	key    +----+----------+-----------+-------------+
//	       |  1 | group    | topic     | partition   |    1: a commit
//	       +----+----------+-----------+-------------+
//	         2   2 + bytes   2 + bytes   4               strings: 2 bytes length, UTF-8
//
//	value  +----+--------+--------------+----------+-------------+----------------+
//	       |  4 | offset | leader epoch | metadata | commit time | tagged fields  |
//	       +----+--------+--------------+----------+-------------+----------------+
//	         2   8        4              n + bytes   8 (ms)        1 or 19
//
//	tagged fields  00                     none: the topic's id is not known
//	               01 00 10 topic id      one: tag 0, 16 bytes
//
// Version 4 is the first flexible one: the length of the metadata is a varint of
// one more than the bytes, and tagged fields follow. The topic id is from KAFKA-19141;
// readers from before pass over it. A commit with a time of its own to expire
// goes into version 1, the only one that has a place for it, as in Kafka; that
// has none for leader epoch and topic id.
//
// Versions 0 to 4 of a commit's value are read, as are those of the metadata of a
// group of the classic protocol. Records of the other kinds that Kafka 4.4 writes
// are known by their keys and not taken apart.
//
// The functions keep no state and may be called from many goroutines. None of
// them stores, compacts or interprets anything.
package kafkaoffsets
