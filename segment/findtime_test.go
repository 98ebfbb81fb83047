package segment

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/varvelog/varve/record"
)

// TestFindTimeIsALinearScan draws segments with times that rise, fall, stand
// still, are missing, negative or far in the future, in all codecs, sealed or
// active with a part that is not visible yet, with damage anywhere, and asks for
// times in all ranges. The answer is that of a scan from the front.
func TestFindTimeIsALinearScan(t *testing.T) {
	rapid.Check(t, findTimeModel)
}

func FuzzFindTime(f *testing.F) { f.Fuzz(rapid.MakeFuzz(findTimeModel)) }

// timestamps draws where there is much to confuse.
func timestamps(t *rapid.T) func(i int) int64 {
	kinds := rapid.SampledFrom([]string{"rising", "near", "falling", "wild"}).Draw(t, "times")
	near := rapid.Int64Range(0, 40)
	wild := rapid.OneOf(near, rapid.SampledFrom([]int64{
		record.NoTimestamp, -2, -1000, math.MinInt64 + 1, math.MinInt64, math.MaxInt64, math.MaxInt64 - 1, 1 << 50, 0,
	}))
	clock := rapid.Int64Range(0, 20).Draw(t, "clock")
	return func(int) int64 {
		switch kinds {
		case "rising":
			clock += rapid.Int64Range(0, 3).Draw(t, "step")
			return clock
		case "falling":
			clock -= rapid.Int64Range(0, 3).Draw(t, "step")
			return clock
		case "near":
			return near.Draw(t, "time")
		}
		return wild.Draw(t, "time")
	}
}

func findTimeModel(t *rapid.T) {
	dense := rapid.Bool().Draw(t, "dense")
	st := newStory(record.Offset(rapid.Int64Range(0, 1<<40).Draw(t, "base")), rapid.SampledFrom([]int{1, 100, 400, 4096}).Draw(t, "interval"), dense)
	n := rapid.IntRange(1, 40).Draw(t, "batches")
	time := timestamps(t)
	for range n {
		sh := shape{n: rapid.IntRange(1, 4).Draw(t, "records"), codec: rapid.SampledFrom(allCodecs).Draw(t, "codec"), time: time}
		if !dense {
			sh.gap = record.Offset(rapid.IntRange(0, 5).Draw(t, "gap"))
		}
		st.add(sh)
	}
	disk := newDisk(testingOf(t))
	s := st.write(testingOf(t), disk, NewFiles(4))
	end := st.next()
	sealed := rapid.Bool().Draw(t, "sealed")
	if sealed {
		finish(testingOf(t), s)
	} else {
		visible := rapid.IntRange(0, n).Draw(t, "visible")
		if visible < n {
			end = st.batches[visible].BaseOffset
			s.visible.Store(int64(st.batches[visible].pos))
		}
	}
	defer s.Close()
	damaged := hits{}
	damages := rapid.IntRange(0, 2).Draw(t, "damages")
	for range damages {
		i := rapid.IntRange(0, n-1).Draw(t, "damaged")
		if damaged[i] {
			continue
		}
		damaged[i] = true
		first := 0
		switch {
		case damages > 1: // what the header says of itself helps to tell two of them apart
			first = 27
		case !dense && !sealed: // nothing vouches for the base offset yet
			first = 8
		}
		at := rapid.IntRange(first, st.batches[i].Size()-1).Draw(t, "damaged byte")
		flip(testingOf(t), disk, st.base, (int64(st.batches[i].pos)+int64(at))*8)
	}
	for range rapid.IntRange(1, 20).Draw(t, "lookups") {
		from := st.base + record.Offset(rapid.Int64Range(0, int64(st.next()-st.base)).Draw(t, "from"))
		until := from + record.Offset(rapid.Int64Range(0, int64(st.next()-from)).Draw(t, "until"))
		until = min(until, end)
		ts := rapid.OneOf(rapid.Int64Range(-3, 60), rapid.Custom(func(t *rapid.T) int64 {
			i := rapid.IntRange(0, n-1).Draw(t, "of batch")
			return st.batches[i].MaxTimestamp + int64(rapid.IntRange(-1, 1).Draw(t, "beside"))
		})).Draw(t, "ts")
		want := st.firstAt(testingOf(t), ts, from, until, damaged)
		got, found, err := s.findTime(ts, from, until, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if found != (want >= 0) || found && got != want {
			t.Fatalf("time %d in [%d, %d) is found at %d, %v, want %d", ts, from, until, got, found, want)
		}
	}
}

// testingOf lets the helpers of tests fail a rapid check.
func testingOf(t *rapid.T) testing.TB { return rapidTB{TB: nil, t: t} }

type rapidTB struct {
	testing.TB // nil: what is not below is not used
	t          *rapid.T
}

func (r rapidTB) Helper()           { r.t.Helper() }
func (r rapidTB) Fatal(args ...any) { r.t.Fatal(args...) }

// TestFindTimePassesOverWhatItCannotInflate gives a lookup too little room for a
// batch: it is passed over like damage.
func TestFindTimePassesOverWhatItCannotInflate(t *testing.T) {
	st := newStory(0, 4096, true)
	st.add(shape{n: 1, codec: record.Zstd, value: func(int) []byte { return make([]byte, 100_000) }, time: func(int) int64 { return 5 }})
	st.add(shape{n: 1, codec: record.Zstd, time: func(int) int64 { return 5 }})
	mem, seal := st.sealed(t)
	s := OpenSealed(mem, NewFiles(4), dir, seal, st.opt)
	defer s.Close()
	for limit, want := range map[int]record.Offset{1000: 1, 1 << 20: 0} {
		if got, found, err := s.findTime(5, 0, 2, limit); got != want || !found || err != nil {
			t.Errorf("with %d bytes to inflate to: found at %d, %v, %v, want %d", limit, got, found, err, want)
		}
	}
}

// TestFindTimeNeverAnswersControlRecords has the mark of a transaction carry the
// time that is asked for.
func TestFindTimeNeverAnswersControlRecords(t *testing.T) {
	st := newStory(0, 4096, true)
	var b record.Builder
	b.Reset(nil, 0, record.BatchOptions{Control: true})
	b.Add(7, []byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 0, 0}, nil)
	st.addRaw(b.Finish())
	st.add(shape{n: 1, time: func(int) int64 { return 7 }})
	mem, seal := st.sealed(t)
	s := OpenSealed(mem, NewFiles(4), dir, seal, st.opt)
	defer s.Close()
	if err := errors.Join(st.check(s, nil), st.checkTimes(t, s, nil)); err != nil {
		t.Error(err)
	}
}
