package vfs

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestCrashModel runs random programs on a Mem beside a model that keeps plain
// history: the whole content of every file after each write, and all names
// after each change. A crash may leave what the history explains, nothing else.
func TestCrashModel(t *testing.T) { rapid.Check(t, crashProgram) }

func FuzzCrashModel(f *testing.F) { f.Fuzz(rapid.MakeFuzz(crashProgram)) }

func crashProgram(t *rapid.T) {
	h := newHistory(t)
	for range rapid.IntRange(15, 50).Draw(t, "steps") {
		h.step(t)
	}
	h.checkAll(t)
}

// history is the model. Inodes are known by their id in the Mem.
type history struct {
	mem     *Mem
	moves   bool               // renames between directories are in the program
	files   map[int64]*past    // content of each file
	dirs    map[int64]nameList // durable names of each directory, exact without moves
	trees   []nameList         // all names after each change since everything was durable
	synced  int                // index in trees of the last sync of anything
	unbound map[int64]bool     // inodes that lost a name to a remove or replace since then
	linked  map[int64]bool     // inodes that had two names
	fill    byte
}

type nameList map[string]int64

// past is a file's content after each operation since it was durable, the
// durable one first, with the writes between them.
type past struct {
	contents [][]byte
	ops      []dataOp
}

func newHistory(t *rapid.T) *history {
	h := &history{
		mem: NewMem(), moves: rapid.Bool().Draw(t, "moves"),
		files: map[int64]*past{}, dirs: map[int64]nameList{}, unbound: map[int64]bool{}, linked: map[int64]bool{},
	}
	if rapid.Bool().Draw(t, "something there") {
		for _, name := range []string{"a", "b", "d/a", "d/b", "d/e/a", "e/a"} {
			content := bytes.Repeat([]byte{0xff}, rapid.IntRange(0, 9000).Draw(t, "len"))
			check(t, h.mem.WriteFile(name, content))
			h.files[h.id(name)] = &past{contents: [][]byte{content}}
		}
	}
	for name, id := range names(h.mem) {
		if h.files[id] == nil {
			h.dirs[id] = h.list(name)
		}
	}
	h.changed()
	return h
}

// names lists all names of a Mem; it would not return if there were a circle.
func names(m *Mem) nameList {
	list := nameList{}
	var walk func(ino *inode, name string)
	walk = func(ino *inode, name string) {
		list[name] = ino.id
		if ino.dir != nil {
			for elem, below := range ino.dir.live {
				walk(below, path.Join(name, elem))
			}
		}
	}
	walk(m.disk.root, ".")
	return list
}

func (h *history) id(name string) int64 {
	at, err := h.mem.disk.find("test", name)
	if err != nil || at.ino == nil {
		return 0
	}
	return at.ino.id
}

// fewNames makes writes meet one another.
var fewNames = rapid.SampledFrom([]string{"a", "d/a"})

var crashName = rapid.SampledFrom([]string{"a", "b", "d", "e", "d/a", "d/b", "d/e", "e/a", "e/b", "d/e/a"})

func (h *history) step(t *rapid.T) {
	what := rapid.SampledFrom([]string{
		"create", "create", "write", "write", "write", "truncate", "sync", "sync",
		"clone", "mkdir", "mkdir", "rename", "rename", "rename", "link", "remove", "remove all", "syncdir", "syncdir",
	}).Draw(t, "what")
	name := crashName.Draw(t, "name")
	if (what == "write" || what == "truncate" || what == "sync") && rapid.Bool().Draw(t, "few") {
		name = fewNames.Draw(t, "name")
	}
	switch what {
	case "create":
		if h.with(name, os.O_RDWR|os.O_CREATE, func(File) {}) && h.files[h.id(name)] == nil {
			h.files[h.id(name)] = &past{contents: [][]byte{nil}}
		}
	case "write":
		h.fill++
		op := dataOp{pos: rapid.IntRange(0, 9000).Draw(t, "pos"), data: bytes.Repeat([]byte{h.fill}, rapid.IntRange(1, 6000).Draw(t, "len"))}
		if h.with(name, os.O_RDWR, func(f File) { must(f.WriteAt(op.data, int64(op.pos))) }) {
			h.files[h.id(name)].add(op)
		}
	case "truncate":
		op := dataOp{pos: rapid.IntRange(0, 9000).Draw(t, "size"), resize: true}
		if h.with(name, os.O_RDWR, func(f File) { check(t, f.Truncate(int64(op.pos))) }) {
			h.files[h.id(name)].add(op)
		}
	case "sync":
		if h.with(name, os.O_RDONLY, func(f File) { check(t, f.Sync()) }) {
			p := h.files[h.id(name)]
			*p = past{contents: p.contents[len(p.contents)-1:]}
			h.synced = len(h.trees) - 1
		}
	case "syncdir":
		if h.mem.SyncDir(name) == nil || h.mem.SyncDir(path.Dir(name)) == nil {
			if h.mem.SyncDir(name) != nil {
				name = path.Dir(name)
			}
			h.synced = len(h.trees) - 1
			h.dirs[h.id(name)] = h.list(name)
		}
	case "clone":
		h.cloneAndSpoil(t)
	case "mkdir":
		if h.mem.Mkdir(name) == nil {
			h.dirs[h.id(name)] = nameList{}
		}
	case "rename":
		to := crashName.Draw(t, "to")
		replaced := h.id(to)
		if (h.moves || path.Dir(name) == path.Dir(to)) && h.id(name) != replaced && h.mem.Rename(name, to) == nil {
			h.unbound[replaced] = true
		}
	case "link":
		if h.mem.Link(name, crashName.Draw(t, "to")) == nil {
			h.linked[h.id(name)] = true
		}
	case "remove":
		h.remove(name)
	case "remove all":
		below := slices.Sorted(maps.Keys(names(h.mem)))
		for _, other := range slices.Backward(below) {
			if strings.HasPrefix(other, name+"/") {
				h.remove(other)
			}
		}
		h.remove(name)
	}
	h.changed()
}

// cloneAndSpoil goes on with a copy, and does what it can to harm it through the
// original.
func (h *history) cloneAndSpoil(t *rapid.T) {
	old := h.mem
	h.mem = old.Clone()
	for _, name := range old.Files() {
		f := must(old.OpenFile(name, os.O_RDWR))
		must(f.WriteAt([]byte("spoilt"), 0))
		check(t, f.Truncate(3))
		check(t, f.Sync())
		must(f.WriteAt([]byte("spoilt"), 0))
	}
	for name := range names(old) {
		if old.SyncDir(name) == nil {
			check(t, old.Mkdir(path.Join(name, "spoilt")))
		}
	}
	check(t, old.RemoveAll("d"))
}

func (h *history) remove(name string) {
	id := h.id(name)
	if h.mem.Remove(name) == nil {
		h.unbound[id] = true
		h.changed()
	}
}

// changed notes the names, and starts anew when nothing of them is pending.
func (h *history) changed() {
	now := names(h.mem)
	if len(h.mem.disk.names) == 0 {
		h.trees, h.synced, h.unbound = []nameList{now}, 0, map[int64]bool{}
	} else if last := h.trees[len(h.trees)-1]; !maps.Equal(now, last) {
		h.trees = append(h.trees, now)
	}
}

func (h *history) list(dir string) nameList {
	list := nameList{}
	for name, id := range names(h.mem) {
		if name != "." && path.Dir(name) == dir {
			list[path.Base(name)] = id
		}
	}
	return list
}

// with runs do on the open file, if it can be opened.
func (h *history) with(name string, flag int, do func(f File)) bool {
	f, err := h.mem.OpenFile(name, flag)
	if err != nil {
		return false
	}
	defer f.Close()
	do(f)
	return true
}

// add applies op in the plainest way.
func (p *past) add(op dataOp) {
	b := bytes.Clone(p.contents[len(p.contents)-1])
	if op.resize {
		b = append(b, make([]byte, max(0, op.pos-len(b)))...)[:op.pos]
	} else {
		b = append(b, make([]byte, max(0, op.pos+len(op.data)-len(b)))...)
		copy(b[op.pos:], op.data)
	}
	p.contents = append(p.contents, b)
	p.ops = append(p.ops, op)
}

func (h *history) checkAll(t *rapid.T) {
	before := wholes(h.mem)
	lost := h.mem.Crash(CrashOptions{})
	if !h.moves {
		want := nameList{".": h.mem.disk.root.id}
		h.durableNames(want, ".", h.mem.disk.root.id)
		if got := names(lost); !maps.Equal(got, want) {
			t.Fatalf("durable names are %v, crash leaves %v", want, got)
		}
	}
	for _, how := range []Unsynced{UnsyncedLost, UnsyncedPrefix, UnsyncedSectors, UnsyncedPages, UnsyncedKept} {
		for _, kind := range []Names{NamesLost, NamesJournaled, NamesRandom, NamesKept} {
			opt := CrashOptions{Seed: rapid.Uint64().Draw(t, "seed"), Unsynced: how, Names: kind}
			crashed := h.mem.Crash(opt)
			what := fmt.Sprintf("unsynced %v, names %v, seed %d", how, kind, opt.Seed)
			h.checkContents(t, what, crashed, how)
			h.checkNames(t, what, crashed, lost, kind)
			h.checkCopies(t, what, crashed, opt)
		}
	}
	if after := wholes(h.mem); !slices.EqualFunc(before, after, maps.Equal) {
		t.Fatalf("crashing changed the original from\n%.500v\nto\n%.500v", before, after)
	}
}

func (h *history) durableNames(list nameList, dir string, id int64) {
	for elem, below := range h.dirs[id] {
		name := path.Join(dir, elem)
		list[name] = below
		h.durableNames(list, name, below)
	}
}

// whole is each name of a Mem with its inode and content.
func whole(m *Mem) map[string]string {
	all := map[string]string{}
	for name, id := range names(m) {
		content, _ := m.ReadFile(name) // of a directory nothing
		all[name] = fmt.Sprint(id, " ") + string(content)
	}
	return all
}

// wholes is all that a crash could show, by samples.
func wholes(m *Mem) (all []map[string]string) {
	all = append(all, whole(m))
	for i, n := range []Names{NamesLost, NamesJournaled, NamesRandom, NamesKept} {
		all = append(all, whole(m.Crash(CrashOptions{Seed: 3, Unsynced: Unsynced(i), Names: n})))
	}
	return all
}

func (h *history) checkContents(t *rapid.T, what string, crashed *Mem, how Unsynced) {
	for name, id := range names(crashed) {
		p := h.files[id]
		if p == nil {
			continue
		}
		got := must(crashed.ReadFile(name))
		ok := false
		switch how {
		case UnsyncedLost:
			ok = bytes.Equal(got, p.contents[0])
		case UnsyncedKept:
			ok = bytes.Equal(got, p.contents[len(p.contents)-1])
		case UnsyncedPrefix:
			ok = p.explainsPrefix(got)
		case UnsyncedSectors:
			ok = p.explainsTorn(got, 512)
		case UnsyncedPages:
			ok = p.explainsTorn(got, 4096)
		}
		if !ok {
			t.Fatalf("%s: no history explains the %d bytes of %s", what, len(got), name)
		}
	}
}

func (p *past) explainsPrefix(got []byte) bool {
	for i, before := range p.contents {
		if bytes.Equal(got, before) {
			return true
		}
		if i == len(p.ops) || p.ops[i].resize {
			continue
		}
		op, n := p.ops[i], 0 // how much of the write is there: up to the last new byte
		for k, b := range op.data {
			if at := op.pos + k; at < len(got) && got[at] == b {
				n = k + 1
			}
		}
		part := past{contents: [][]byte{before}}
		part.add(dataOp{pos: op.pos, data: op.data[:n]})
		if bytes.Equal(got, part.contents[1]) {
			return true
		}
	}
	return false
}

func (p *past) explainsTorn(got []byte, unit int) bool {
	okLength := false
	for i, c := range p.contents {
		okLength = okLength || len(got) == len(c)
		if i > 0 {
			okLength = okLength || len(got)%unit == 0 && len(got) > len(p.contents[i-1]) && len(got) < len(c)
		}
	}
	for lo := 0; okLength && lo < len(got); lo += unit {
		if !p.explainsUnit(got[lo:min(lo+unit, len(got))], lo) {
			return false
		}
	}
	return okLength
}

// explainsUnit: the unit is as it was at some moment, perhaps with what a cut
// took away as zeros.
func (p *past) explainsUnit(got []byte, lo int) bool {
	for _, c := range p.contents {
		was := make([]byte, len(got))
		if lo < len(c) {
			copy(was, c[lo:])
		}
		if bytes.Equal(got, was) {
			return true
		}
		for _, op := range p.ops {
			if op.resize && op.pos < lo+len(got) {
				cut := bytes.Clone(was)
				clear(cut[max(0, op.pos-lo):])
				if bytes.Equal(got, cut) {
					return true
				}
			}
		}
	}
	return false
}

func (h *history) checkNames(t *rapid.T, what string, crashed, lost *Mem, kind Names) {
	got := names(crashed)
	switch kind {
	case NamesLost:
		if want := names(lost); !maps.Equal(got, want) {
			t.Fatalf("%s: names %v, want %v", what, got, want)
		}
	case NamesKept:
		if want := names(h.mem); !maps.Equal(got, want) {
			t.Fatalf("%s: names %v, want %v", what, got, want)
		}
	case NamesJournaled:
		if !slices.ContainsFunc(h.trees[h.synced:], func(was nameList) bool { return maps.Equal(got, was) }) {
			t.Fatalf("%s: names %v were never there since the last sync: %v", what, got, h.trees[h.synced:])
		}
	}
	h.checkNothingVanished(t, what, crashed, lost)
}

// checkNothingVanished: what always had a name and never lost one to a remove
// is there; and a rename is never half done.
func (h *history) checkNothingVanished(t *rapid.T, what string, crashed, lost *Mem) {
	states := append([]nameList{names(lost)}, h.trees...)
	count := map[int64]int{}
	bound := slotsOf(crashed)
	for _, id := range names(crashed) {
		count[id]++
	}
	for _, id := range states[0] {
		always := !slices.ContainsFunc(states, func(s nameList) bool { return !slices.Contains(slices.Collect(maps.Values(s)), id) })
		if always && !h.unbound[id] && count[id] == 0 {
			t.Fatalf("%s: inode %d vanished: states %v, crash leaves %v", what, id, states, names(crashed))
		}
	}
	for id, n := range count {
		if n > 1 && !h.linked[id] {
			t.Fatalf("%s: inode %d has %d names: states %v, crash leaves %v", what, id, n, states, names(crashed))
		}
	}
	for s := range slotsOf(lost) {
		always := !slices.ContainsFunc(states, func(list nameList) bool { return !listBinds(list, s) })
		if always && count[s.dir] > 0 && !bound[s] {
			t.Fatalf("%s: %v has neither old nor new: states %v, crash leaves %v", what, s, states, names(crashed))
		}
	}
}

type slotID struct {
	dir  int64
	name string
}

func slotsOf(m *Mem) map[slotID]bool {
	all := map[slotID]bool{}
	list := names(m)
	for name := range list {
		if name != "." {
			all[slotID{list[path.Dir(name)], path.Base(name)}] = true
		}
	}
	return all
}

func listBinds(list nameList, s slotID) bool {
	for name := range list {
		if name != "." && list[path.Dir(name)] == s.dir && path.Base(name) == s.name {
			return true
		}
	}
	return false
}

// checkCopies: the same options give the same, a clone crashes the same, and a
// file system after a crash has nothing left to lose.
func (h *history) checkCopies(t *rapid.T, what string, crashed *Mem, opt CrashOptions) {
	want := whole(crashed)
	copies := map[string]*Mem{
		"the same crash":      h.mem.Crash(opt),
		"the crash of a copy": h.mem.Clone().Crash(opt),
		"a second crash":      crashed.Crash(CrashOptions{Seed: opt.Seed}),
	}
	for how, c := range copies {
		if got := whole(c); !maps.Equal(got, want) {
			t.Fatalf("%s: %s gives %.500v, not %.500v", what, how, got, want)
		}
	}
	for _, name := range crashed.Files() {
		check(t, crashed.WriteFile(name, []byte("after the crash")))
	}
	check(t, crashed.WriteFile("new/file", nil))
}
