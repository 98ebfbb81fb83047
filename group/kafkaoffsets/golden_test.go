package kafkaoffsets

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/varvelog/varve/group"
)

// The bytes of these tests were put together by hand from the schemas of Kafka's
// group coordinator (OffsetCommitKey.json, OffsetCommitValue.json,
// GroupMetadataKey.json, GroupMetadataValue.json) and the rules for flexible versions
// (KIP-482), not by this package. That of the topic id, which is later than the
// rest, is KAFKA-19141. The interop suite has Kafka read what this package
// writes.

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var (
	ordersID = group.TopicID{0x6f, 0x1c, 0x2f, 0x3e, 0x8d, 0x4b, 0x4a, 0x57, 0x9b, 0x1e, 0x0c, 0x5d, 0x7e, 0x2a, 0x9f, 0x10}
	at       = time.UnixMilli(1700000000250) // 018bcfe568fa
	later    = time.UnixMilli(1700000000255) // 018bcfe568ff
)

const commitKey = `
	0001                     OffsetCommit
	0002 6731                g1
	0006 6f7264657273        orders
	00000003                 partition 3`

// noted drops what stands behind the bytes of each line, after two spaces.
func noted(text string) string {
	var bytes strings.Builder
	for line := range strings.Lines(text) {
		data, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
		bytes.WriteString(data + " ")
	}
	return bytes.String()
}

func TestGoldenCommitKey(t *testing.T) {
	want := unhex(t, noted(commitKey))
	got, err := AppendCommitKey([]byte("x"), "g1", "orders", 3)
	if err != nil || !bytes.Equal(got[1:], want) || got[0] != 'x' {
		t.Errorf("% x, %v", got, err)
	}
	key, err := DecodeKey(want)
	if want := (Key{CommitKind, "g1", "orders", 3}); err != nil || key != want {
		t.Errorf("%+v, %v", key, err)
	}
	want[1] = 0 // of Kafka before 0.9
	if key, err = DecodeKey(want); err != nil || key != (Key{LegacyCommit, "g1", "orders", 3}) || !key.Kind.IsCommit() {
		t.Errorf("%+v, %v", key, err)
	}
}

func TestGoldenGroupKey(t *testing.T) {
	want := unhex(t, "0002 0002 6731")
	got, err := AppendGroupKey(nil, "g1")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("% x, %v", got, err)
	}
	key, err := DecodeKey(want)
	if err != nil || key != (Key{Kind: GroupMetadata, Group: "g1"}) || key.Kind.IsCommit() {
		t.Errorf("%+v, %v", key, err)
	}
}

var commitValues = []struct {
	name    string
	bytes   string
	id      group.TopicID
	commit  group.Commit
	written bool // AppendCommitValue makes it
}{
	{"version 0", `
		0000
		0000000000001002         offset 4098
		0001 6d                  m
		0000018bcfe568fa         commit time`,
		group.TopicID{}, group.Commit{Offset: 4098, LeaderEpoch: -1, Metadata: "m", Time: at}, false},
	{"version 1, expires", `
		0001
		0000000000001002
		0001 6d
		0000018bcfe568fa
		0000018bcfe568ff         expire time`,
		group.TopicID{}, group.Commit{Offset: 4098, LeaderEpoch: -1, Metadata: "m", Time: at, Expires: later}, true},
	{"version 1, does not expire", `
		0001
		0000000000001002
		0000
		0000018bcfe568fa
		ffffffffffffffff`,
		group.TopicID{}, group.Commit{Offset: 4098, LeaderEpoch: -1, Time: at}, false},
	{"version 2", `
		0002
		0000000000001002
		0001 6d
		0000018bcfe568fa`,
		group.TopicID{}, group.Commit{Offset: 4098, LeaderEpoch: -1, Metadata: "m", Time: at}, false},
	{"version 3", `
		0003
		0000000000001002
		00000005                 leader epoch
		0001 6d
		0000018bcfe568fa`,
		group.TopicID{}, group.Commit{Offset: 4098, LeaderEpoch: 5, Metadata: "m", Time: at}, false},
	{"version 4", `
		0004
		0000000000001002
		00000005
		02 6d                    one more than the length
		0000018bcfe568fa
		01                       one tagged field
		00 10                    tag 0, 16 bytes
		6f1c2f3e8d4b4a57 9b1e0c5d7e2a9f10`,
		ordersID, group.Commit{Offset: 4098, LeaderEpoch: 5, Metadata: "m", Time: at}, true},
	{"version 4, no topic id, no metadata, no time, no epoch", `
		0004
		7fffffffffffffff
		ffffffff
		01
		ffffffffffffffff
		00`,
		group.TopicID{}, group.Commit{Offset: 1<<63 - 1, LeaderEpoch: -1}, true},
	{"version 4, tags of another time", `
		0004
		0000000000001002
		00000005
		01
		0000018bcfe568fa
		02                       two tagged fields
		00 10 6f1c2f3e8d4b4a57 9b1e0c5d7e2a9f10
		8101 03 616263           tag 129, 3 bytes`,
		ordersID, group.Commit{Offset: 4098, LeaderEpoch: 5, Time: at}, false},
}

func TestGoldenCommitValues(t *testing.T) {
	for _, c := range commitValues {
		want := unhex(t, noted(c.bytes))
		id, commit, err := DecodeCommitValue(want)
		if err != nil || id != c.id || commit != c.commit {
			t.Errorf("%s: %x, %+v, %v", c.name, id, commit, err)
		}
		if got, err := AppendCommitValue([]byte("x"), c.id, c.commit); c.written && (err != nil || !bytes.Equal(got[1:], want)) {
			t.Errorf("%s: % x, %v", c.name, got, err)
		}
	}
}

var groupValues = []struct {
	name  string
	bytes string
	group Group
}{
	{"version 0", `
		0000
		0008 636f6e73756d6572    consumer
		00000007                 generation
		0005 72616e6765          range
		0002 6d31                leader
		00000001                 one member
		0002 6d31                m1
		0002 6331                client id
		0002 2f68                client host
		00002710                 session timeout
		00000002 aabb            subscription
		00000001 cc              assignment`,
		Group{ProtocolType: "consumer", Generation: 7, Protocol: "range", Leader: "m1", Members: []Member{{
			ID: "m1", ClientID: "c1", ClientHost: "/h", RebalanceTimeout: 10 * time.Second, SessionTimeout: 10 * time.Second,
			Subscription: []byte{0xaa, 0xbb}, Assignment: []byte{0xcc},
		}}}},
	{"version 3", `
		0003
		0008 636f6e73756d6572
		00000007
		0005 72616e6765
		0002 6d31
		0000018bcfe568fa         since
		00000001
		0002 6d31
		0002 6931                instance
		0002 6331
		0002 2f68
		0000ea60                 rebalance timeout
		00002710
		00000002 aabb
		00000001 cc`,
		Group{ProtocolType: "consumer", Generation: 7, Protocol: "range", Leader: "m1", Since: at, Members: []Member{{
			ID: "m1", Instance: "i1", ClientID: "c1", ClientHost: "/h", RebalanceTimeout: time.Minute, SessionTimeout: 10 * time.Second,
			Subscription: []byte{0xaa, 0xbb}, Assignment: []byte{0xcc},
		}}}},
	{"version 2, empty", `
		0002
		0000
		00000008
		ffff                     no protocol
		ffff                     no leader
		ffffffffffffffff
		00000000`,
		Group{Generation: 8}},
	{"version 4", `
		0004
		09 636f6e73756d6572
		00000007
		06 72616e6765
		03 6d31
		0000018bcfe568fa
		02                       one member
		03 6d31
		00                       no instance
		03 6331
		03 2f68
		0000ea60
		00002710
		03 aabb
		02 cc
		00                       no tagged fields of the member
		01 05 00                 one of the group, empty`,
		Group{ProtocolType: "consumer", Generation: 7, Protocol: "range", Leader: "m1", Since: at, Members: []Member{{
			ID: "m1", ClientID: "c1", ClientHost: "/h", RebalanceTimeout: time.Minute, SessionTimeout: 10 * time.Second,
			Subscription: []byte{0xaa, 0xbb}, Assignment: []byte{0xcc},
		}}}},
}

func TestGoldenGroupValues(t *testing.T) {
	for _, c := range groupValues {
		if got, err := DecodeGroupValue(unhex(t, noted(c.bytes))); err != nil || !reflect.DeepEqual(got, c.group) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}
