package vfs

import (
	"path"
	"strings"
	"sync/atomic"
)

// FailNth is the rule that the nth (1, 2, …) matching call fails with err. A
// call matches by kind and by either of its names: a glob (path.Match) with a
// slash is held against the whole name, one without against its last element,
// and "" matches all. A malformed glob panics.
func FailNth(kind OpKind, nameGlob string, n int64, err error) func(Op) Fault {
	return failWhen(kind, nameGlob, err, func(i int64) bool { return i == n })
}

// FailFrom is FailNth for the nth call and all that follow.
func FailFrom(kind OpKind, nameGlob string, n int64, err error) func(Op) Fault {
	return failWhen(kind, nameGlob, err, func(i int64) bool { return i >= n })
}

func failWhen(kind OpKind, glob string, err error, when func(i int64) bool) func(Op) Fault {
	if _, bad := path.Match(glob, ""); bad != nil {
		panic("vfs: " + bad.Error() + ": " + glob)
	}
	var seen atomic.Int64
	return func(op Op) Fault {
		hit := (kind == OpAny || kind == op.Kind) && (matches(glob, op.Name) || matches(glob, op.To))
		if !hit || !when(seen.Add(1)) {
			return Fault{}
		}
		return Fault{Err: err}
	}
}

func matches(glob, name string) bool {
	if name == "" || glob == "" {
		return name != ""
	}
	if !strings.Contains(glob, "/") {
		name = path.Base(name)
	}
	ok, _ := path.Match(glob, name)
	return ok
}
