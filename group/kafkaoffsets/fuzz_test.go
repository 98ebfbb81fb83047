package kafkaoffsets

import (
	"bytes"
	"testing"
)

func FuzzDecodeKey(f *testing.F) {
	f.Add([]byte("\x00\x01\x00\x02g1\x00\x06orders\x00\x00\x00\x03"))
	f.Add([]byte("\x00\x03\x00\x02g1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		key, err := DecodeKey(data)
		if err != nil || key.Kind != CommitKind {
			return
		}
		again, err := AppendCommitKey(nil, key.Group, key.Topic, key.Partition)
		if err != nil || !bytes.Equal(again, data) {
			t.Errorf("%+v is % x, %v", key, again, err)
		}
	})
}

// What is read is written in a form that reads the same.
func FuzzDecodeCommitValue(f *testing.F) {
	f.Add([]byte("\x00\x04\x00\x00\x00\x00\x00\x00\x10\x02\x00\x00\x00\x05\x02m\x00\x00\x01\x8b\xcf\xe5\x68\xfa\x00"))
	f.Add([]byte("\x00\x01\x00\x00\x00\x00\x00\x00\x10\x02\x00\x01m\x00\x00\x01\x8b\xcf\xe5\x68\xfa\x00\x00\x01\x8b\xcf\xe5\x68\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		id, commit, err := DecodeCommitValue(data)
		if err != nil {
			return
		}
		written, err := AppendCommitValue(nil, id, commit)
		if err != nil {
			if len(commit.Metadata) <= 32767 {
				t.Error(err)
			}
			return
		}
		idAgain, again, err := DecodeCommitValue(written)
		if err != nil || again.Offset != commit.Offset || again.LeaderEpoch != commit.LeaderEpoch ||
			again.Metadata != commit.Metadata || !again.Time.Equal(commit.Time) || !again.Expires.Equal(commit.Expires) ||
			commit.Expires.IsZero() && idAgain != id {
			t.Errorf("%x %+v becomes %x %+v, %v", id, commit, idAgain, again, err)
		}
	})
}

func FuzzDecodeGroupValue(f *testing.F) {
	f.Add([]byte("\x00\x04\x01\x00\x00\x00\x07\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\x02\x01\x00\x01\x01\x00\x00\x00\x01\x00\x00\x00\x01\x01\x01\x00\x00"))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x07\xff\xff\xff\xff\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := DecodeGroupValue(data)
		if err == nil && len(g.Members) > len(data)/8 {
			t.Errorf("%d members in %d bytes", len(g.Members), len(data))
		}
	})
}
