// Package rows is the benchmark: one file a concept, each with what is done, by whom and
// against which target. Meet [Row] and [Env] first, then [All].
//
// All contenders get the same records in the same batches from as many goroutines.
// varve is used through its public API with its default options; where a row sets one,
// its text says so. Rates are taken over a fixed time, so that a slow contender does not
// make a run long; what is compared is compared within a round.
//
// A Row is run alone in its process, one after the other: two would measure each other.
package rows
