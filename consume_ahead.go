package varve

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/varvelog/varve/record"
)

// finished is what was processed past a place: it stands in the metadata of the commit,
// so that whoever goes on there need not do it again. As text it is
//
//	finished/1 BASE EPOCH BITS
//
// in which bit i of BITS, base64 without padding, the least significant bit of a byte
// first, is offset BASE+i. It counts only for a commit at BASE: one that was brought down
// or set by hand has another. EPOCH is the latest leader epoch of the records: a record of
// a later one, at an offset that a crash had freed, is another record.
type finished struct {
	base  Offset
	epoch record.Epoch
	bits  []byte
}

const finishedMark = "finished/1"

// parseFinished reads the metadata of a commit. What it does not understand is nothing.
func parseFinished(metadata string, at Offset) finished {
	f := strings.Split(metadata, " ")
	if len(f) != 4 || f[0] != finishedMark || f[1] != strconv.FormatInt(int64(at), 10) {
		return finished{}
	}
	epoch, err := strconv.ParseInt(f[2], 10, 32)
	bits, berr := base64.RawStdEncoding.DecodeString(f[3])
	if err != nil || berr != nil || len(bits) > mostAhead/8 {
		return finished{}
	}
	return finished{at, record.Epoch(epoch), bits}
}

// has says whether a record is among them.
func (f *finished) has(off Offset, epoch record.Epoch) bool {
	return epoch <= f.epoch && f.bit(off)
}

func (f *finished) bit(off Offset) bool {
	i := off - f.base
	return i >= 0 && i < Offset(len(f.bits))*8 && f.bits[i/8]&(1<<(i%8)) != 0
}

// add enters a record. One too far ahead is left out.
func (f *finished) add(off Offset, epoch record.Epoch) {
	i := off - f.base
	if i < 0 || i >= mostAhead {
		return
	}
	for i/8 >= Offset(len(f.bits)) {
		f.bits = append(f.bits, 0)
	}
	f.bits[i/8] |= 1 << (i % 8)
	f.epoch = max(f.epoch, epoch)
}

// addRest enters those of old from an offset on.
func (f *finished) addRest(old *finished, from Offset) {
	for off := max(from, old.base); off < old.base+Offset(len(old.bits))*8; off++ {
		if old.bit(off) {
			f.add(off, old.epoch)
		}
	}
}

// String is the metadata of a commit, "" where nothing was finished.
func (f *finished) String() string {
	if len(f.bits) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %d %d %s", finishedMark, f.base, f.epoch, base64.RawStdEncoding.EncodeToString(f.bits))
}
