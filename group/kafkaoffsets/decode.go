package kafkaoffsets

import (
	"time"

	"github.com/varvelog/varve/group"
	"github.com/varvelog/varve/record"
)

// Key is the key of a record. Topic and Partition are a commit's.
type Key struct {
	Kind      Kind
	Group     string
	Topic     string
	Partition int32
}

// DecodeKey reads a key. Of kinds other than commits and group metadata it reads
// the group, with which each begins. Errors: *VersionError for a kind that is
// not known, *FormatError.
func DecodeKey(data []byte) (Key, error) {
	d := decoder{what: "key", data: data}
	k := Key{Kind: Kind(d.int16())}
	if d.err == nil && (k.Kind < 0 || k.Kind > lastKind) {
		return Key{}, &VersionError{"key", int16(k.Kind)}
	}
	k.Group = d.string()
	if k.Kind.IsCommit() {
		k.Topic = d.string()
		k.Partition = d.int32()
	}
	if k.Kind <= GroupMetadata {
		d.end()
	}
	if d.err != nil {
		return Key{}, d.err
	}
	return k, nil
}

// DecodeCommitValue reads the value of a commit that is no tombstone. The id is
// zero where the value does not have it; then the topic is whichever has the
// key's name. Errors: *VersionError, *FormatError.
func DecodeCommitValue(data []byte) (group.TopicID, group.Commit, error) {
	d := decoder{what: "value of OffsetCommit", data: data}
	version := d.version(versionLast)
	d.flexible = version >= versionFlexible
	c := group.Commit{Offset: record.Offset(d.int64()), LeaderEpoch: -1}
	if version >= 3 {
		c.LeaderEpoch = record.Epoch(d.int32())
	}
	c.Metadata = d.string()
	c.Time = d.time()
	if version == versionExpiring {
		c.Expires = d.time()
	}
	var id group.TopicID
	d.tags(func(tag uint64, field []byte) {
		switch {
		case tag != tagTopicID:
		case len(field) != len(id):
			d.fail("the topic id has %d bytes", len(field))
		default:
			copy(id[:], field)
		}
	})
	d.end()
	if d.err != nil {
		return group.TopicID{}, group.Commit{}, d.err
	}
	return id, c, nil
}

// Group is the metadata of a group of the classic protocol, as Kafka kept it.
type Group struct {
	ProtocolType string
	Generation   int32
	Protocol     string    // empty: none
	Leader       string    // empty: none
	Since        time.Time // of its present state; zero: not known
	Members      []Member
}

// Member is a member in a Group. Subscription and Assignment are the client's
// own bytes; they point into what was decoded.
type Member struct {
	ID, Instance             string
	ClientID, ClientHost     string
	RebalanceTimeout         time.Duration // before version 1: the session timeout
	SessionTimeout           time.Duration
	Subscription, Assignment []byte
}

// DecodeGroupValue reads the value of GroupMetadata that is no tombstone.
// Errors: *VersionError, *FormatError.
func DecodeGroupValue(data []byte) (Group, error) {
	d := decoder{what: "value of GroupMetadata", data: data}
	version := d.version(versionLast)
	d.flexible = version >= versionFlexible
	g := Group{ProtocolType: d.string(), Generation: d.int32(), Protocol: d.stringOrNull(), Leader: d.stringOrNull()}
	if version >= 2 {
		g.Since = d.time()
	}
	for range d.count() {
		if g.Members = append(g.Members, d.member(version)); d.err != nil {
			break
		}
	}
	d.tags(func(uint64, []byte) {})
	d.end()
	if d.err != nil {
		return Group{}, d.err
	}
	return g, nil
}

func (d *decoder) member(version int16) Member {
	m := Member{ID: d.string()}
	if version >= 3 {
		m.Instance = d.stringOrNull()
	}
	m.ClientID, m.ClientHost = d.string(), d.string()
	if version >= 1 {
		m.RebalanceTimeout = d.milliseconds()
	}
	m.SessionTimeout = d.milliseconds()
	if version == 0 {
		m.RebalanceTimeout = m.SessionTimeout
	}
	m.Subscription, m.Assignment = d.bytes(), d.bytes()
	d.tags(func(uint64, []byte) {})
	return m
}
