// Package measure runs contenders in turn and sums up what comes out. Meet [Rounds],
// which interleaves them, and [Spread], the median of a figure and how far its runs lie
// apart.
//
// A machine gets faster and slower by itself. So contenders are compared within a round,
// run by run, and [Ratio] is the median of those ratios, not the ratio of medians.
//
// Concurrency: one round at a time; a contender may run as many goroutines as it likes.
//
// It knows nothing of logs, and judges nothing.
package measure
