// Package docs holds the documentation against the code. It has no code of its
// own, only tests: links and anchors lead somewhere, the README's program runs,
// tables of imports and settings say what the code says, hex dumps decode, and
// every test that a page calls as a witness exists.
//
// Meet page first (page_test.go): one markdown file, taken apart into headings,
// links, code spans, fenced blocks and tables. Each test file beside it states
// one thing that must be true of the pages.
//
// The tests share one read-only set of pages and may run in parallel.
//
// It deliberately does not judge prose, follow links to the network, or write
// any file of the tree.
package docs
