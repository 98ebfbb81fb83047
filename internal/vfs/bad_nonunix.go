//go:build !unix

package vfs

import "errors"

func newBadMapping(int) (Mapping, error) { return nil, errors.ErrUnsupported }
