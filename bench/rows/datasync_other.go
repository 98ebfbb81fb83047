//go:build !linux

package rows

import "os"

// datasync is the sync there is.
func datasync(f *os.File) error { return f.Sync() }
