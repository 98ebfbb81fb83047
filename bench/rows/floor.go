package rows

import (
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/varvelog/varve/bench/floor"
	"github.com/varvelog/varve/bench/measure"
	"github.com/varvelog/varve/bench/report"
)

// openFloor makes the floor's file. A durable one is written in full length and synced
// before, so that a sync later has data to write and no length.
func openFloor(dir string, bytes int64) (*floor.Log, error) {
	f, err := os.Create(filepath.Join(dir, "floor"))
	if err != nil || bytes == 0 {
		return &floor.Log{File: f}, err
	}
	zeros := make([]byte, 1<<20)
	for n := int64(0); n < bytes && err == nil; n += int64(len(zeros)) {
		_, err = f.Write(zeros)
	}
	_, seek := f.Seek(0, io.SeekStart)
	return &floor.Log{File: f, Sync: rewinding(bytes)}, errors.Join(err, seek, f.Sync())
}

// rewinding is fdatasync, and goes back to the beginning before the file would grow.
func rewinding(bytes int64) func(*os.File) error {
	return func(f *os.File) error {
		if at, err := f.Seek(0, io.SeekCurrent); err != nil {
			return err
		} else if at > bytes-1<<20 {
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				return err
			}
		}
		return datasync(f)
	}
}

// floorContender appends one batch after the other at level os.
func (e *Env) floorContender() measure.Contender {
	return measure.Contender{Name: "floor", Run: func(dir string) (measure.Figures, error) {
		l, err := openFloor(dir, 0)
		if err != nil {
			return nil, err
		}
		defer l.File.Close()
		next := turns(each(batches(), joined))
		return rate(e.span(), batchRecords, func() error { return l.Append(next()) })
	}}
}

// floorRow holds the floor against a bare loop of writes and the time of its checksums:
// a floor that is slow would flatter whoever is compared with it.
func floorRow(e *Env) (*report.Table, error) {
	bare := measure.Contender{Name: "bare write + checksum", Run: func(dir string) (measure.Figures, error) {
		f, err := os.Create(filepath.Join(dir, "bare"))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		next := turns(each(batches(), joined))
		written, err := rate(e.span(), batchRecords, func() error {
			_, err := f.Write(next())
			return err
		})
		if err != nil {
			return nil, err
		}
		summed, err := rate(e.span()/4, batchRecords, func() error {
			crc32.Checksum(next(), crc32.MakeTable(crc32.Castagnoli))
			return nil
		})
		return measure.Figures{"rec/s": 1 / (1/written["rec/s"] + 1/summed["rec/s"])}, err
	}}
	s, err := e.rounds(e.floorContender(), bare)
	if err != nil {
		return nil, err
	}
	t := &report.Table{Name: "floor", Title: "The floor",
		Text: "The floor appends batches of 100 records of 100 bytes; beside it a loop that does nothing but write them, with the time that their checksums take added."}
	t.Add(s, "rec/s", "M records/s", 1e-6, "floor", "bare write + checksum")
	t.AtLeast("", "of a bare write and checksum", s.Ratio("floor", "bare write + checksum", "rec/s"), 0.95)
	return t, nil
}

// served starts the floor for publishers that share its syncs; send returns when a
// batch is on stable storage.
func served(dir string, publishers int) (send func([]byte) error, end func() error, err error) {
	l, err := openFloor(dir, floorBytes)
	if err != nil {
		return nil, nil, err
	}
	queue, done, ended := make(chan []byte, publishers), make(chan error, publishers), make(chan struct{})
	go func() {
		l.Serve(queue, done)
		close(ended)
	}()
	send = func(b []byte) error {
		queue <- b
		return <-done
	}
	return send, func() error {
		close(queue)
		<-ended
		return l.File.Close()
	}, nil
}

// floorBytes is the length of a durable floor's file, which is written round and round.
const floorBytes = 16 << 20

// pause is how long a contender waits where it measures latencies of an idle machine.
const pause = 200 * time.Microsecond
