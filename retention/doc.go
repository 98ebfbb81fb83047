// Package retention decides which segments go and when an active one is due to
// be rolled. Every decision is a pure function of facts, limits and a time.
//
// Meet [Segment], the facts about one segment, then [Expired], [OverBudget] and
// [RollDue].
//
//	oldest                                    active
//	+--------+--------+--------+--------+--------+
//	|  goes  |  goes  | stays  | stays  | stays  |
//	+--------+--------+--------+--------+--------+
//	<---- the answer: 2 --->
//
// An answer is always a number of whole segments from the front, so that what
// stays is one unbroken range of offsets.
//
// # Time
//
// Record timestamps come from clients and cannot be trusted to be sane, so a
// segment is dated by the smaller of its largest record timestamp and the wall
// clock of its last append:
//
//   - a record dated ahead keeps nothing alive (KAFKA-6482);
//   - old data replayed today is old at once, as in Kafka;
//   - a clock that went backwards makes a segment new, never negative in age.
//
// Rolling compares record timestamps only with each other, and the wall clock
// only with the wall clock, so that replaying old data does not roll a segment
// for every batch (KAFKA-4099).
//
// Every int64 is a legal timestamp and every limit is legal up to its maximum:
// differences are taken without overflow (the class of KAFKA-1670).
//
// # Concurrency
//
// There is no state; everything may be called from any goroutine.
//
// # What it does not do
//
// It reads no clock, touches no file, rolls and deletes nothing. A caller that
// is told that the active segment goes rolls it first.
package retention
