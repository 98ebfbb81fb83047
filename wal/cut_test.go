package wal

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// data is a frame with size bytes at pos of segment 0 of a partition.
func data(partition int32, pos record.Pos, size int, next record.Offset) Frame {
	f := aFrame(1, size)
	f.Log, f.Base, f.Pos, f.Next = Log{Partition: partition}, 0, pos, next
	return f
}

// cutJournal has three rounds in front of a mark, the last of which cuts the one in front.
func cutJournal(t *testing.T) *vfs.Mem {
	m := disk(t)
	j := open(t, m)
	elsewhere := data(2, 100, 50, 19)
	elsewhere.Base = 10
	write(t, j, data(1, 0, 100, 4), data(2, 0, 100, 4), data(3, 0, 100, 4))
	write(t, j, data(1, 100, 60, 9), data(2, 100, 50, 9), data(3, 100, 50, 9), elsewhere,
		Frame{Kind: Direct, Log: Log{Partition: 4}, Pos: 100, Next: 9, Length: 500})
	write(t, j, Frame{Kind: Cut, Log: Log{Partition: 1}, Pos: 120, Next: 6}, Frame{Kind: Cut, Log: Log{Partition: 2}, Pos: 100, Next: 4})
	write(t, j, data(2, 100, 30, 7))
	write(t, j)
	return m
}

// lengths of the frames of a partition in each round, and what was taken back of them.
func lengths(rounds []Round, partition int32) (has, back []int64, nexts []record.Offset) {
	for _, r := range rounds {
		for _, f := range r.Frames {
			if f.Kind == Data && f.Log.Partition == partition {
				if int64(len(f.Payload)) != f.Length {
					return nil, nil, nil
				}
				has, back, nexts = append(has, f.Length), append(back, f.TakenBack), append(nexts, f.Next)
			}
		}
	}
	return has, back, nexts
}

// What a round takes back is taken from the one in front of it, of its segment alone, also
// where the header of either is lost.
func TestCutTakesBack(t *testing.T) {
	for name, at := range map[string][]int64{
		"whole": nil, "the round is found without its header": {2 * page}, "the cut is": {3 * page}, "both are": {2 * page, 3 * page},
	} {
		t.Run(name, func(t *testing.T) {
			m := cutJournal(t)
			for _, pos := range at {
				check(t, m.FlipBit(fileName(dir, 1), 8*(pos+9)))
			}
			rounds, _ := readAll(t, m)
			for partition, want := range map[int32][3][]int64{
				1: {{100, 20}, {0, 40}, {4, 6}}, 2: {{100, 0, 50, 30}, {0, 50, 0, 0}, {4, 4, 19, 7}}, 3: {{100, 50}, {0, 0}, {4, 9}},
			} {
				has, back, nexts := lengths(rounds, partition)
				if !slices.Equal(has, want[0]) || !slices.Equal(back, want[1]) || !slices.EqualFunc(nexts, want[2], func(a record.Offset, b int64) bool { return int64(a) == b }) {
					t.Errorf("partition %d: frames of %d bytes, %d taken back, up to %d; expected %d", partition, has, back, nexts, want)
				}
			}
			for _, r := range rounds {
				for _, f := range r.Frames {
					if f.Kind == Direct && f.Length != 500 {
						t.Errorf("of 500 bytes that were synced %d are left", f.Length)
					}
				}
			}
		})
	}
}

// A cut of a round of which nothing proves that it was finished, and no header says where it
// begins, takes nothing back.
func TestCutWithoutItsRound(t *testing.T) {
	m := disk(t)
	j := open(t, m)
	write(t, j, data(1, 0, 100, 4))
	write(t, j, Frame{Kind: Cut, Log: Log{Partition: 1}, Pos: 40, Next: 2})
	check(t, m.FlipBit(fileName(dir, 1), 8*(2*page+9)))
	rounds, _ := readAll(t, m)
	if has, _, _ := lengths(rounds, 1); !slices.Equal(has, []int64{100}) {
		t.Errorf("frames of %d bytes", has)
	}
}

// A file of version 1 is read; one of a version to come is not, and said to be one.
func TestVersions(t *testing.T) {
	for v, want := range map[uint32]int{0: 0, 1: 5, 2: 5, 3: 0} {
		m := cutJournal(t)
		name := fileName(dir, 1)
		b, err := m.ReadFile(name)
		check(t, err)
		for _, at := range []int{0, headerCopy} {
			binary.BigEndian.PutUint32(b[at+12:], v)
			binary.BigEndian.PutUint32(b[at+8:], crc32.Checksum(b[at+12:at+fileHeader], castagnoli))
		}
		check(t, m.WriteFile(name, b))
		rounds, old := readAll(t, m)
		if len(rounds) != want || (want == 0) != (len(old.Damaged) > 0) {
			t.Errorf("version %d: %d rounds, damaged: %v", v, len(rounds), old.Damaged)
		}
	}
}

// However full a journal is, there is room to take back the round that was written last,
// in the same file.
func TestThereIsRoomForACut(t *testing.T) {
	for _, logs := range []int{1, 60, 62, 63, 64, 200, 0} {
		m := disk(t)
		j := open(t, m)
		if logs == 0 {
			logs = int(j.MaxRound() / (FrameBytes(61) + CutBytes))
		}
		var frames, cuts []Frame
		for n := range logs {
			frames = append(frames, data(int32(n), 0, 61, 1))
			cut := Frame{Kind: Cut, Log: Log{Partition: int32(n)}}
			cuts = append(cuts, cut, cut)
		}
		rounds := 0
		for {
			if _, err := j.Write(frames); err != nil {
				break // full
			}
			name := j.cur.name
			rounds++
			if rounds%3 == 0 {
				if _, err := j.Write(nil); err != nil {
					break
				}
				continue
			}
			if _, err := j.Write(cuts); err != nil || j.cur.name != name {
				t.Fatalf("%d logs: the cut of round %d goes to %s, the round to %s (%v)", logs, rounds, j.cur.name, name, err)
			}
		}
		if rounds < 4 {
			t.Errorf("%d logs: only %d rounds", logs, rounds)
		}
	}
}
