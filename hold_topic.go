package varve

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/varvelog/varve/group"
)

// holds says that there is a topic that keeps its records for a group.
func (e *Engine) holds() bool {
	return slices.ContainsFunc(e.allTopics(), func(t *Topic) bool { return len(t.config().hold.groups) > 0 })
}

// wakeHeld has all publishers look anew that a group keeps back.
func (e *Engine) wakeHeld() {
	for _, t := range e.allTopics() {
		for _, p := range t.parts() {
			p.wakeHeld()
		}
	}
}

// hold puts in force for which groups the topic keeps its records.
func (t *Topic) hold(c holding) {
	for _, p := range t.parts() {
		p.setHold(c)
	}
	t.engine.readPlaces()
}

// readPlaces sees to it that the places of groups are known, if there is a topic that
// heeds them. Until they are it counts all of them as at the beginning.
func (e *Engine) readPlaces() {
	if e.groups.loaded.Load() || !e.holds() {
		return
	}
	if err := e.groups.ready(); err != nil && !errors.Is(err, ErrClosed) {
		e.log.Error("cannot read the commits of groups", "err", err)
	}
}

// holdsFor says that a topic keeps its records for a group.
func (c *coordinator) holdsFor(id group.TopicID, groupID string) bool {
	known := c.catalog.Load()
	if known == nil || known.ids[id] == nil {
		return false
	}
	return slices.Contains(known.ids[id].config().hold.groups, groupID)
}

// letGo takes a group that was deleted out of hold.groups of all topics: it would count
// as at the beginning of each, for ever.
func (e *Engine) letGo(groupID string) error {
	var errs []error
	for _, t := range e.Topics() {
		if !slices.Contains(t.config().hold.groups, groupID) {
			continue
		}
		if err := t.letGo(groupID); err != nil && !errors.Is(err, ErrClosed) {
			errs = append(errs, fmt.Errorf("it is gone, but hold.groups of topic %s still names it: %w", t.name, err))
		}
	}
	return errors.Join(errs...)
}

func (t *Topic) letGo(groupID string) error {
	t.engine.catalogMu.Lock()
	defer t.engine.catalogMu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(t.config().hold.groups), func(id string) bool { return id == groupID })
	if len(rest) == 0 {
		return t.alterLocked(nil, "hold.groups")
	}
	return t.alterLocked(map[string]string{"hold.groups": strings.Join(rest, ",")})
}
