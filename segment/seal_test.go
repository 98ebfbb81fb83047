package segment

import (
	"encoding/hex"
	"hash/crc32"
	"math"
	"strings"
	"testing"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/record"
)

var exampleSeal = Seal{
	Base: 4096, Next: 4246, Size: 16200, MaxTimestamp: 1700000014000, LastAppend: 1700000014005,
	FirstEpoch: 3, LastEpoch: 5, HeaderSum: 0x6f84d9fc, Dense: true,
	Index: index.Mark{Entries: 3, TimeEntries: 4, Sum: 0x9cb66a73, TimeSum: 0x4e7fe8fa},
}

// TestSealBytes holds the encoding to bytes that were written down once.
func TestSealBytes(t *testing.T) {
	golden := strings.Join([]string{
		"69992b02", "76736c31", // checksum, mark
		"0000000000001000", "0000000000001096", "0000000000003f48", // base, next, size
		"0000018bcfe59eb0", "0000018bcfe59eb5", // largest timestamp, last append
		"00000003", "00000005", "6f84d9fc", "00000001", // epochs, headers, dense
		"00000003", "00000004", "9cb66a73", "4e7fe8fa", // index
	}, "")
	if got := hex.EncodeToString(exampleSeal.Append(nil)); got != golden {
		t.Errorf("encoded as\n%s, want\n%s", got, golden)
	}
	raw, err := hex.DecodeString(golden)
	if err != nil || len(raw) != SealSize {
		t.Fatal(len(raw), err)
	}
	if got, err := DecodeSeal(raw); got != exampleSeal || err != nil {
		t.Errorf("decoded as %+v, %v", got, err)
	}
}

// TestSealRoundTrip encodes what is at the edges, behind other bytes.
func TestSealRoundTrip(t *testing.T) {
	for _, s := range []Seal{
		{},
		{Base: math.MaxInt64, Next: math.MaxInt64, Size: math.MaxInt64, MaxTimestamp: math.MaxInt64, LastAppend: math.MaxInt64},
		{MaxTimestamp: NoMaxTimestamp, LastAppend: math.MinInt64, FirstEpoch: -1, LastEpoch: math.MaxInt32, HeaderSum: math.MaxUint32},
		{MaxTimestamp: record.NoTimestamp, Index: index.Mark{Entries: math.MaxInt32, TimeEntries: math.MaxInt32, Sum: math.MaxUint32, TimeSum: 1}},
		exampleSeal,
	} {
		raw := s.Append([]byte("before"))
		if len(raw) != 6+SealSize || string(raw[:6]) != "before" {
			t.Fatalf("%+v is %d bytes", s, len(raw))
		}
		if got, err := DecodeSeal(append(raw[6:], "behind"...)); got != s || err != nil {
			t.Errorf("%+v came back as %+v, %v", s, got, err)
		}
	}
}

// TestEveryFlipOfASealIsNoticed flips each bit, and cuts at each byte.
func TestEveryFlipOfASealIsNoticed(t *testing.T) {
	raw := exampleSeal.Append(nil)
	for bit := range len(raw) * 8 {
		raw[bit/8] ^= 1 << (bit % 8)
		if s, err := DecodeSeal(raw); err == nil || s != (Seal{}) {
			t.Errorf("bit %d is flipped: %+v, %v", bit, s, err)
		}
		raw[bit/8] ^= 1 << (bit % 8)
	}
	for n := range len(raw) {
		if _, err := DecodeSeal(raw[:n]); err == nil {
			t.Errorf("%d bytes are a seal", n)
		}
	}
}

// TestSealThatContradictsItself has the right checksum over what cannot be.
func TestSealThatContradictsItself(t *testing.T) {
	for name, change := range map[string]func(s *Seal){
		"negative base offset": func(s *Seal) { s.Base = -1 },
		"next below base":      func(s *Seal) { s.Next = s.Base - 1 },
		"negative size":        func(s *Seal) { s.Size = -1 },
		"negative entries":     func(s *Seal) { s.Index.Entries = -1 },
		"negative times":       func(s *Seal) { s.Index.TimeEntries = -1 },
	} {
		s := exampleSeal
		change(&s)
		if got, err := DecodeSeal(s.Append(nil)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestSealOfASegment is what Finish says of a segment, against the model.
func TestSealOfASegment(t *testing.T) {
	for name, st := range map[string]*story{
		"dense":  manyBatches(true, noGaps, stepping),
		"sparse": manyBatches(false, someGaps, constant(5)),
	} {
		mem, seal := st.sealed(t)
		largest := NoMaxTimestamp
		var heads []byte
		for i := range st.batches {
			largest = max(largest, st.batches[i].MaxTimestamp)
			heads = append(heads, st.batches[i].Bytes()[:17]...)
		}
		index := indexFiles(t, mem, st.base)
		want := Seal{
			Base: st.base, Next: st.next(), Size: st.size(), MaxTimestamp: largest, LastAppend: int64(1000 + len(st.batches) - 1),
			FirstEpoch: st.batches[0].LeaderEpoch, LastEpoch: st.batches[len(st.batches)-1].LeaderEpoch,
			HeaderSum: crc32.Checksum(heads, crc32.MakeTable(crc32.Castagnoli)), Dense: name == "dense",
		}
		want.Index.Entries, want.Index.TimeEntries = len(index[0])/8, len(index[1])/12
		want.Index.Sum, want.Index.TimeSum = crc32.Checksum(index[0], castagnoli), crc32.Checksum(index[1], castagnoli)
		if seal != want {
			t.Errorf("%s: the seal is\n%+v, want\n%+v", name, seal, want)
		}
		st.verify(t, mem, seal)
	}
}

func FuzzDecodeSeal(f *testing.F) {
	raw := exampleSeal.Append(nil)
	f.Add(raw, false)
	f.Add(raw, true)
	f.Add(raw[:40], true)
	f.Add((&Seal{}).Append(nil), false)
	f.Add(append(raw, raw...), false)
	f.Fuzz(func(t *testing.T, data []byte, mend bool) {
		if mend && len(data) >= SealSize { // get past the checksum
			copy(data[4:], sealMagic[:])
			sum := crc32.Checksum(data[4:SealSize], castagnoli)
			copy(data, []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
		}
		s, err := DecodeSeal(data)
		if err != nil {
			if s != (Seal{}) {
				t.Fatalf("%+v comes with %v", s, err)
			}
			return
		}
		if s.Base < 0 || s.Next < s.Base || s.Size < 0 {
			t.Fatalf("%+v is a seal", s)
		}
		again, err := DecodeSeal(s.Append(nil))
		if again != s || err != nil {
			t.Fatalf("%+v came back as %+v, %v", s, again, err)
		}
	})
}
