package varve_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
)

// Files that were being made when the process or the power went, wherever they are, are
// gone after the next start, and so are indexes of no segment.
func TestHalfMadeFilesGoAtTheStart(t *testing.T) {
	disk := vfs.NewMem()
	e, _ := openOn(t, disk)
	want := fill(t, mustTopic(t, e, "t"), "value", 5)
	killed := disk.Clone()
	mustClose(t, e)
	for how, disk := range map[string]*vfs.Mem{"stopped": disk, "killed": killed} {
		left := []string{
			"FORMAT.tmp", "FORMAT.copy.tmp", "checkpoint.tmp", "clean.tmp", "wal/0000000099.wal.tmp", "topics/t/topic.json.tmp", "topics/t/topic.json.copy.tmp",
			"topics/t/0/partition.json.tmp", "topics/t/0/partition.json.copy.tmp", "topics/t/0/seals.tmp", "topics/t/0/leader-epoch-checkpoint.tmp",
			"topics/t/0/00000000000000000099.index", "topics/t/0/00000000000000000099.timeindex",
		}
		for _, name := range left {
			if err := disk.WriteFile(name, []byte("half of it")); err != nil {
				t.Fatal(err)
			}
		}
		e, _ := openOn(t, disk)
		if got := stored(t, partOf(t, mustTopic(t, e, "t"), 0)); len(got) != len(want) {
			t.Errorf("%s: %d records of %d are there", how, len(got), len(want))
		}
		for _, name := range disk.Files() {
			if slices.Contains(left, name) || strings.HasSuffix(name, ".tmp") {
				t.Errorf("%s: %s is still there", how, name)
			}
		}
		mustClose(t, e)
	}
}
