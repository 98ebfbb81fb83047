package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/varvelog/varve/metrics"
)

var metricForm = regexp.MustCompile(`\bvarve_[a-z0-9_]+`)

// familyNames are the names of all families.
func familyNames() map[string]metrics.Family {
	names := map[string]metrics.Family{}
	for _, f := range metrics.Families() {
		names[f.Name] = f
	}
	return names
}

// familyOf finds the family that a name in an expression is of: a histogram has three.
func familyOf(name string) (metrics.Family, bool) {
	names := familyNames()
	if f, known := names[name]; known {
		return f, f.Type != "histogram"
	}
	for _, part := range []string{"_bucket", "_sum", "_count"} {
		if f := names[strings.TrimSuffix(name, part)]; strings.HasSuffix(name, part) && f.Type == "histogram" {
			return f, true
		}
	}
	return metrics.Family{}, false
}

// The page lists the metrics as the code does: all of them, in its order and words.
func TestMetricsAreThoseOfTheCode(t *testing.T) {
	rows := pageNamed(t, "docs/metrics.md").tableOf(t, "name", "type", "labels", "unit", "meaning").rows
	code := metrics.Families()
	if len(rows) != len(code) {
		t.Errorf("docs/metrics.md lists %d metrics, the code has %d", len(rows), len(code))
	}
	for i, f := range code[:min(len(code), len(rows))] {
		labels := "-"
		if len(f.Labels) > 0 {
			labels = "`" + strings.Join(f.Labels, "`, `") + "`"
		}
		want := []string{"`" + f.Name + "`", f.Type, labels, unitOf(f.Name), f.Help}
		if !slices.Equal(rows[i], want) {
			t.Errorf("docs/metrics.md has\n%q where the code has\n%q", rows[i], want)
		}
	}
}

// unitOf is what a name says that it counts in.
func unitOf(name string) string {
	name = strings.TrimSuffix(name, "_total")
	for _, unit := range []string{"seconds", "bytes", "records", "batches", "segments"} {
		if strings.HasSuffix(name, "_"+unit) {
			return unit
		}
	}
	return "-"
}

// What pages say to alert on is there.
func TestMetricsThatPagesNameExist(t *testing.T) {
	for _, p := range allPages(t) {
		table := map[string]bool{}
		for _, f := range metrics.Families() {
			table[f.Name] = p.name == "docs/metrics.md"
		}
		for _, s := range p.commands() {
			for _, name := range metricForm.FindAllString(s.text, -1) {
				if _, known := familyOf(name); !known && !table[name] {
					t.Errorf("%s:%d: there is no metric %s", p.name, s.line, name)
				}
			}
		}
	}
}

// dashboard is what Grafana needs to have of one.
type dashboard struct {
	Title         string
	UID           string
	SchemaVersion int
	Templating    struct{ List []struct{ Name, Type string } }
	Panels        []panel
}

type panel struct {
	ID          int
	Type, Title string
	Description string
	GridPos     struct{ H, W, X, Y int }
	Datasource  struct{ Type, UID string }
	Targets     []struct{ RefID, Expr, LegendFormat string }
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "docs/grafana/varve.json"))
	var d dashboard
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDashboardIsOne(t *testing.T) {
	d := readDashboard(t)
	if d.Title == "" || d.UID == "" || d.SchemaVersion < 36 {
		t.Errorf("the dashboard has title %q, uid %q, schema version %d", d.Title, d.UID, d.SchemaVersion)
	}
	variables := map[string]bool{"__rate_interval": true, "__range": true}
	for _, v := range d.Templating.List {
		variables[v.Name] = true
	}
	var rows []string
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if p.ID == 0 || ids[p.ID] {
			t.Errorf("panel %q has no id of its own: %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("panel %q does not fit: %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("panel %q lies over %q", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			rows = append(rows, p.Title)
			continue
		}
		if p.Description == "" || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("panel %q says or asks nothing, or has a data source of its own", p.Title)
		}
		for _, q := range p.Targets {
			for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(q.Expr, -1) {
				if !variables[m[1]] {
					t.Errorf("panel %q: there is no variable %s", p.Title, m[0])
				}
			}
		}
	}
	if want := []string{"Publishing", "Durability", "Disk", "Groups", "Health"}; !slices.Equal(rows, want) {
		t.Errorf("the rows are %q, want %q", rows, want)
	}
}

var (
	legendForm   = regexp.MustCompile(`\{\{(\w+)\}\}`)
	groupingForm = regexp.MustCompile(`\bby \(([a-z, ]+)\)`)
)

// Each panel asks for metrics that there are, by labels that they have, and for each metric
// there is a panel.
func TestDashboardAsksForTheMetricsOfTheCode(t *testing.T) {
	asked := map[string]bool{}
	for _, p := range readDashboard(t).Panels {
		for _, q := range p.Targets {
			labels := map[string]bool{"instance": true, "le": strings.Contains(q.Expr, "_bucket")}
			found := metricForm.FindAllString(q.Expr, -1)
			if len(found) == 0 {
				t.Errorf("panel %q asks for nothing of varve: %s", p.Title, q.Expr)
			}
			for _, name := range found {
				f, known := familyOf(name)
				if !known {
					t.Errorf("panel %q: there is no metric %s", p.Title, name)
				}
				if f.Type == "counter" && !strings.Contains(q.Expr, "rate("+name) && !strings.Contains(q.Expr, "increase("+name) {
					t.Errorf("panel %q shows %s, a counter, as it stands", p.Title, name)
				}
				asked[f.Name] = true
				for _, l := range f.Labels {
					labels[l] = true
				}
			}
			for _, m := range legendForm.FindAllStringSubmatch(q.LegendFormat, -1) {
				if !labels[m[1]] {
					t.Errorf("panel %q: %s has no label %s", p.Title, q.Expr, m[1])
				}
			}
			for _, m := range groupingForm.FindAllStringSubmatch(q.Expr, -1) {
				for _, l := range strings.Split(m[1], ", ") {
					if !labels[l] {
						t.Errorf("panel %q: %s has no label %s", p.Title, q.Expr, l)
					}
				}
			}
		}
	}
	inner := []string{
		// A dashboard shows these per topic, and the busiest and largest partitions.
		"varve_partition_appended_bytes_total", "varve_partition_read_bytes_total",
		"varve_partition_start_offset", "varve_partition_end_offset",
		"varve_group_partition_loss_distance_records",
	}
	for name := range familyNames() {
		if asked[name] == slices.Contains(inner, name) {
			t.Errorf("%s: in a panel is %v, an exception is %v", name, asked[name], !asked[name])
		}
	}
}
