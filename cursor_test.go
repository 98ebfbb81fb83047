package varve_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/record"
)

// A batch that checks and cannot be decoded is told as other damage is: once, with
// its file, its position there and the offsets that are lost, in every way of
// reading and from every place in it.
func TestBatchThatChecksAndCannotBeDecoded(t *testing.T) {
	const each = 100 // records a batch: more than Backward takes at first
	secondRecord := func(raw []byte) int { return recordsAt + 1 + int(raw[recordsAt]>>1) }
	for name, c := range map[string]struct {
		spoil func(raw []byte)
		given varve.Offset // records that are read all the same
	}{
		"unknown codec":        {func(raw []byte) { raw[attributesAt+1] |= 5 }, 0},
		"nothing to inflate":   {func(raw []byte) { raw[attributesAt+1] |= byte(record.Zstd) }, 0},
		"second record broken": {func(raw []byte) { raw[secondRecord(raw)] = 0x7f }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.loud = true })
			p := r.one("segment.bytes=7000", "retention.ms=-1") // three batches a segment
			for range 10 {
				recs := make([]varve.Record, each)
				for i := range recs {
					recs[i] = text("0123456789")
				}
				r.publish(p, recs...)
			}
			r.close()
			file := segmentFiles(r.disk, "topics/t/0")[1]
			data, err := r.disk.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			first, err := record.Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			at, base := first.Size(), first.NextOffset()
			bad, err := record.Parse(data[at:])
			if err != nil {
				t.Fatal(err)
			}
			raw := slices.Clone(bad.Bytes())
			c.spoil(raw)
			copy(data[at:], sealed(raw))
			r.disk.WriteFile(file, data)
			r.open()
			p = r.part("t", 0)

			check := func(way string, err error) {
				t.Helper()
				var damage *varve.CorruptError
				if !errors.As(err, &damage) {
					t.Fatalf("%s: %v", way, err)
				}
				if damage.Path != r.disk.Path(file) || damage.At != record.Pos(at) || damage.Offset != base-1 ||
					damage.From != base+c.given || damage.To != base+each || damage.Reason == "" {
					t.Errorf("%s: %+v, want %s at %d, [%d, %d)", way, damage, file, at, base+c.given, base+each)
				}
			}
			for way, seq := range waysToRead(t, p) {
				if way == "batches" {
					continue // its caller decodes
				}
				var told error
				next := varve.Offset(0)
				for rec, err := range seq {
					switch {
					case err != nil && told != nil:
						t.Fatalf("%s: a second error: %v", way, err)
					case err != nil:
						told = err
						check(way, err)
					case next == base+c.given && rec.Offset == base+each, rec.Offset == next:
						next = rec.Offset + 1
					default:
						t.Fatalf("%s: offset %d, want %d", way, rec.Offset, next)
					}
				}
				if told == nil || next != 10*each {
					t.Errorf("%s: ended at %d, told %v", way, next, told)
				}
			}
			for _, from := range []varve.Offset{base + c.given, base + each/2, base + each - 1} {
				rd, err := p.Reader(varve.At(from))
				if err != nil {
					t.Fatal(err)
				}
				_, err = rd.Next(context.Background())
				check("from inside", err)
				if rec, err := rd.Next(context.Background()); err != nil || rec.Offset != base+each {
					t.Errorf("behind it: offset %d, %v", rec.Offset, err)
				}
			}
		})
	}
}
