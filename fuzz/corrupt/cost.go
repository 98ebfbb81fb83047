package main

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/varvelog/varve/record"
)

// cost is what a mutation may take, told or not: docs/durability.md has the promises.
//
//   - A log file costs the batches whose bytes are not there any more, unless the journal
//     has them; a file of the journal those that it alone has.
//   - Behind what a mark covers, damage cannot be told from a torn end: the log is cut
//     there, which one line says.
//   - Everything else costs nothing.
type cost struct {
	m         mutation
	st        *state
	files     map[string][]byte // all of them, as the mutation leaves them
	losses    map[string]loss   // by partition
	directory bool              // may be refused
}

// loss is what a partition may lose.
type loss struct {
	offsets []record.Offset
	// torn is where the log may end from now on, because no mark is left which says that
	// it went further.
	torn record.Offset
	// untold are those of them of which nothing is left that could tell.
	untold []record.Offset
}

func (l loss) has(off record.Offset) bool      { return slices.Contains(l.offsets, off) }
func (l loss) silently(off record.Offset) bool { return slices.Contains(l.untold, off) }

func costOf(m mutation, st *state, changed map[string][]byte) cost {
	files := maps.Clone(st.files)
	maps.Copy(files, changed)
	return cost{m: m, st: st, files: files, losses: map[string]loss{}}
}

// of is what a partition may lose.
func (c *cost) of(p *part) loss {
	l, ok := c.losses[p.name]
	if ok {
		return l
	}
	l.torn = p.end
	if k := kindOf(c.m.file); k == journal || k == logFile && c.touches(p.name) {
		l.offsets = c.missing(p)
		if i, _ := slices.BinarySearch(l.offsets, p.durable); i < len(l.offsets) {
			l.torn = l.offsets[i]
			for off := l.torn; off < p.end; off++ {
				l.offsets = append(l.offsets, off)
			}
		}
		if k == journal && len(l.offsets) > 0 {
			l.torn = l.offsets[0]
		}
		if len(l.offsets) > 0 {
			l.untold = c.untold(p, l.offsets)
		}
	}
	c.losses[p.name] = l
	return l
}

// missing are the offsets of which the bytes are gone. The journal has them put back
// only where it is known how the file begins: not behind something else that is wrong
// with it, nor into one with a seal, which was on stable storage.
func (c *cost) missing(p *part) (list []record.Offset) {
	for n, there := range c.st.available(p, c.files, c.canBePutBack) {
		for off := max(p.batches[n].base, p.start); !there && off < p.batches[n].next; off++ {
			list = append(list, off)
		}
	}
	slices.Sort(list)
	return list
}

func (c *cost) canBePutBack(log string, pos int) bool {
	was, is := c.st.files[log], c.files[log]
	return !c.st.sealed[log] && (c.m.op == "flip" || len(is) >= min(pos, len(was)) && bytes.HasPrefix(is, was[:min(pos, len(was))]))
}

// touches says that a file of the partition is one that the mutation wrote.
func (c *cost) touches(name string) bool {
	return partitionOf(c.m.file) == name || partitionOf(c.m.other) == name
}

// untold are the offsets of which nothing could tell that they were: on a weak level what
// no mark covers, when a log file ends earlier; the last round, without a mark; and all of
// the newest file of the journal, when it is not there, or one of an earlier life is.
func (c *cost) untold(p *part, lost []record.Offset) (list []record.Offset) {
	if kindOf(c.m.file) == logFile {
		i, _ := slices.BinarySearch(lost, p.durable)
		return lost[i:]
	}
	if c.m.op == "put" { // any bytes may be a whole journal, of an earlier time
		return lost
	}
	n := len(c.st.frames)
	newest := n > 0 && c.st.frames[n-1].file == c.m.file && (c.m.op == "remove" || c.m.op == "older")
	for _, f := range c.st.frames {
		if f.part != p || !f.last && !(newest && f.file == c.m.file) {
			continue
		}
		for _, n := range f.batches {
			for off := p.batches[n].base; off < p.batches[n].next; off++ {
				list = append(list, off)
			}
		}
	}
	return list
}

// refuses says that a partition may be refused: a log file is none that was there, or
// its document, or that of its topic, is that of another.
func (c *cost) refuses(name string) bool {
	topic, _, _ := strings.Cut(name, "/")
	switch k := kindOf(c.m.file); {
	case k == logFile && (c.m.op == "copy" || c.m.op == "swap" || c.m.op == "put" || c.m.op == "older"):
		return c.touches(name)
	case c.m.op == "swap" && k == partDoc:
		return c.touches(name)
	case c.m.op == "swap" && k == topicDoc:
		return strings.HasPrefix(c.m.file, "topics/"+topic+"/") || strings.HasPrefix(c.m.other, "topics/"+topic+"/")
	}
	return false
}

// mayReturn says that what a log refused may be put back: no cut is left that takes it back.
func (c *cost) mayReturn(p *part) bool {
	if p.refused == nil || kindOf(c.m.file) != journal {
		return false
	}
	return !slices.ContainsFunc(c.st.frames, func(f frame) bool { return f.cut && f.part == p && c.st.isWhole(&f, c.files[f.file]) })
}

// beyond says that a partition may have offsets above its end, which nothing was
// published at: a file says so that was put there.
func (c *cost) beyond(name string, off record.Offset) bool {
	return c.m.op == "copy" && kindOf(c.m.file) == logFile && partitionOf(c.m.other) == name && off >= c.st.parts[name].end
}
