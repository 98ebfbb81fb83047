package varve

import (
	"errors"
	"fmt"
	"strings"
)

// Outcome is what comes of something that went wrong.
type Outcome uint8

const (
	Retried     Outcome = iota // the handler is called again, or what failed is tried again
	Skipped                    // the record counts as processed
	Buried                     // the record is a dead letter, and counts as processed
	Stopped                    // the partition stands still
	LostRecords                // records are gone, and reading goes on behind them
)

func (o Outcome) String() string {
	return [...]string{"retried", "skipped", "buried", "stopped", "lost"}[o]
}

// Failure is something that went wrong with a record or a partition of a subscription.
type Failure struct {
	Group string
	TopicPartition
	Offset  Offset // of the record, or where reading goes on
	Attempt int    // that failed; 0 where no handler was called
	Err     error
	Outcome Outcome
}

// PanicError is the error of a handler that panicked, or that ended its goroutine.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v", e.Value) }

// Unwrap returns what the handler panicked with, where that was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

var errGoexit = errors.New("handler ended its goroutine")

// HandlerPlace is a record that is being handled.
type HandlerPlace struct {
	Group string
	TopicPartition
	Offset Offset
}

// UnfinishedError names the records whose handlers had not returned, or whose Done was not
// called, when a stop had waited long enough. They are not committed, unless at most once;
// whoever has the partition next handles them again.
type UnfinishedError struct{ Handlers []HandlerPlace }

func (e *UnfinishedError) Error() string {
	var list []string
	for _, h := range e.Handlers {
		list = append(list, fmt.Sprintf("group %s at offset %d of %s", h.Group, h.Offset, h.TopicPartition))
	}
	return "handlers have not finished in time: " + strings.Join(list, ", ")
}
