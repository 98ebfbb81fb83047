package cli

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress is a bar on standard error, or nothing where that is no terminal.
type progress struct{ bar *progressbar.ProgressBar }

// progress starts a bar of total bytes; a negative total is not known.
func (a *app) progress(what string, total int64) *progress {
	if !isTerminal(a.err) {
		return &progress{}
	}
	return &progress{bar: progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(a.err),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true),
		progressbar.OptionUseIECUnits(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionFullWidth(),
	)}
}

func (p *progress) add(bytes int64) {
	if p.bar != nil {
		p.bar.Add64(bytes)
	}
}

// clear takes the bar off the line, so that something else can be written there.
func (p *progress) clear() {
	if p.bar != nil {
		p.bar.Clear()
	}
}

func (p *progress) done() {
	if p.bar != nil {
		p.bar.Finish()
	}
}
