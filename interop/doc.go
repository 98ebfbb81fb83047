// Package interop proves by Apache Kafka's own code that varve's files are
// Kafka's files: Kafka reads what varve writes, and varve's test data is what
// Kafka wrote. It holds tests only, behind the build tag interop, because they
// need a JDK and Maven; without the tag there is nothing here.
//
//	make interop        (go test -tags interop -count=1 ./interop/...)
//
// Meet first: java/Golden, which writes the golden record batches that package
// record is tested with; java/Decode, which prints batches as Kafka reads
// them; and checkSegmentDir, which holds any directory of segments against
// kafka-dump-log and against the indexes that Kafka itself would build.
//
// The tests share one toolchain value that is not changed after TestMain; each
// call starts a Java process of its own, so tests may run side by side.
//
// It deliberately starts no broker and speaks no protocol: it is about bytes in
// files.
package interop
