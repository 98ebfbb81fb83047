package partition

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/varvelog/varve/internal/twin"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// MetadataName is the file of what cannot be derived of a log; a copy of it and,
// for a moment, others stand beside it whose names begin with it.
const MetadataName = "partition.json"

// metadata is what cannot be derived of a log: kept in two files, see package
// twin.
type metadata struct {
	generation uint64
	body       metadataBody
}

type metadataBody struct {
	// ID tells the log from every other, for good, so that no file of another one is
	// taken for its own: 16 random bytes in hexadecimal. Logs of directories of
	// version 1 have none.
	ID       string        `json:"id,omitempty"`
	LogStart record.Offset `json:"logStart"`
	// Sparse says that offsets may have gaps, so that a jump is no damage.
	Sparse bool `json:"sparse,omitempty"`
	// Durable is the end of what is known not to be torn, whatever the files say; the
	// largest offset there is until that end was found. See Claim.
	Durable record.Offset `json:"durable,omitempty"`
	// Taken counts how often the files were taken over from somebody else, or were
	// written anew by a Quarantine. A checkpoint and seals of another count speak of
	// other files.
	Taken uint8 `json:"taken,omitempty"`
	// Gap is what is known to be missing at an end that the log had, and accepted. A
	// gap in front of a segment needs no such note where Sparse.
	Gap gap `json:"gap,omitzero"`
	// Stopped is when the clean stop was, in nanoseconds since 1970, after which the log
	// could not be opened because its files are others. See Claim.
	Stopped int64 `json:"stopped,omitempty"`
	// Swapping says that the files of Quarantine are to take the place of segments.
	Swapping bool `json:"swapping,omitempty"`
}

// gap is a range of offsets, [From, To).
type gap struct {
	From record.Offset `json:"from"`
	To   record.Offset `json:"to"`
}

// past is where offsets that end at one go on.
func (g gap) past(end record.Offset) record.Offset {
	if end >= g.From && end < g.To {
		return g.To
	}
	return end
}

func decodeMetadata(data []byte) (metadataBody, error) {
	var b metadataBody
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			err = fmt.Errorf("has a field %s: a newer varve wrote it, open it with that", field)
		}
		return b, err
	}
	if b.LogStart < 0 || b.Durable < 0 {
		return b, fmt.Errorf("log start %d or durable end %d is negative", b.LogStart, b.Durable)
	}
	return b, nil
}

// Create makes the directory of a log without records. It is durable when it
// returns, but for its own name. The metadata is made here, so that a later change
// of it needs no space on a disk that is full.
func Create(fsys vfs.FS, dir string) error {
	if err := fsys.Mkdir(dir); err != nil {
		return err
	}
	data, err := json.Marshal(metadataBody{ID: newID()})
	if err != nil {
		return err
	}
	return twin.Save(fsys, dir+"/"+MetadataName, 1, data)
}

func newID() string {
	var id [16]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// identity tells metadata of different logs apart. Whose the directory is, the head of
// the file of seals says, where there is one.
func identity(fsys vfs.FS, dir string) twin.Identity {
	id := func(data json.RawMessage) string {
		body, _ := decodeMetadata(data) // of a newer varve's it has what this one knows
		return body.ID
	}
	return twin.Identity{
		ID:  id,
		Own: func(data json.RawMessage) bool { return id(data) == sealedID(fsys, dir) },
	}
}

// save writes a new state.
func (m *metadata) save(l *Log, body metadataBody) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	if err := twin.Save(l.env.FS, l.dir+"/"+MetadataName, m.generation+1, data); err != nil {
		return err
	}
	m.generation++
	m.body = body
	return nil
}

// readMetadata is load for who must change nothing.
func readMetadata(fsys vfs.FS, dir string) (metadataBody, error) {
	doc, _, err := twin.Read(fsys, dir+"/"+MetadataName, identity(fsys, dir))
	if errors.Is(err, fs.ErrNotExist) {
		return metadataBody{}, nil
	}
	if err != nil {
		return metadataBody{}, err
	}
	body, err := decodeMetadata(doc.Body)
	if err != nil {
		err = fmt.Errorf("%s: %w", fsys.Path(dir+"/"+MetadataName), err)
	}
	return body, err
}

// load reads the metadata. A directory that was copied from a Kafka broker has none.
func (m *metadata) load(l *Log) error {
	name := l.dir + "/" + MetadataName
	doc, err := twin.Load(l.env.FS, name, identity(l.env.FS, l.dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if doc.Mended != "" {
		l.log.Warn("metadata was restored from its copy", "partition", l.name, "what", doc.Mended)
	}
	body, err := decodeMetadata(doc.Body)
	if err != nil {
		return fmt.Errorf("%s: %w", l.env.FS.Path(name), err)
	}
	m.generation, m.body = doc.Generation, body
	return nil
}
