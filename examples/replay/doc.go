// Command replay is varve's main job on a million records: it publishes a stream
// of events to a topic of four partitions, keyed by user, closes the engine, opens
// it again, and replays the topic from the start, from the middle by offset and
// from the middle by time. Each replay is held against checksums kept while
// publishing, and the events of each user must come in the order they were made.
//
// Events are made up on the fly, the same ones for the same -seed. It prints what
// it did and exits with 1 if anything differs.
//
//	go run ./examples/replay
//	go run ./examples/replay -records 5000000 -dir ./replay-data
package main
