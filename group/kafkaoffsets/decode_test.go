package kafkaoffsets

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/varvelog/varve/group"
	"github.com/varvelog/varve/record"
)

// Every cut of a key or a value is a FormatError that stays within the bytes, and
// so is every byte too many.
func TestCutsAndAdditionsAreRefused(t *testing.T) {
	check := func(name string, data []byte, decode func([]byte) error) {
		t.Helper()
		for n := range len(data) {
			var bad *FormatError
			if err := decode(data[:n:n]); !errors.As(err, &bad) || bad.At > n || bad.Error() == "" {
				t.Errorf("%s, %d of %d bytes: %v", name, n, len(data), err)
			}
		}
		var bad *FormatError
		if err := decode(append(data[:len(data):len(data)], 0)); !errors.As(err, &bad) || bad.At != len(data) {
			t.Errorf("%s and a byte too many: %v", name, err)
		}
	}
	check("commit key", unhex(t, noted(commitKey)), decodeKey)
	for _, c := range commitValues {
		check(c.name, unhex(t, noted(c.bytes)), decodeCommit)
	}
	for _, c := range groupValues {
		check(c.name, unhex(t, noted(c.bytes)), decodeGroup)
	}
}

func decodeKey(data []byte) error    { _, err := DecodeKey(data); return err }
func decodeCommit(data []byte) error { _, _, err := DecodeCommitValue(data); return err }
func decodeGroup(data []byte) error  { _, err := DecodeGroupValue(data); return err }

func TestWhatIsWrongIsNamed(t *testing.T) {
	for _, c := range []struct {
		bytes  string
		decode func([]byte) error
		says   string
	}{
		{"0001 ffff", decodeKey, "key: byte 4: null, and it must not be"},
		{"0001 fffe", decodeKey, "key: byte 4: length -2"},
		{"0001 7fff 61", decodeKey, "key: byte 4: 32766 bytes are missing"},
		{"0003 0005 61", decodeKey, "key: byte 4: 4 bytes are missing"},
		{"0002 0000000000001002 ffff", decodeCommit, "value of OffsetCommit: byte 12: null, and it must not be"},
		{"0004 0000000000001002 00000005 00", decodeCommit, "value of OffsetCommit: byte 15: null, and it must not be"},
		{"0004 0000000000001002 00000005 ffffffff7f", decodeCommit, "value of OffsetCommit: byte 14: no varint of 32 bits"},
		{"0004 0000000000001002 00000005 ffffffff0f", decodeCommit, "value of OffsetCommit: byte 19: 4294967294 bytes are missing"},
		{"0004 0000000000001002 00000005 01 0000018bcfe568fa ffffffff0f 00 01", decodeCommit, "value of OffsetCommit: byte 30: 1 bytes are missing"},
		{"0004 0000000000001002 00000005 01 0000018bcfe568fa 01 00 02 0102", decodeCommit, "value of OffsetCommit: byte 28: the topic id has 2 bytes"},
		{"0000 0000 00000007 ffff ffff 7fffffff", decodeGroup, "value of GroupMetadata: byte 16: an array of 2147483647 elements in 0 bytes"},
		{"0000 0000 00000007 ffff ffff ffffffff", decodeGroup, "value of GroupMetadata: byte 16: an array of -1 elements in 0 bytes"},
	} {
		if err := c.decode(unhex(t, c.bytes)); err == nil || err.Error() != "__consumer_offsets: "+c.says {
			t.Errorf("%s: %v", c.bytes, err)
		}
	}
}

// A kind or version of a later Kafka is an error of its own: it is not damage.
func TestLaterVersionsAreNotDamage(t *testing.T) {
	for _, c := range []struct {
		bytes   string
		decode  func([]byte) error
		what    string
		version int16
	}{
		{"0016 0002 6731", decodeKey, "key", 22},
		{"ffff", decodeKey, "key", -1},
		{"0005 00", decodeCommit, "value of OffsetCommit", 5},
		{"8000", decodeCommit, "value of OffsetCommit", -32768},
		{"0005", decodeGroup, "value of GroupMetadata", 5},
	} {
		var later *VersionError
		if err := c.decode(unhex(t, c.bytes)); !errors.As(err, &later) || *later != (VersionError{c.what, c.version}) {
			t.Errorf("%s: %v", c.bytes, err)
		} else if !strings.Contains(err.Error(), fmt.Sprintf("version %d ", c.version)) {
			t.Errorf("%s: %v", c.bytes, err)
		}
	}
}

// Records of groups of other protocols are known and passed over: kind and group
// are read, what follows in the key is left.
func TestOtherKindsAreKnown(t *testing.T) {
	for kind := GroupMetadata + 1; kind <= lastKind; kind++ {
		data := append([]byte{0, byte(kind)}, unhex(t, "0002 6731 0002 6d31 99")...)
		key, err := DecodeKey(data)
		if err != nil || key != (Key{Kind: kind, Group: "g1"}) || key.Kind.IsCommit() {
			t.Errorf("%v: %+v, %v", kind, key, err)
		}
	}
	for kind, name := range map[Kind]string{
		3: "ConsumerGroupMetadata", 8: "ConsumerGroupCurrentMemberAssignment", 15: "ConsumerGroupRegularExpression",
		21: "StreamsGroupTopology", 22: "Kind(22)", -1: "Kind(-1)",
	} {
		if kind.String() != name {
			t.Errorf("%d is %v, want %s", int16(kind), kind, name)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	text := rapid.StringN(0, 40, 200)
	times := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "none") {
			return time.Time{}
		}
		return time.UnixMilli(rapid.Int64Range(0, 1<<50).Draw(t, "ms"))
	})
	rapid.Check(t, func(t *rapid.T) {
		key := Key{CommitKind, text.Draw(t, "group"), text.Draw(t, "topic"), rapid.Int32().Draw(t, "partition")}
		data, err := AppendCommitKey(nil, key.Group, key.Topic, key.Partition)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeKey(data); err != nil || got != key {
			t.Fatalf("%+v, %v, of %+v", got, err, key)
		}
		id := group.TopicID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		commit := group.Commit{
			Offset:      record.Offset(rapid.Int64().Draw(t, "offset")),
			LeaderEpoch: record.Epoch(rapid.Int32().Draw(t, "epoch")),
			Metadata:    text.Draw(t, "metadata"), Time: times.Draw(t, "time"), Expires: times.Draw(t, "expires"),
		}
		if data, err = AppendCommitValue(nil, id, commit); err != nil {
			t.Fatal(err)
		}
		if !commit.Expires.IsZero() {
			id, commit.LeaderEpoch = group.TopicID{}, -1
		}
		if gotID, got, err := DecodeCommitValue(data); err != nil || gotID != id || got != commit {
			t.Fatalf("%x %+v, %v, of %x %+v", gotID, got, err, id, commit)
		}
	})
}

func TestStringsHaveABound(t *testing.T) {
	fits, long := strings.Repeat("x", 32767), strings.Repeat("x", 32768)
	if _, err := AppendCommitKey(nil, fits, fits, 0); err != nil {
		t.Error(err)
	}
	if _, err := AppendCommitValue(nil, ordersID, group.Commit{Metadata: fits}); err != nil {
		t.Error(err)
	}
	for what, f := range map[string]func(dst []byte) ([]byte, error){
		"group id": func(dst []byte) ([]byte, error) { return AppendCommitKey(dst, long, "t", 0) },
		"topic":    func(dst []byte) ([]byte, error) { return AppendCommitKey(dst, "g", long, 0) },
		"metadata": func(dst []byte) ([]byte, error) {
			return AppendCommitValue(dst, ordersID, group.Commit{Metadata: long})
		},
	} {
		got, err := f([]byte("x"))
		var bad *LengthError
		if !errors.As(err, &bad) || bad.Field != what || bad.Bytes != 32768 || string(got) != "x" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got, err := AppendGroupKey([]byte("x"), long); err == nil || string(got) != "x" {
		t.Error("a group key of 32,768 bytes is made")
	}
}
