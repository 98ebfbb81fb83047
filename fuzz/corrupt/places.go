package main

import (
	"bytes"
	"fmt"
	"math"
	"path"
	"strings"

	checkpoints "github.com/varvelog/varve/internal/checkpoint"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
	"github.com/varvelog/varve/wal"
)

// batch is the place of one in a log file. data is all of it: where only the journal
// has it, it is not yet in the file.
type batch struct {
	file       string
	pos        int
	data       []byte
	base, next record.Offset
}

// frame is the place of one in the journal, with the batches in it.
type frame struct {
	file      string
	pos, size int
	round     int  // where the header of its round stands
	last      bool // no mark follows the round
	cut       bool // it takes back what a log refused
	batches   []int
	part      *part
	log       string // the file of a log that it goes to
	at        int    // where in it
}

// Sizes of docs/format/journal.md.
const (
	journalPage    = 4096
	fileHeader     = 48
	fileHeaderCopy = 2048
	roundHeader    = 40
)

// findBatches takes down where each batch stands, from the files as recovery has them.
func (st *state) findBatches(recovered *vfs.Mem) error {
	for _, file := range recovered.Files() {
		if kindOf(file) != logFile {
			continue
		}
		data, err := recovered.ReadFile(file)
		if err != nil {
			return err
		}
		p := st.parts[partitionOf(file)]
		for pos := 0; pos < len(data); {
			b, err := record.Parse(data[pos:])
			if err == nil {
				err = b.Verify()
			}
			if err != nil {
				return fmt.Errorf("%s at %d: %w", file, pos, err)
			}
			p.batches = append(p.batches, batch{file, pos, b.Bytes(), b.BaseOffset, b.NextOffset()})
			pos += b.Size()
		}
	}
	return nil
}

// findFrames takes down where each frame of the journal stands.
func (st *state) findFrames(ids map[wal.Log]string) error {
	if st.name == "stopped" {
		return nil
	}
	_, err := wal.Read(st.disk.Clone(), "wal", func(r wal.Round) error {
		pos := int(r.Pos) + roundHeader
		for i := range r.Frames {
			f := &r.Frames[i]
			placed := frame{
				file: "wal/" + path.Base(r.Path), pos: pos, size: int(f.Size()), round: int(r.Pos), last: r.Last, cut: f.Kind == wal.Cut,
				part: st.parts[ids[f.Log]],
			}
			if f.TakenBack > 0 {
				placed.size = int(wal.FrameBytes(f.Length + f.TakenBack))
			}
			log := fmt.Sprintf("topics/%s/%s%s", placed.part.name, segment.FileName(f.Base), segment.LogSuffix)
			placed.log, placed.at = log, int(f.Pos)
			for n, b := range placed.part.batches {
				if b.file == log && b.pos >= int(f.Pos) && b.pos < int(f.Pos)+int(f.Length) {
					placed.batches = append(placed.batches, n)
				}
			}
			st.frames = append(st.frames, placed)
			if !r.Last {
				placed.part.durable = max(placed.part.durable, f.Next)
			}
			pos += placed.size
		}
		return nil
	})
	return err
}

// findDurable takes down up to where each partition is known to have been durable, the
// journal's frames aside: by the checkpoint, by its seals, by the last file that holds a
// batch, on a topic that syncs first. After a clean stop all of it is.
func (st *state) findDurable(ids map[wal.Log]string) error {
	cp, err := checkpoints.Decode(st.files["checkpoint"])
	if err != nil {
		return err
	}
	for key, entry := range cp.Logs {
		p := st.parts[ids[key]]
		p.durable = max(p.durable, entry.Active.Next)
	}
	for name, p := range st.parts {
		for data := st.files["topics/"+name+"/seals"]; len(data) >= segment.SealSize; data = data[segment.SealSize:] {
			if seal, err := segment.DecodeSeal(data); err == nil {
				p.durable = max(p.durable, seal.Next)
				st.sealed[fmt.Sprintf("topics/%s/%s%s", name, segment.FileName(seal.Base), segment.LogSuffix)] = true
			}
		}
		for _, b := range p.batches {
			if strings.HasPrefix(name, "f/") && b.pos == 0 && st.inLog(&b) {
				p.durable = max(p.durable, b.base)
			}
		}
		if st.name == "stopped" {
			p.durable = p.end
		}
	}
	return nil
}

// inLog says that the file of a log has a batch, and not the journal alone.
func (st *state) inLog(b *batch) bool { return has(st.files[b.file], b) }

func has(file []byte, b *batch) bool {
	return len(file) >= b.pos+len(b.data) && bytes.Equal(file[b.pos:b.pos+len(b.data)], b.data)
}

// available says of each batch of a partition whether the files, as a mutation leaves
// them, still have it: the log, or a frame of the journal, if frames can be put back at
// the place where the first of its log begins.
func (st *state) available(p *part, files map[string][]byte, canBePutBack func(log string, pos int) bool) []bool {
	list := make([]bool, len(p.batches))
	for i := range p.batches {
		list[i] = has(files[p.batches[i].file], &p.batches[i])
	}
	for i := range st.frames {
		f := &st.frames[i]
		if f.part == p && st.isWhole(f, files[f.file]) && canBePutBack(f.log, st.putBackFrom(f.log)) {
			for _, n := range f.batches {
				list[n] = true
			}
		}
	}
	return list
}

// putBackFrom is the position in a log file at which the journal's first frame of it goes.
func (st *state) putBackFrom(log string) int {
	from := math.MaxInt
	for i := range st.frames {
		if f := &st.frames[i]; f.log == log {
			from = min(from, f.at)
		}
	}
	return from
}

// isWhole says that a frame can be read in a file of the journal: it is as it was, one
// of the headers of the file is, and, of the last round, which nothing proves to have
// been finished, the header of the round.
func (st *state) isWhole(f *frame, data []byte) bool {
	same := func(from, size int) bool {
		was := st.files[f.file]
		return len(data) >= from+size && bytes.Equal(was[from:from+size], data[from:from+size])
	}
	return same(f.pos, f.size) && (same(0, fileHeader) || same(fileHeaderCopy, fileHeader)) && (!f.last || same(f.round, roundHeader))
}
