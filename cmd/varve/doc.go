// Command varve creates topics, publishes records to them, replays and follows
// them, and looks into the files they are kept in.
//
// Run varve help for the list of commands; each one's help ends in an example.
package main
