//go:build !windows && (!unix || aix || solaris)

package vfs

import "errors"

// flock refuses: an engine that cannot keep a second writer out must not open.
func (f *dirFile) flock() error { return errors.ErrUnsupported }
