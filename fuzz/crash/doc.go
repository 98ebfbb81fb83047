// Package crash stops engines at every call that changes the disk, and holds what the
// next start finds against what was promised: docs/durability.md. Programs are random;
// one that breaks a promise is made as short as it gets, and becomes a case of
// TestKnown.
//
//	go test ./fuzz/crash -run TestCampaign -v -crash.points=1000000 -crash.seed=7
//	go test ./fuzz/crash -run TestProgram -v -crash.program='create a 1; publish a/0 3'
//
// # Meet first
//
// Program is what an engine is asked to do, as a text. A life runs one, on a disk in
// memory. Its history says what was tried, and what was answered or shown to a reader;
// a model is what that comes to, commits of groups included. A point is one crash of it, and check holds the engine
// that is opened on what the crash left against the model. Campaign does all this, over
// and over, and tally counts at which calls.
//
// # One run has all crash points
//
// The engine is not stopped. In front of a call the disk is copied as a crash would
// leave it, and with it the length of the history; the engine goes on to the next call.
//
//	answers up to here are promises │ disk copied │ attempts up to here may be on it
//	────────────────────────────────┴─────────────┴─────────────────────────────────▶ history
//
// So a program of two hundred calls costs one run and two hundred starts. A start may
// be cut as well, and so may what the engine does after it, up to four crashes in a row.
//
// # Why a test and no program
//
// Each life is in a bubble of testing/synctest. Half a minute in which checkpoints are
// kept, segments grow old and the journal puts its mark is over at once there, and
// happens at the same place of a program each time; a program of its own would have to
// wait for them, or do without. Only goroutines that run beside each other differ from
// run to run: crowds of publishers, and what follows a roll.
//
// # Concurrency
//
// Workers have nothing in common but the tally and a few counters. What a life shares
// with the goroutines of its engine is said at the type.
//
// # What it does not do
//
// No byte is flipped and no file taken away: that is damage, see the tests of package
// segment. Disks do not lie: the assumptions of docs/durability.md hold. What a peer
// process does is not played.
package crash
