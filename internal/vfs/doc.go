// Package vfs holds the few file operations the engine uses: on the real file
// system, in memory with a model of what a power cut leaves, and with faults
// put in. It exists so that every crash and every disk error can be played
// through on the engine itself, and so that what the platforms differ in is in
// one place.
//
// # Meet first
//
// FS and File are the contract, in vfs.go. Dir is the real thing. Mem is the
// test double: it keeps apart what is visible and what is durable, and
// Mem.Crash returns one of the states a power cut may leave, chosen by a seed.
// Faulty wraps either and asks a rule about each call. Guard is how the bytes of
// a Mapping are touched.
//
// # What a crash may leave
//
// The data of a file and its name are separate matters. Per file there is the
// durable content and the list of writes since the last Sync:
//
//	durable content   pending operations, oldest first
//	┌──────────────┐  ┌───────┐ ┌──────────┐ ┌───────┐
//	│ 0 … length   │  │ write │ │ resize   │ │ write │   Sync applies them all
//	└──────────────┘  └───────┘ └──────────┘ └───────┘
//	 UnsyncedLost      UnsyncedPrefix: the first few, the last of them in part
//	                   UnsyncedSectors, UnsyncedPages: every 512 or 4096 bytes as
//	                   of some moment, the length as of another
//
// and for the whole tree there is a list of changes of names, which SyncDir
// makes durable for one directory (NamesLost), or any sync for all that came
// before it (NamesJournaled); without a journal each may be there or not
// (NamesRandom). What the modes promise is at their constants; a model test
// holds Mem to it, and another holds Mem to the real file system in all that is
// visible.
//
// # Concurrency
//
// Everything may be used from any goroutine, but that one File has one writer at
// a time. Dir has no state of its own. Mem has one mutex. Faulty holds a mutex
// while it asks its rule, never while it waits or calls the inner file system.
//
// # What it does not do
//
// It caches nothing, keeps no file position, knows no permissions beyond 0600
// and 0700, follows no symbolic links and makes none, and hides no error: a
// failed Sync is the caller's to act on. A Mem has no holes, no cost of names,
// and no disk that loses what it acknowledged.
package vfs
