//go:build !unix

package varve

// fileLimit is how many descriptors this process may have: no limit is known
// here, so this is a cautious one.
func fileLimit() int { return 8192 }
