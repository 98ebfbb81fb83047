package varve_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
)

// What is kept of a partition or a topic that cannot be opened is kept until it can:
// starts and checkpoints without it do not make the log forget how far it went.
func TestCheckpointOutlivesWhatCannotBeOpened(t *testing.T) {
	for name, c := range map[string]struct{ spoil, mend func(m *vfs.Mem) }{
		"topic": {
			func(m *vfs.Mem) {
				spoil(t, m, "topics/a/topic.json", "empty")
				spoil(t, m, "topics/a/topic.json.copy", "empty")
			},
			func(m *vfs.Mem) {},
		},
		"partition": {
			func(m *vfs.Mem) {
				data, err := m.ReadFile("topics/a/0/00000000000000000006.log")
				if err != nil {
					t.Fatal(err)
				}
				if err := m.WriteFile("topics/a/0/00000000000000000008.log", data); err != nil {
					t.Fatal(err)
				}
			},
			func(m *vfs.Mem) { spoil(t, m, "topics/a/0/00000000000000000008.log", "missing") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			clean, _, _ := filled(t)
			e, _ := openOn(t, clean.Clone())
			want := ask(t, e)["a/0"]
			mustClose(t, e)
			m := clean.Clone()
			good, err := m.ReadFile("topics/a/topic.json")
			if err != nil {
				t.Fatal(err)
			}
			c.spoil(m)
			for range 2 { // a start, with a checkpoint at its end, and another one
				e, _ = openOn(t, m)
				other, err := e.Topic("o")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := other.Publish(context.Background(), text("x")); err != nil {
					t.Fatal(err)
				}
				mustClose(t, e)
			}
			c.mend(m)
			if err := m.WriteFile("topics/a/topic.json", good); err != nil {
				t.Fatal(err)
			}
			var newest string
			for _, f := range m.Files() {
				if strings.HasPrefix(f, "topics/a/0/") && strings.HasSuffix(f, ".log") {
					newest = f
				}
			}
			spoil(t, m, newest, "missing")
			e, _ = openOn(t, m)
			topic, err := e.Topic("a")
			if err != nil {
				t.Fatal(err)
			}
			if p := partOf(t, topic, 0); p.End() != want.end {
				t.Errorf("with its newest segment lost too the end is %d, it was %d", p.End(), want.end)
			}
			mustClose(t, e)
		})
	}
}

// A stronger level is in force, and what was published below it on stable storage,
// before the topic is said to have it: a crash between the two must not find a log
// that was weaker than its topic.
func TestStrongerLevelIsInForceFirst(t *testing.T) {
	var mu sync.Mutex
	var calls []string
	r := newRig(t, background, func(r *rig) {
		r.rule = func(op vfs.Op) vfs.Fault {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, op.Kind.String()+" "+op.Name)
			return vfs.Fault{}
		}
	})
	p := r.one("durability=os")
	r.publish(p, text("x"))
	mu.Lock()
	calls = nil
	mu.Unlock()
	if err := p.Topic().Alter(config("durability=fsync")); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	sync := slices.Index(calls, "sync topics/t/0/00000000000000000000.log")
	said := slices.Index(calls, "write topics/t/topic.json")
	if sync < 0 || said < 0 || said < sync {
		t.Errorf("the calls are %q", calls)
	}
}
