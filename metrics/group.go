package metrics

import "github.com/varvelog/varve"

// groupFigures are those of a group, or of several.
type groupFigures struct {
	several                    bool
	members, places, lag, lost int64
	rebalances, putOut         int64
	rebalancing                int64
	handled                    varve.HandledStats
	nearest                    placeFigures // the least of each
}

// placeFigures are those of a group in a partition.
type placeFigures struct {
	lag      int64
	distance int64   // none: nothing is at risk
	left     float64 // seconds; none likewise
}

var ofGroup = labelled([]string{"group"},
	gauge("varve_group_members", "Members.",
		func(f *groupFigures) float64 { return float64(f.members) }),
	gauge("varve_group_partitions", "Partitions in which the group has a place.",
		func(f *groupFigures) float64 { return float64(f.places) }),
	gauge("varve_group_lag_records", "Offsets from the group's places to the ends.",
		func(f *groupFigures) float64 { return float64(f.lag) }),
	gauge("varve_group_lost_records", "Offsets that were removed before the group came to them, in partitions that it has not read since.",
		func(f *groupFigures) float64 { return float64(f.lost) }),
	gauge("varve_group_loss_distance_records", "Records that retention would remove before the first that the group has not read; the least of all partitions with a lag.",
		func(f *groupFigures) float64 { return float64(f.nearest.distance) }),
	gauge("varve_group_loss_distance_seconds", "Time until retention by age may remove a record that the group has not read; the least of all partitions with a lag.",
		func(f *groupFigures) float64 { return f.nearest.left }),
	gauge("varve_group_rebalancing", "Whether members are on their way to the partitions that they are to have.",
		func(f *groupFigures) float64 { return float64(f.rebalancing) }),
	counter("varve_group_rebalances_total", "Times that partitions were dealt out anew.",
		func(f *groupFigures) float64 { return f.ofOne(f.rebalances) }),
	counter("varve_group_members_put_out_total", "Members that were put out because they were late.",
		func(f *groupFigures) float64 { return f.ofOne(f.putOut) }),
	counter("varve_group_handled_records_total", "Records that handlers have processed.",
		func(f *groupFigures) float64 { return f.ofOne(f.handled.Records) }),
	counter("varve_group_handler_errors_total", "Attempts of handlers that failed, by an error or a panic.",
		func(f *groupFigures) float64 { return f.ofOne(f.handled.Errors) }),
	counter("varve_group_handler_retries_total", "Attempts of handlers at records that had failed before.",
		func(f *groupFigures) float64 { return f.ofOne(f.handled.Retries) }),
	counter("varve_group_handler_skipped_total", "Records that handlers have failed for good and that were skipped.",
		func(f *groupFigures) float64 { return f.ofOne(f.handled.Skipped) }),
	counter("varve_group_handler_dead_letters_total", "Records that handlers have failed for good and that were published as dead letters.",
		func(f *groupFigures) float64 { return f.ofOne(f.handled.DeadLetters) }),
	gauge("varve_group_partitions_stopped", "Partitions that stand still at a record which a handler has failed for good.",
		func(f *groupFigures) float64 { return float64(f.handled.Stopped) }),
)

var ofPlace = labelled([]string{"group", "topic", "partition"},
	gauge("varve_group_partition_lag_records", "Offsets from the group's place to the end.",
		func(f *placeFigures) float64 { return float64(f.lag) }),
	gauge("varve_group_partition_loss_distance_records", "Records that retention would remove before the first that the group has not read, where there is one.",
		func(f *placeFigures) float64 { return float64(f.distance) }),
	gauge("varve_group_partition_loss_distance_seconds", "Time until retention by age may remove a record that the group has not read, where there is one.",
		func(f *placeFigures) float64 { return f.left }),
)

// ofOne is a counter of a group. Those of several have no sum that never falls: groups go.
func (f *groupFigures) ofOne(n int64) float64 {
	if f.several {
		return none
	}
	return float64(n)
}

func newGroupFigures(several bool) *groupFigures {
	return &groupFigures{several: several, nearest: placeFigures{distance: none, left: none}}
}

// count takes a group in.
func (f *groupFigures) count(g *varve.GroupStats) {
	f.members += int64(g.Members)
	f.rebalances += g.Rebalances
	f.putOut += g.PutOut
	stopped := f.handled.Stopped + g.Handled.Stopped
	f.handled = g.Handled // of its counters those of one group are reported, of several none
	f.handled.Stopped = stopped
	if g.Rebalancing {
		f.rebalancing++
	}
	for p := range g.Places() {
		f.places++
		f.lag += p.Lag
		f.lost += p.Lost
		at := placeFiguresOf(&p)
		f.nearest.distance = nearer(f.nearest.distance, at.distance)
		f.nearest.left = nearer(f.nearest.left, at.left)
	}
}

func placeFiguresOf(p *varve.PlaceStats) placeFigures {
	f := placeFigures{lag: p.Lag, distance: p.Distance, left: none}
	if p.TimeLeft >= 0 {
		f.left = p.TimeLeft.Seconds()
	}
	return f
}

// nearer is the smaller of two that there are.
func nearer[N int64 | float64](a, b N) N {
	if a == none || b != none && b < a {
		return b
	}
	return a
}
