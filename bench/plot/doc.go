// Package plot draws line charts with logarithmic axes as SVG. Meet [Chart].
//
// It writes text and nothing else, needs no library, and the same chart is the same
// bytes, so that a picture in a repository changes only when a figure does.
//
// A Chart is for one goroutine. It draws no bars, no linear axes and no legends that
// would not fit beside the lines.
package plot
