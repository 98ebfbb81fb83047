// Package varve is a durable, partitioned, append-only log to embed in a Go
// program.
//
// Open a directory with [Open], make a topic with [Engine.CreateTopic], put
// records in with [Topic.Publish] and read them, from any offset or time and as
// often as you like, with [Topic.Records] or a [Reader]. By default a publish
// returns when the record is on stable storage, and no reader sees it before.
//
// # Order
//
// A partition is the unit of order: its records have offsets 0, 1, 2, … in the
// order they were appended. No order is promised between partitions. Records of
// the same key go to the same partition as long as the number of partitions
// stays the same.
//
// # What readers get
//
// Reading removes nothing and takes no lock. Records handed out are the caller's
// to keep and must not be changed: readers may share their bytes. Retention
// deletes whole segments from the front; a reader that falls behind it gets an
// [OutOfRangeError], one that meets damage a [CorruptError] which says where to go on.
//
// # Concurrency
//
// Every method of every type may be called from any goroutine, but for [Reader],
// which belongs to one at a time. An engine runs a fixed number of goroutines,
// however many topics, partitions and readers there are; Close waits for them. Handlers
// have up to GroupOptions.Workers more while they are at work.
//
// # Consumer groups
//
// Members of a group share the partitions of its topics: [Engine.Join] makes one,
// [Member.Poll] hands out records, [Member.Commit] keeps the group's place, as durably
// as a record. A partition has one owner at a time, and goes to another only after the
// owner let go of it, left, or was put out for not polling. [Engine.Consume] has records
// pushed to a [Handler] instead.
//
// # What it does not do
//
// It has no network server and no replication: it is the log under them.
package varve
