package docs

import (
	"io"
	"log/slog"
	"testing"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

func TestSettingsAreThoseOfTheCode(t *testing.T) {
	engine, err := varve.OpenFS(vfs.NewMem(), varve.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	topic, err := engine.CreateTopic("t", varve.TopicConfig{})
	if err != nil {
		t.Fatal(err)
	}
	code := topic.Config()
	rows := pageNamed(t, "docs/configuration.md").tableOf(t, "key", "default", "range", "meaning").rows
	if len(rows) != len(code) {
		t.Errorf("docs/configuration.md lists %d settings, the code has %d", len(rows), len(code))
	}
	for i, c := range code[:min(len(code), len(rows))] {
		key, value := uncode(rows[i][0]), uncode(rows[i][1])
		if key != c.Key || value != c.Value {
			t.Errorf("docs/configuration.md has %s = %s where the code has %s = %s", key, value, c.Key, c.Value)
		}
		if !c.Default {
			t.Errorf("%s of a topic made without settings is not the default", c.Key)
		}
		if rows[i][3] == "" || c.Doc == "" {
			t.Errorf("%s is not explained", c.Key)
		}
	}
}

// What the page says is refused is refused, and what it says is allowed is not.
func TestSettingRangesAreThoseOfTheCode(t *testing.T) {
	engine, err := varve.OpenFS(vfs.NewMem(), varve.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	topic, err := engine.CreateTopic("t", varve.TopicConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range pageNamed(t, "docs/configuration.md").tableOf(t, "key", "default", "range", "meaning").rows {
		key := uncode(row[0])
		good, bad := bounds(t, key, row[2])
		for _, value := range good {
			if err := topic.Alter(map[string]string{key: value}); err != nil {
				t.Errorf("%s = %s is refused: %v", key, value, err)
			}
		}
		for _, value := range bad {
			if err := topic.Alter(map[string]string{key: value}); err == nil {
				t.Errorf("%s = %s is taken", key, value)
			}
		}
		if err := topic.Alter(nil, key); err != nil {
			t.Errorf("%s cannot be given back its default: %v", key, err)
		}
	}
}
