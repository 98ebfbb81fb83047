package varve

import (
	"bytes"
	"testing"
)

// Any key and value as a config: refused, or in force with sane figures.
func FuzzConfig(f *testing.F) {
	for _, k := range configKeys {
		f.Add(k.name, k.def)
	}
	f.Add("retention.ms", "9223372036854775807")
	f.Add("segment.bytes", "-1")
	f.Fuzz(func(t *testing.T, key, value string) {
		c, err := parseConfig(map[string]string{key: value})
		if err != nil {
			return
		}
		switch l := &c.log; {
		case l.SegmentBytes < 1, l.MaxBatchBytes < 1, l.MaxBatchBytes > maxBatchLimit, l.SegmentAge <= 0,
			l.RetentionAge < -1, l.RetentionBytes < -1, l.Index.Interval < 1, l.Index.MaxBytes < 1,
			l.Level < OS, l.Level > Fsync, l.FlushInterval <= 0:
			t.Fatalf("%s=%s gives %+v", key, value, *l)
		}
	})
}

// Any name: refused, or one path element that no file system takes for another.
func FuzzTopicName(f *testing.F) {
	for _, name := range []string{"orders", "a.b", "..", "a/b", "", "a\x00b", "Ⅷ", newPrefix, ".hidden", "con"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if checkName(name) != nil {
			return
		}
		if name == "." || name == ".." || len(name) == 0 || len(name) > maxNameLen || bytes.ContainsAny([]byte(name), "/\\\x00~: ") {
			t.Fatalf("%q is taken for a topic name", name)
		}
	})
}
