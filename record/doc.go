// Package record holds record batches as values: it encodes, decodes, checks
// and compresses Kafka's record batch format v2, byte for byte.
//
// Meet first: Batch (a parsed header over stored bytes; Parse makes one),
// Iterator (its records), Builder (makes one), Validate (what a broker checks
// of one that it is sent).
//
// A batch, numbers big-endian (KIP-98; Kafka's class DefaultRecordBatch):
//
//	at  size
//	 0  8  base offset            ┐
//	 8  4  length: bytes from 12  │ not covered by the checksum:
//	12  4  leader epoch           │ the log writes here
//	16  1  magic: 2               ┘
//	17  4  CRC-32C of everything from byte 21 on
//	21  2  attributes: bits 0-2 codec, 3 LogAppendTime, 4 transactional,
//	       5 control, 6 delete horizon
//	23  4  last offset delta
//	27  8  base timestamp
//	35  8  max timestamp
//	43  8  producer id            ┐
//	51  2  producer epoch         │ all -1 without one
//	53  4  base sequence          ┘
//	57  4  record count
//	61     the records, compressed as one stream
//
// A record, numbers as zigzag varints (Kafka's class DefaultRecord):
//
//	length of what follows | attributes: 0 (one byte)
//	timestamp delta (64 bits) | offset delta
//	key length, -1 for null | key | value length, -1 for null | value
//	header count, then for each: key length | key | value length, -1 for null | value
//
// Concurrency: a Batch does not change after Parse, so any number of
// goroutines may use one, and all functions on it; an Iterator or a Builder
// is for one goroutine. The functions that change a batch in place
// (SetBaseOffset and those beside it) need the bytes to themselves.
//
// It deliberately does not read message sets of magic 0 and 1, does not
// interpret control records, keeps no state of producers, and leaves every
// rule that depends on a topic or on the sender to its caller.
package record
