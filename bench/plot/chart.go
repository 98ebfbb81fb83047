package plot

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
)

// Chart is lines over a common axis.
type Chart struct {
	Title string `json:"title"`
	X     string `json:"x"` // what the axis counts, with its unit
	Y     string `json:"y"`
	Lines []Line `json:"lines"`
}

// Line is one line, its points in the order of x.
type Line struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"`
}

// Point is a place in a chart; what is not above zero has none on a logarithmic axis
// and is left out.
type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// The picture, in its own units.
const (
	width, height            = 720, 400
	left, right, top, bottom = 70, 150, 40, 50
)

// colors can be told apart by people who cannot tell red from green (Okabe and Ito).
var colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

// SVG draws the chart.
func (c *Chart) SVG() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	text(&b, width/2, 22, "middle", c.Title)
	x, y := c.axes()
	c.grid(&b, x, y)
	for i, l := range c.Lines {
		c.line(&b, i, l, x, y)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// axes span all points.
func (c *Chart) axes() (x, y axis) {
	var xs, ys []float64
	for _, l := range c.Lines {
		for _, p := range l.drawn() {
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
	}
	return newAxis(xs, left, width-right), newAxis(ys, height-bottom, top)
}

func (l Line) drawn() []Point {
	return slices.DeleteFunc(slices.Clone(l.Points), func(p Point) bool {
		return !(p.X > 0 && p.Y > 0) || math.IsInf(p.X, 0) || math.IsInf(p.Y, 0)
	})
}

func (c *Chart) grid(b *bytes.Buffer, x, y axis) {
	const stroke = `stroke="#ddd"`
	for _, v := range x.ticks() {
		at := x.place(v)
		fmt.Fprintf(b, `<path d="M%.1f %d V%d" %s/>`+"\n", at, top, height-bottom, stroke)
		text(b, at, height-bottom+18, "middle", label(v))
	}
	for _, v := range y.ticks() {
		at := y.place(v)
		fmt.Fprintf(b, `<path d="M%d %.1f H%d" %s/>`+"\n", left, at, width-right, stroke)
		text(b, left-8, at+4, "end", label(v))
	}
	text(b, (left+width-right)/2, height-12, "middle", c.X)
	fmt.Fprintf(b, `<text x="16" y="%d" text-anchor="middle" transform="rotate(-90 16 %[1]d)">%s</text>`+"\n", (top+height-bottom)/2, html.EscapeString(c.Y))
}

func (c *Chart) line(b *bytes.Buffer, i int, l Line, x, y axis) {
	color := colors[i%len(colors)]
	points := l.drawn()
	for j, p := range points {
		if j == 0 {
			fmt.Fprintf(b, `<path fill="none" stroke-width="2" stroke="%s" d="M`, color)
		} else {
			b.WriteString(" L")
		}
		fmt.Fprintf(b, "%.1f %.1f", x.place(p.X), y.place(p.Y))
	}
	if len(points) > 0 {
		b.WriteString("\"/>\n")
	}
	for _, p := range points {
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x.place(p.X), y.place(p.Y), color)
	}
	at := float64(top + 10 + 18*i)
	fmt.Fprintf(b, `<rect x="%d" y="%.1f" width="12" height="4" fill="%s"/>`+"\n", width-right+12, at-6, color)
	text(b, width-right+30, at, "start", l.Name)
}

func text(b *bytes.Buffer, x, y float64, anchor, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(s))
}
