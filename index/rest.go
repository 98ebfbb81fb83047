package index

import (
	"errors"
	"fmt"
)

// Rest is Flush at a clean stop: it leaves the files as Kafka leaves those of an
// active segment, so that Kafka can open them. Both exist, of exact length, and
// the time index has an entry of the largest timestamp at its end. That entry is
// not in the mark: Resume cuts it, and the index grows on as if there had been no
// stop.
func (a *Active) Rest() (Mark, error) {
	err := errors.Join(a.offsets.complete(), a.times.complete())
	if err == nil && a.tail.MaxTimestamp > a.times.last.key {
		err = a.times.writeBehind(slot{a.tail.MaxTimestamp, int64(a.tail.MaxOffset - a.base)})
	}
	if err != nil {
		return Mark{}, fmt.Errorf("rest index %s: %w", a.fs.Path(a.name), err)
	}
	m := a.mark()
	m.Tail = a.tail
	return m, nil
}

// writeBehind writes an entry behind the stored ones that is not one of them.
func (t *table) writeBehind(s slot) error {
	f, err := t.open()
	if err != nil {
		return err
	}
	entry := make([]byte, t.width)
	t.put(entry, 0, s)
	_, err = f.WriteAt(entry, int64(t.stored)*int64(t.width))
	return errors.Join(err, f.Close())
}
