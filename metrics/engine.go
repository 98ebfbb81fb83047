package metrics

import (
	"time"

	"github.com/varvelog/varve"
)

// engineFigures are what is reported once.
type engineFigures struct {
	varve.EngineStats
	disk     varve.DiskStatus
	scrub    varve.ScrubStatus
	failures int64 // of the collector
}

var up = labelled(nil,
	gauge("varve_up", "Whether the engine is open; when it is not nothing else is reported.",
		func(e *engineFigures) float64 { return truth(!e.Closed) }),
)

var roundDuration = newHistogram("varve_sync_round_duration_seconds",
	"How long a sync round took: by way of the journal, one for all partitions that wait, or of a partition's own files, where it has much to write.", "way")

var ofEngine = labelled(nil,
	gauge("varve_topics", "Topics that are open.",
		func(e *engineFigures) float64 { return float64(len(e.Topics)) }),
	gauge("varve_topics_unopened", "Topics that cannot be opened.",
		func(e *engineFigures) float64 { return float64(e.Unopened) }),
	gauge("varve_commits_size_bytes", "Log files of the topic that has the commits of groups.",
		func(e *engineFigures) float64 { return float64(e.Commits) }),
	counter("varve_sync_round_failures_total", "Sync rounds that the disk failed.",
		func(e *engineFigures) float64 { return float64(e.Journal.Failed) }),
	gauge("varve_journal_size_bytes", "Files of the journal that a start after a crash would need.",
		func(e *engineFigures) float64 { return float64(e.Journal.Bytes) }),
	gauge("varve_journal_limit_bytes", "What the files of the journal may grow to.",
		func(e *engineFigures) float64 { return float64(e.Journal.Limit) }),
	counter("varve_journal_written_bytes_total", "Written to the journal.",
		func(e *engineFigures) float64 { return float64(e.Journal.Written) }),
	counter("varve_checkpoints_total", "Checkpoints that were written, or found to be current.",
		func(e *engineFigures) float64 { return float64(e.Checkpoints.Done) }),
	counter("varve_checkpoint_failures_total", "Checkpoints that failed.",
		func(e *engineFigures) float64 { return float64(e.Checkpoints.Failed) }),
	gauge("varve_last_checkpoint_timestamp_seconds", "When a checkpoint was last written, or found to be current.",
		func(e *engineFigures) float64 { return timestamp(e.Checkpoints.Last) }),
	counter("varve_retention_passes_total", "Passes of retention over all topics.",
		func(e *engineFigures) float64 { return float64(e.Retention.Done) }),
	counter("varve_retention_failures_total", "Passes of retention that failed, wholly or in part.",
		func(e *engineFigures) float64 { return float64(e.Retention.Failed) }),
	gauge("varve_disk_free_bytes", "What may still be written to the file system, the reserve included.",
		func(e *engineFigures) float64 { return float64(e.disk.Free) }),
	gauge("varve_disk_reserve_bytes", "What records leave free of the file system.",
		func(e *engineFigures) float64 { return float64(e.disk.Reserve) }),
	counter("varve_disk_syncs_total", "Calls of sync that came back.",
		func(e *engineFigures) float64 { return float64(e.disk.Syncs) }),
	counter("varve_disk_slow_syncs_total", "Calls of sync that took longer than 5 seconds.",
		func(e *engineFigures) float64 { return float64(e.disk.Slow) }),
	gauge("varve_disk_longest_sync_seconds", "The longest call of sync that came back.",
		func(e *engineFigures) float64 { return e.disk.Longest.Seconds() }),
	gauge("varve_disk_sync_wait_seconds", "How long the oldest call of sync that is under way has taken.",
		func(e *engineFigures) float64 { return e.disk.Waiting.Seconds() }),
	counter("varve_scrub_passes_total", "Passes of the scrub over all that is stored.",
		func(e *engineFigures) float64 { return float64(e.scrub.Passes) }),
	counter("varve_scrub_read_bytes_total", "Read by the scrub.",
		func(e *engineFigures) float64 { return float64(e.scrub.Bytes) }),
	gauge("varve_last_scrub_timestamp_seconds", "When the last complete pass of the scrub ended.",
		func(e *engineFigures) float64 { return timestamp(e.scrub.LastPass) }),
	gauge("varve_scrub_faults", "Damaged ranges that the last complete pass of the scrub found, and the one under way; at most 100.",
		func(e *engineFigures) float64 { return float64(len(e.scrub.Faults)) }),
	gauge("varve_handler_workers", "How many workers there may be, which call the handlers of all subscriptions.",
		func(e *engineFigures) float64 { return float64(e.Handlers.Workers) }),
	gauge("varve_handler_workers_busy", "Workers that call a handler, or read ahead for one.",
		func(e *engineFigures) float64 { return float64(e.Handlers.Busy) }),
	gauge("varve_handlers_running", "Handlers that were called and have not returned; those that wait for the engine have no worker.",
		func(e *engineFigures) float64 { return float64(e.Handlers.Running) }),
	counter("varve_collect_failures_total", "Scrapes that could not say anything of groups.",
		func(e *engineFigures) float64 { return float64(e.failures) }),
)

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// timestamp is a time in seconds since 1970, none where there is no such time.
func timestamp(t time.Time) float64 {
	if t.IsZero() {
		return none
	}
	return float64(t.UnixMilli()) / 1000
}
