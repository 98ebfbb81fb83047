package metrics_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/metrics"
)

// worked is an engine of which every family has something to say.
func worked(t *testing.T) *rig {
	r := newRig(t, vfs.NewMem(), varve.Options{})
	orders := r.topic("orders", 2, map[string]string{"retention.ms": "3600000", "segment.bytes": "200"})
	r.publish(orders, 0, 9)
	r.publish(orders, 1, 4)
	r.commit("billing", "orders", 0, 5)
	return r
}

// Every family that is listed is reported, in the way it is listed, and no other; and
// Prometheus's linter has nothing against any. But for what happens once a minute.
func TestFamiliesAreWhatIsReported(t *testing.T) {
	r := worked(t)
	later := []string{"varve_last_checkpoint_timestamp_seconds", "varve_last_scrub_timestamp_seconds"}
	reported := map[string]bool{}
	listed := map[string]metrics.Family{}
	for _, f := range metrics.Families() {
		if _, twice := listed[f.Name]; twice {
			t.Errorf("%s is listed twice", f.Name)
		}
		listed[f.Name] = f
	}
	for _, got := range r.gather(metrics.Options{}) {
		reported[got.GetName()] = true
		f, known := listed[got.GetName()]
		if !known {
			t.Errorf("%s is reported and not listed", got.GetName())
			continue
		}
		if kind := strings.ToLower(got.GetType().String()); kind != f.Type || got.GetHelp() != f.Help {
			t.Errorf("%s is listed as %s, %q and reported as %s, %q", f.Name, f.Type, f.Help, kind, got.GetHelp())
		}
		var labels []string
		for _, l := range got.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		want := slices.Sorted(slices.Values(f.Labels))
		if !slices.Equal(labels, want) {
			t.Errorf("%s has the labels %q, want %q", f.Name, labels, want)
		}
	}
	for name := range listed {
		if !reported[name] && !slices.Contains(later, name) {
			t.Errorf("%s is listed and not reported", name)
		}
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(metrics.NewCollector(r.engine, metrics.Options{}))
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestFiguresOfTopics(t *testing.T) {
	r := worked(t)
	orders, err := r.engine.Topic("orders")
	if err != nil {
		t.Fatal(err)
	}
	p, err := orders.Partition(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range p.Records(context.Background(), varve.Earliest()) {
		if err != nil {
			t.Fatal(err)
		}
	}
	before := r.scrape(metrics.Options{})
	if _, err := p.Trim(7); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Trim(3); err != nil { // moves nothing
		t.Fatal(err)
	}
	got, stats := r.scrape(metrics.Options{}), orders.Stats()
	removed := before[`varve_topic_segments{topic="orders"}`] - got[`varve_topic_segments{topic="orders"}`]
	if removed < 1 {
		t.Fatalf("the trim removed %v segments", removed)
	}
	expect(t, got, map[string]float64{
		"varve_up":     1,
		"varve_topics": 1,
		`varve_topic_appended_records_total{topic="orders"}`:                   13,
		`varve_topic_appended_batches_total{topic="orders"}`:                   13,
		`varve_topic_appended_bytes_total{topic="orders"}`:                     before[`varve_topic_size_bytes{topic="orders"}`],
		`varve_topic_sync_rounds_total{topic="orders"}`:                        float64(stats.Partitions[0].Counters.SyncRounds + stats.Partitions[1].Counters.SyncRounds),
		`varve_topic_reads_total{topic="orders"}`:                              float64(stats.Partitions[0].Counters.Reads),
		`varve_topic_read_bytes_total{topic="orders"}`:                         before[`varve_partition_size_bytes{partition="0",topic="orders"}`],
		`varve_topic_trims_total{topic="orders"}`:                              1,
		`varve_topic_removed_segments_total{topic="orders"}`:                   removed,
		`varve_topic_removed_bytes_total{topic="orders"}`:                      before[`varve_topic_size_bytes{topic="orders"}`] - got[`varve_topic_size_bytes{topic="orders"}`],
		`varve_topic_records{topic="orders"}`:                                  6,
		`varve_topic_unsynced_records{topic="orders"}`:                         0,
		`varve_topic_size_bytes{topic="orders"}`:                               float64(stats.Bytes),
		`varve_topic_segments{topic="orders"}`:                                 float64(len(stats.Partitions[0].Segments) + len(stats.Partitions[1].Segments)),
		`varve_topic_partitions{topic="orders"}`:                               2,
		`varve_topic_partitions_unopened{topic="orders"}`:                      0,
		`varve_topic_partitions_readonly{topic="orders"}`:                      0,
		`varve_partition_start_offset{partition="0",topic="orders"}`:           7,
		`varve_partition_end_offset{partition="0",topic="orders"}`:             9,
		`varve_partition_end_offset{partition="1",topic="orders"}`:             4,
		`varve_partition_appended_records_total{partition="1",topic="orders"}`: 4,
		`varve_partition_read_bytes_total{partition="1",topic="orders"}`:       0,
	})
}

func TestFiguresOfTheJournalAndTheDisk(t *testing.T) {
	r := worked(t)
	big := r.topic("big", 1, nil)
	p, err := big.Partition(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Publish(context.Background(), varve.Record{Value: make([]byte, 300<<10)}); err != nil {
		t.Fatal(err)
	}
	if err := r.engine.RunRetention(); err != nil {
		t.Fatal(err)
	}
	got, stats := r.scrape(metrics.Options{}), r.engine.Stats()
	expect(t, got, map[string]float64{
		`varve_sync_round_duration_seconds{way="journal"}`: float64(stats.Journal.Rounds.Count()),
		`varve_sync_round_duration_seconds{way="files"}`:   1, // of more than a round of the journal takes
		"varve_sync_round_failures_total":                  0,
		"varve_journal_limit_bytes":                        256 << 10,
		"varve_journal_size_bytes":                         float64(stats.Journal.Bytes),
		"varve_retention_passes_total":                     1,
		"varve_retention_failures_total":                   0,
		"varve_disk_slow_syncs_total":                      0,
		"varve_collect_failures_total":                     0,
	})
	// Each of the 13 records was waited for, and the commit; the marks behind rounds are none.
	if n := stats.Journal.Rounds.Count(); n < 14 {
		t.Errorf("there were %d rounds", n)
	}
	for _, name := range []string{"varve_journal_size_bytes", "varve_journal_written_bytes_total", "varve_disk_syncs_total", "varve_commits_size_bytes"} {
		if got[name] <= 0 {
			t.Errorf("%s is %v", name, got[name])
		}
	}
}

// What a disk fails is counted, and told apart from what could not be opened.
func TestFiguresOfFailures(t *testing.T) {
	var broken bool
	disk := vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) vfs.Fault {
		if broken && op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".wal") {
			return vfs.Fault{Err: context.DeadlineExceeded}
		}
		return vfs.Fault{}
	})
	r := newRig(t, disk, varve.Options{})
	orders := r.topic("orders", 2, nil)
	r.publish(orders, 0, 1)
	broken = true
	p, err := orders.Partition(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Publish(context.Background(), varve.Record{}); err == nil {
		t.Fatal("the disk failed, and the publish did not")
	}
	expect(t, r.scrape(metrics.Options{}), map[string]float64{
		"varve_sync_round_failures_total":                 1,
		`varve_topic_partitions_readonly{topic="orders"}`: 1,
		`varve_topic_partitions_unopened{topic="orders"}`: 0,
	})
	if err := r.engine.Close(); !errors.Is(err, varve.ErrReadOnly) {
		t.Errorf("close: %v", err)
	}
}

func TestFiguresOfGroups(t *testing.T) {
	r := worked(t)
	orders, err := r.engine.Topic("orders")
	if err != nil {
		t.Fatal(err)
	}
	first := r.now.Load()
	r.now.Add(1000 * 1000)
	r.publish(orders, 0, 1)
	r.commit("billing", "orders", 1, 4)
	got := r.scrape(metrics.Options{})
	expect(t, got, map[string]float64{
		`varve_group_members{group="billing"}`:                                                      0,
		`varve_group_partitions{group="billing"}`:                                                   2,
		`varve_group_lag_records{group="billing"}`:                                                  5,
		`varve_group_lost_records{group="billing"}`:                                                 0,
		`varve_group_loss_distance_records{group="billing"}`:                                        5,
		`varve_group_loss_distance_seconds{group="billing"}`:                                        3600 - 1000,
		`varve_group_rebalances_total{group="billing"}`:                                             0,
		`varve_group_partition_lag_records{group="billing",partition="0",topic="orders"}`:           5,
		`varve_group_partition_loss_distance_records{group="billing",partition="0",topic="orders"}`: 5,
		`varve_group_partition_loss_distance_seconds{group="billing",partition="0",topic="orders"}`: 2600,
		`varve_group_partition_lag_records{group="billing",partition="1",topic="orders"}`:           0,
		`varve_group_partition_loss_distance_records{group="billing",partition="1",topic="orders"}`: absent,
		`varve_group_partition_loss_distance_seconds{group="billing",partition="1",topic="orders"}`: absent,
	})

	// At the second that the figure says, and not before it, the record goes.
	r.now.Store(first + 3600*1000)
	if err := r.engine.RunRetention(); err != nil {
		t.Fatal(err)
	}
	expect(t, r.scrape(metrics.Options{}), map[string]float64{
		`varve_group_lost_records{group="billing"}`:          0,
		`varve_group_loss_distance_seconds{group="billing"}`: 0,
	})
	r.now.Add(1)
	if err := r.engine.RunRetention(); err != nil {
		t.Fatal(err)
	}
	got = r.scrape(metrics.Options{})
	if got[`varve_group_lost_records{group="billing"}`] < 1 {
		t.Error("nothing was lost")
	}
	expect(t, got, map[string]float64{`varve_group_loss_distance_records{group="billing"}`: 0})

	// Where age takes nothing there is no such time.
	if err := orders.Alter(map[string]string{"retention.ms": "-1"}); err != nil {
		t.Fatal(err)
	}
	expect(t, r.scrape(metrics.Options{}), map[string]float64{`varve_group_loss_distance_seconds{group="billing"}`: absent})
}

func TestFiguresOfMembers(t *testing.T) {
	r := worked(t)
	ctx := context.Background()
	join := func() *varve.Member {
		m, err := r.engine.Join(ctx, "billing", []string{"orders"}, varve.JoinOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	poll := func(m *varve.Member) {
		if _, _, err := m.TryPoll(ctx); err != nil {
			t.Fatal(err)
		}
	}
	a := join()
	poll(a)
	one := map[string]float64{
		`varve_group_members{group="billing"}`:               1,
		`varve_group_rebalances_total{group="billing"}`:      1,
		`varve_group_rebalancing{group="billing"}`:           0,
		`varve_group_members_put_out_total{group="billing"}`: 0,
	}
	expect(t, r.scrape(metrics.Options{}), one)
	b := join()
	expect(t, r.scrape(metrics.Options{}), map[string]float64{
		`varve_group_members{group="billing"}`:          2,
		`varve_group_rebalances_total{group="billing"}`: 2,
		`varve_group_rebalancing{group="billing"}`:      1, // a has yet to let go
	})
	for range 4 {
		poll(a)
		poll(b)
	}
	expect(t, r.scrape(metrics.Options{}), map[string]float64{`varve_group_rebalancing{group="billing"}`: 0})
	for _, m := range []*varve.Member{a, b} {
		if err := m.LeaveForGood(ctx); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, r.scrape(metrics.Options{}), map[string]float64{`varve_group_members{group="billing"}`: 0})
}

// A group's place is forgotten in its figures as it is everywhere.
func TestFiguresOfPlacesThatAreForgotten(t *testing.T) {
	r := worked(t)
	r.topic("other", 1, nil)
	r.commit("billing", "other", 0, 0)
	ctx, places := context.Background(), `varve_group_partitions{group="billing"}`
	expect(t, r.scrape(metrics.Options{}), map[string]float64{places: 2})
	if err := r.engine.DeleteCommits(ctx, "billing", "other"); err != nil {
		t.Fatal(err)
	}
	expect(t, r.scrape(metrics.Options{}), map[string]float64{places: 1})
	r.commit("billing", "other", 0, 0)
	r.commit("search", "other", 0, 0)
	if err := r.engine.DeleteTopic("other"); err != nil {
		t.Fatal(err)
	}
	expect(t, r.scrape(metrics.Options{}), map[string]float64{places: 1, `varve_group_partitions{group="search"}`: absent})
	if err := r.engine.DeleteGroup("billing"); err != nil {
		t.Fatal(err)
	}
	expect(t, r.scrape(metrics.Options{}), map[string]float64{places: absent})
}

// consume has a group handle all topics named, until the test is over.
func (r *rig) consume(group string, h varve.Handler, o varve.ConsumeOptions, topics ...string) {
	r.t.Helper()
	if _, err := r.engine.Consume(context.Background(), group, topics, h, o); err != nil {
		r.t.Fatal(err)
	}
}

// failing is a handler of which the first records of a partition fail.
func failing(records varve.Offset) varve.Handler {
	return func(_ context.Context, d varve.Delivery) error {
		if d.Offset < records {
			return errors.New("broken")
		}
		return nil
	}
}

func TestFiguresOfHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vfs.NewMem(), varve.Options{Groups: varve.GroupOptions{Workers: 5}})
		orders := r.topic("orders", 2, nil)
		r.publish(orders, 0, 9)
		r.publish(orders, 1, 4)
		r.topic("dead", 1, nil)
		r.topic("empty", 1, nil)
		retry := varve.Retry{Attempts: 3}
		r.consume("billing", failing(1), varve.ConsumeOptions{OnFailure: varve.DeadLetter, DeadLetters: "dead", Retry: retry}, "orders")
		r.consume("search", failing(3), varve.ConsumeOptions{OnFailure: varve.SkipRecord, Retry: retry}, "orders")
		r.consume("audit", failing(9), varve.ConsumeOptions{Retry: retry}, "orders")
		time.Sleep(time.Minute)
		expect(t, r.scrape(metrics.Options{}), map[string]float64{
			`varve_group_handled_records_total{group="billing"}`:      11,
			`varve_group_handler_errors_total{group="billing"}`:       6,
			`varve_group_handler_retries_total{group="billing"}`:      4,
			`varve_group_handler_dead_letters_total{group="billing"}`: 2,
			`varve_group_handler_skipped_total{group="billing"}`:      0,
			`varve_group_partitions_stopped{group="billing"}`:         0,
			`varve_group_handled_records_total{group="search"}`:       7,
			`varve_group_handler_dead_letters_total{group="search"}`:  0,
			`varve_group_handler_skipped_total{group="search"}`:       6,
			`varve_group_handled_records_total{group="audit"}`:        0,
			`varve_group_partitions_stopped{group="audit"}`:           2,
			"varve_handler_workers":                                   5,
			"varve_handler_workers_busy":                              0,
			"varve_handlers_running":                                  0,
		})
		expect(t, r.scrape(metrics.Options{MaxGroups: -1}), map[string]float64{
			`varve_group_partitions_stopped{group=""}`:    2,
			`varve_group_handled_records_total{group=""}`: absent,
		})

		// One handler keeps its worker, and one waits for the engine without.
		idle, err := r.engine.Join(t.Context(), "idle", []string{"empty"}, varve.JoinOptions{})
		if err != nil {
			t.Fatal(err)
		}
		end := make(chan struct{})
		r.consume("busy", func(ctx context.Context, d varve.Delivery) error {
			if d.Partition == 0 {
				<-end
			} else {
				idle.Poll(ctx)
			}
			return nil
		}, varve.ConsumeOptions{}, "orders")
		synctest.Wait()
		expect(t, r.scrape(metrics.Options{}), map[string]float64{
			"varve_handler_workers":      5,
			"varve_handler_workers_busy": 1,
			"varve_handlers_running":     2,
		})
		close(end)
		if err := idle.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		if err := r.engine.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Above a bound topics and groups are one, and partitions none.
func TestBounds(t *testing.T) {
	r := worked(t)
	r.publish(r.topic("clicks", 1, nil), 0, 3)
	r.commit("search", "orders", 1, 1)
	exact := metrics.Options{MaxPartitions: 3, MaxTopics: 2, MaxGroups: 2}
	expect(t, r.scrape(exact), map[string]float64{
		`varve_topic_appended_records_total{topic="orders"}`:                             13,
		`varve_topic_appended_records_total{topic=""}`:                                   absent,
		`varve_partition_end_offset{partition="0",topic="clicks"}`:                       3,
		`varve_group_lag_records{group="search"}`:                                        3,
		`varve_group_partition_lag_records{group="search",partition="1",topic="orders"}`: 3,
	})
	expect(t, r.scrape(metrics.Options{MaxPartitions: 2}), map[string]float64{
		`varve_topic_appended_records_total{topic="clicks"}`:                             3,
		`varve_partition_end_offset{partition="0",topic="clicks"}`:                       absent,
		`varve_group_partition_lag_records{group="search",partition="1",topic="orders"}`: 3, // there are two places
	})
	expect(t, r.scrape(metrics.Options{MaxPartitions: 1}), map[string]float64{
		`varve_group_lag_records{group="search"}`:                                        3,
		`varve_group_partition_lag_records{group="search",partition="1",topic="orders"}`: absent,
	})
	folded := metrics.Options{MaxTopics: 1, MaxGroups: -1, MaxPartitions: math.MaxInt}
	sums := map[string]float64{
		`varve_topic_appended_records_total{topic="clicks"}`:                             absent,
		`varve_topic_appended_records_total{topic=""}`:                                   16,
		`varve_topic_partitions{topic=""}`:                                               3,
		`varve_topic_records{topic=""}`:                                                  16,
		`varve_partition_end_offset{partition="0",topic="clicks"}`:                       3,
		`varve_group_lag_records{group="search"}`:                                        absent,
		`varve_group_lag_records{group=""}`:                                              7,
		`varve_group_loss_distance_records{group=""}`:                                    1,
		`varve_group_rebalances_total{group=""}`:                                         absent,
		`varve_group_partition_lag_records{group="search",partition="1",topic="orders"}`: absent,
	}
	expect(t, r.scrape(folded), sums)

	// A sum never falls, also when a topic goes.
	r.topic("more", 1, nil)
	if err := r.engine.DeleteTopic("clicks"); err != nil {
		t.Fatal(err)
	}
	expect(t, r.scrape(folded), map[string]float64{
		`varve_topic_appended_records_total{topic=""}`: 16,
		`varve_topic_records{topic=""}`:                13,
	})
}

func TestClosedEngineReportsThat(t *testing.T) {
	r := worked(t)
	if err := r.engine.Close(); err != nil {
		t.Fatal(err)
	}
	got := r.scrape(metrics.Options{})
	if len(got) != 1 || got["varve_up"] != 0 {
		t.Errorf("a closed engine reports %v", slices.Sorted(maps.Keys(got)))
	}
}

// A scrape allocates in proportion to what it reports, not to what there is.
func TestScrapeAllocatesForWhatItReports(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector has pools forget what they keep, so that it is allocated again")
	}
	allocs := func(partitions int) float64 {
		r := newRig(t, vfs.NewMem(), varve.Options{})
		orders := r.topic("orders", partitions, nil)
		var commits []varve.Commit
		for i := range partitions {
			commits = append(commits, varve.Commit{Topic: "orders", Partition: int32(i)})
			r.publish(orders, i, 1)
		}
		if err := r.engine.CommitOffsets(context.Background(), "billing", commits...); err != nil {
			t.Fatal(err)
		}
		c := metrics.NewCollector(r.engine, metrics.Options{MaxPartitions: -1})
		ch := make(chan prometheus.Metric, 1000)
		return testing.AllocsPerRun(10, func() {
			c.Collect(ch)
			for len(ch) > 0 {
				<-ch
			}
		})
	}
	if few, many := allocs(10), allocs(500); many > few+20 {
		t.Errorf("a scrape of 10 partitions allocates %v times, of 500 %v times", few, many)
	}
}

// Checkpoints and the scrub are the janitor's: they are counted as time passes.
func TestFiguresOfWhatHappensByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := worked(t)
		time.Sleep(10 * time.Second)
		got := r.scrape(metrics.Options{})
		if n := got["varve_checkpoints_total"]; n < 2 {
			t.Errorf("%v checkpoints in ten seconds", n)
		}
		expect(t, got, map[string]float64{
			"varve_last_checkpoint_timestamp_seconds": float64(r.now.Load()) / 1000,
			"varve_checkpoint_failures_total":         0,
			"varve_scrub_passes_total":                0,
			"varve_last_scrub_timestamp_seconds":      absent,
		})
		time.Sleep(2 * time.Minute)
		got = r.scrape(metrics.Options{})
		expect(t, got, map[string]float64{
			"varve_scrub_passes_total":           1,
			"varve_scrub_faults":                 0,
			"varve_last_scrub_timestamp_seconds": float64(r.now.Load()) / 1000,
		})
		if got["varve_scrub_read_bytes_total"] <= 0 {
			t.Error("the scrub has read nothing")
		}
		if err := r.engine.Close(); err != nil {
			t.Error(err)
		}
	})
}
