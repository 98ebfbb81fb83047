package cli

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// Completion offers the configs that there are.
func TestConfigKeysAreTheEngines(t *testing.T) {
	e, err := varve.OpenFS(vfs.NewMem(), varve.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	topic, err := e.CreateTopic("t", varve.TopicConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, c := range topic.Config() {
		keys = append(keys, c.Key)
	}
	if !slices.Equal(keys, configKeys) {
		t.Errorf("the engine has %q, completion offers %q", keys, configKeys)
	}
}
