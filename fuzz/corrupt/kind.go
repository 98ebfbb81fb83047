package main

import (
	"path"
	"strings"
)

// kind is what a file of a data directory is for, and with it what damage to it may
// cost.
type kind string

// The kinds, as the table of results has them.
const (
	format     kind = "FORMAT"
	lock       kind = "LOCK"
	checkpoint kind = "checkpoint"
	clean      kind = "clean"
	topicDoc   kind = "topic.json"
	partDoc    kind = "partition.json"
	logFile    kind = "log"
	indexFile  kind = "index"
	timeIndex  kind = "timeindex"
	seals      kind = "seals"
	epochs     kind = "leader-epoch-checkpoint"
	journal    kind = "wal"
)

var kinds = []kind{format, lock, checkpoint, clean, topicDoc, partDoc, logFile, indexFile, timeIndex, seals, epochs, journal}

const copySuffix = ".copy"

func kindOf(file string) kind {
	base := strings.TrimSuffix(path.Base(file), copySuffix)
	if ext := path.Ext(base); ext != "" && ext != ".json" {
		return kind(ext[1:])
	}
	return kind(base)
}

// document says that the file is there twice.
func (k kind) document() bool { return k == format || k == topicDoc || k == partDoc }

// partitionOf is the partition that a file belongs to, as topic/number; "" for none.
func partitionOf(file string) string {
	elems := strings.Split(file, "/")
	if len(elems) != 4 {
		return ""
	}
	return elems[1] + "/" + elems[2]
}
