package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

func chart() *Chart {
	return &Chart{Title: "cost < gain & more", X: "partitions", Y: "ns a record", Lines: []Line{
		{"varve", []Point{{1, 100}, {10, 100}, {10000, 1000}}},
		{"floor", []Point{{0, 5}, {1, 0}, {1, math.NaN()}, {10, 50}}},
		{"none", nil},
	}}
}

func TestChartIsWellFormed(t *testing.T) {
	svg := chart().SVG()
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
		t.Error("a point without a place is drawn")
	}
	if got := bytes.Count(svg, []byte("<circle")); got != 4 {
		t.Errorf("%d points are drawn, want the 4 that have a place", got)
	}
	if !bytes.Equal(svg, chart().SVG()) {
		t.Error("the same chart is not the same bytes")
	}
}

func TestEmptyChart(t *testing.T) {
	if svg := (&Chart{}).SVG(); !strings.HasSuffix(string(svg), "</svg>\n") {
		t.Errorf("%s", svg)
	}
}

func TestAxisPlacesDecadesEvenly(t *testing.T) {
	a := newAxis([]float64{1, 10000}, 0, 400)
	for v, want := range map[float64]float64{1: 0, 10: 100, 100: 200, 10000: 400} {
		if got := a.place(v); math.Abs(got-want) > 1e-6 {
			t.Errorf("place(%v) = %v, want %v", v, got, want)
		}
	}
	if got := a.ticks(); !slices.Equal(got, []float64{1, 10, 100, 1000, 10000}) {
		t.Errorf("ticks %v", got)
	}
}

func TestAxisHoldsItsValues(t *testing.T) {
	for _, values := range [][]float64{{3}, {0.02, 7}, {1000}, {99, 101}, {1e-9, 1e9}} {
		a := newAxis(values, 0, 1)
		for _, v := range values {
			if at := a.place(v); at < -1e-9 || at > 1+1e-9 || math.IsNaN(at) {
				t.Errorf("%v: %v is at %v of %+v", values, v, at, a)
			}
		}
		if len(a.ticks()) == 0 {
			t.Errorf("%v: no ticks", values)
		}
	}
}

func TestLabels(t *testing.T) {
	for v, want := range map[float64]string{0.02: "0.02", 5: "5", 200: "200", 1000: "1k", 5e4: "50k", 2e6: "2M", 1e9: "1G"} {
		if got := label(v); got != want {
			t.Errorf("label(%v) = %s, want %s", v, got, want)
		}
	}
}
