// Package twin keeps a small document in two files, so that damage to either
// one is noticed and loses nothing.
//
// [Save] writes both, one after the other, in place; [Load] returns the newest
// that checks and mends the other. The files are NAME and NAME.copy:
//
//	{"generation":7,"crc32c":"1f2e3d4c","body":{…}}
//
// The checksum covers the generation (as eight big-endian bytes) and the bytes
// of the body as they stand. A file is padded with spaces to a multiple of 512
// bytes, so that a document of about the same length is saved without asking
// the disk for space, and one sector holds it whole.
//
// A save is durable when it returns, the names of the files too. Cut short by a
// crash it leaves the old document or the new one: the second file is touched
// only after the first is on stable storage, and a file that is not there yet
// gets its name when it is whole. One goroutine at a time may save a name.
//
// A caller that keeps documents of many things says by an [Identity] how to tell them
// apart: of two files that speak of different things neither is the newer one.
//
// It is not for large documents or for frequent changes: each save costs two
// syncs, and one of the directory where a document has more than a sector.
package twin
