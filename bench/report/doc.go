// Package report is what a run of the benchmark found: as lines for a terminal, as a page
// with tables and pictures, and as JSON that a later run compares itself with. Meet
// [Report] first, then [Verdict], which is a figure and its target.
//
// It is values and text, for one goroutine, and measures nothing.
package report
