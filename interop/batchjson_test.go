//go:build interop

package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// batchJSON is one record batch as java/BatchJson prints it.
type batchJSON struct {
	BaseOffset      int64        `json:"baseOffset"`
	Length          int32        `json:"length"`
	LeaderEpoch     int32        `json:"leaderEpoch"`
	Magic           int8         `json:"magic"`
	CRC             uint32       `json:"crc"`
	Attributes      int16        `json:"attributes"`
	LastOffsetDelta int32        `json:"lastOffsetDelta"`
	BaseTimestamp   int64        `json:"baseTimestamp"`
	MaxTimestamp    int64        `json:"maxTimestamp"`
	ProducerID      int64        `json:"producerId"`
	ProducerEpoch   int16        `json:"producerEpoch"`
	BaseSequence    int32        `json:"baseSequence"`
	Count           int32        `json:"count"`
	Codec           string       `json:"codec"`
	LogAppendTime   bool         `json:"logAppendTime"`
	Transactional   bool         `json:"transactional"`
	Control         bool         `json:"control"`
	Records         []recordJSON `json:"records"`
}

// recordJSON is one record; a nil Key or Value is null.
type recordJSON struct {
	Offset    int64        `json:"offset"`
	Timestamp int64        `json:"timestamp"`
	Key       []byte       `json:"key"`
	Value     []byte       `json:"value"`
	Headers   []headerJSON `json:"headers"`
}

// headerJSON is the pair ["key", "value in base64" or null].
type headerJSON struct {
	Key   string
	Value []byte
}

func (h *headerJSON) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&h.Key, &h.Value})
}

// parseGolden reads the whole of a golden file's JSON.
func parseGolden(data []byte) ([]batchJSON, error) {
	var file struct {
		Batches []batchJSON `json:"batches"`
	}
	err := strict(data).Decode(&file)
	return file.Batches, err
}

// parseLines reads what java/Decode prints.
func parseLines(stdout string) ([]batchJSON, error) {
	var batches []batchJSON
	for line := range strings.Lines(stdout) {
		var batch batchJSON
		if err := strict([]byte(line)).Decode(&batch); err != nil {
			return batches, fmt.Errorf("line %d: %w", len(batches)+1, err)
		}
		batches = append(batches, batch)
	}
	return batches, nil
}

func strict(data []byte) *json.Decoder {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	return decoder
}

// difference says where two batches differ first, or "".
func difference(got, want batchJSON) string {
	for i := range min(len(got.Records), len(want.Records)) {
		if g, w := got.Records[i], want.Records[i]; !reflect.DeepEqual(g, w) {
			return fmt.Sprintf("record %d: got %s, want %s", i, short(g), short(w))
		}
	}
	if len(got.Records) != len(want.Records) {
		return fmt.Sprintf("got %d records, want %d", len(got.Records), len(want.Records))
	}
	got.Records, want.Records = nil, nil
	if !reflect.DeepEqual(got, want) {
		return fmt.Sprintf("header: got %+v, want %+v", got, want)
	}
	return ""
}

func short(r recordJSON) string {
	const most = 400
	text := fmt.Sprintf("%#v", r)
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
