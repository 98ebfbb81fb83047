package group

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "write what stories say now into testdata, to be read before it is committed")

// TestStories plays the files of testdata/stories. Each line of a story is an
// event; behind "----" stands what came of it.
//
//	group max=3 assignor=range      a new group (without it: no maximum, uniform)
//	topics t=4 u=2                  the topics there are; t@2=4 is a second topic named t
//	join a topics=t,u instance=i session=10s rebalance=5s
//	beat a                          a heartbeat that says nothing of partitions
//	beat a owned                    ... that owns what the last answer assigned
//	beat a owned=t/0,t/1 epoch=7 topics=u
//	lost beat a owned               the answer does not arrive
//	leave a, leave-for-now a
//	tick 10s                        time passes
//	commit a epoch=3, commit epoch=-1
//	owner t/0
//	restart                         the state is kept and restored
//	reassign, target a=t/0,t/1 b=   for assignor=outside: what the leader sent
//	describe
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/stories/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			told := play(t, string(data))
			if *rewrite && told != string(data) {
				if err := os.WriteFile(file, []byte(told), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if !*rewrite && told != string(data) {
				t.Errorf("%s goes otherwise:\n%s", file, firstDifference(string(data), told))
			}
		})
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range w {
		if i >= len(g) || w[i] != g[i] {
			return fmt.Sprintf("line %d says\n\t%s\nand it is\n%s", i+1, w[i], strings.Join(g[min(i, len(g)):min(i+4, len(g))], "\n"))
		}
	}
	return "there is more of it"
}

// play returns the story with its outcomes as they are.
func play(t *testing.T, text string) string {
	s := &stage{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), names: map[TopicID]string{}}
	s.group("")
	var out strings.Builder
	skip := false
	for line := range strings.Lines(strings.ReplaceAll(text, "\r\n", "\n")) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "----":
			skip = true
		case line == "" || strings.HasPrefix(line, "#"):
			skip = false
			out.WriteString(line + "\n")
		case !skip:
			fmt.Fprintf(&out, "%s\n----\n%s", line, s.do(line))
		}
	}
	return out.String()
}

// stage is where a story happens: a group, and what its members know.
type stage struct {
	t       *testing.T
	now     time.Time
	g       *Group
	outside outside
	names   map[TopicID]string
	known   map[string]Answer // the last answer that arrived
}

func (s *stage) group(args string) {
	o := Options{}
	for _, arg := range strings.Fields(args) {
		switch key, value, _ := strings.Cut(arg, "="); {
		case key == "max":
			o.MaxSize = s.number(value)
		case value == "range":
			o.Assignor = Range{}
		case value == "outside":
			o.Assignor = &s.outside
		}
	}
	s.g = New("g", s.now, o)
	s.known = map[string]Answer{}
}

// outside is an assignor whose targets come from elsewhere.
type outside struct{ target Target }

func (o *outside) Name() string { return "outside" }

func (o *outside) Assign(Spec) (Target, bool) {
	target := o.target
	o.target = nil
	return target, target != nil
}

func (s *stage) do(line string) string {
	verb, rest, _ := strings.Cut(line, " ")
	lost := verb == "lost"
	if lost {
		verb, rest, _ = strings.Cut(rest, " ")
	}
	words := strings.Fields(rest)
	name := ""
	if len(words) > 0 && !strings.Contains(words[0], "=") {
		name, words = words[0], words[1:]
	}
	args := map[string]string{}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		args[key] = value
	}
	before := s.g.Snapshot()
	d, told, err := s.event(verb, name, rest, args)
	s.check(before, d)
	if told != "" {
		return told
	}
	var out strings.Builder
	if err != nil {
		fmt.Fprintf(&out, "error: %v\n", err)
	}
	out.WriteString(s.tell(d))
	if lost {
		out.WriteString("(lost)\n")
	} else if d.Answer.Member != "" {
		s.known[d.Answer.Member] = d.Answer
	}
	if out.Len() == 0 {
		return "ok\n"
	}
	return out.String()
}

func (s *stage) event(verb, name, rest string, args map[string]string) (d Decision, told string, err error) {
	switch verb {
	case "group":
		s.group(rest)
	case "topics":
		d = s.g.SetTopics(s.now, s.topics(args))
	case "join":
		d, err = s.g.Join(s.now, Join{
			Member: name, Instance: args["instance"], Topics: list(args["topics"]),
			SessionTimeout: s.duration(args["session"]), RebalanceTimeout: s.duration(args["rebalance"]),
		})
	case "beat":
		d, err = s.g.Heartbeat(s.now, s.heartbeat(name, args))
	case "leave":
		d, err = s.g.Leave(s.now, name, args["instance"])
	case "leave-for-now":
		d, err = s.g.LeaveForNow(s.now, name, args["instance"])
	case "tick":
		s.now = s.now.Add(s.duration(name))
		d = s.g.Expire(s.now)
	case "commit":
		err = s.g.CheckCommit(name, args["instance"], s.epoch(name, args))
	case "owner":
		id, _ := s.g.Owner(s.partition(name))
		told = fmt.Sprintf("%q\n", id)
	case "restart":
		s.g, err = Restore(s.now, s.g.Snapshot(), s.g.options)
	case "target":
		s.outside.target = Target{}
		for id, owned := range args {
			s.outside.target[id] = s.partitions(owned)
		}
		d = s.g.Reassign(s.now)
	case "reassign":
		d = s.g.Reassign(s.now)
	case "describe":
		told = s.describe()
	default:
		s.t.Fatalf("no event %q", verb)
	}
	return d, told, err
}

// check holds what is true of every event: who is refused changes nothing, and
// Changed tells when the state is another.
func (s *stage) check(before State, d Decision) {
	after := s.g.Snapshot()
	if !d.Changed && before.ID == after.ID && len(before.Members) > 0 && !reflect.DeepEqual(before, after) {
		s.t.Errorf("the state changed and the decision says no:\n%+v\n%+v", before, after)
	}
}

func (s *stage) heartbeat(name string, args map[string]string) Heartbeat {
	h := Heartbeat{Member: name, Instance: args["instance"], Epoch: s.epoch(name, args)}
	if owned, given := args["owned"]; given && owned != "" {
		h.Owned = s.partitions(owned)
	} else if given {
		h.Owned = append([]Partition{}, s.known[name].Assigned...)
	}
	if topics, given := args["topics"]; given {
		h.Topics = append([]string{}, list(topics)...)
	}
	return h
}

func (s *stage) epoch(name string, args map[string]string) int32 {
	if text, given := args["epoch"]; given {
		return int32(s.number(text))
	}
	return s.known[name].Epoch
}

func (s *stage) topics(args map[string]string) Topics {
	topics := Topics{}
	for key, count := range args {
		name, _, _ := strings.Cut(key, "@")
		id := TopicID([]byte(key + strings.Repeat("\x00", 16))[:16])
		s.names[id] = key
		topics[name] = Topic{name, id, int32(s.number(count))}
	}
	return topics
}

func (s *stage) partitions(text string) []Partition {
	set := []Partition{}
	for _, p := range list(text) {
		if p != "none" {
			set = append(set, s.partition(p))
		}
	}
	return set
}

func (s *stage) partition(text string) Partition {
	name, number, _ := strings.Cut(text, "/")
	return Partition{TopicID([]byte(name + strings.Repeat("\x00", 16))[:16]), int32(s.number(number))}
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func (s *stage) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *stage) duration(text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *stage) tell(d Decision) string {
	var out strings.Builder
	if a := d.Answer; a.Member != "" {
		fmt.Fprintf(&out, "%s: epoch %d, %s, has %s", a.Member, a.Epoch, a.Phase, s.name(a.Assigned))
		if len(a.Revoke) > 0 {
			fmt.Fprintf(&out, ", lets go of %s", s.name(a.Revoke))
		}
		if a.Epoch < 0 {
			out.Reset()
			fmt.Fprintf(&out, "%s: epoch %d", a.Member, a.Epoch)
		} else if !a.Moved {
			out.WriteString(" (as before)")
		}
		out.WriteByte('\n')
	}
	for _, f := range d.Fenced {
		fmt.Fprintf(&out, "fenced: %s at epoch %d (%s)\n", f.Member, f.Epoch, f.Reason)
	}
	if len(d.Wake) > 0 {
		fmt.Fprintf(&out, "wake: %s\n", strings.Join(d.Wake, " "))
	}
	return out.String()
}

func (s *stage) name(set []Partition) string {
	if len(set) == 0 {
		return "nothing"
	}
	var words []string
	for _, p := range set {
		words = append(words, fmt.Sprintf("%s/%d", s.names[p.Topic], p.Number))
	}
	return strings.Join(words, " ")
}

func (s *stage) describe() string {
	var out bytes.Buffer
	d := s.g.Describe()
	fmt.Fprintf(&out, "%s: %s, epoch %d, target of %d, %s\n", d.ID, d.Status, d.Epoch, d.TargetEpoch, d.Assignor)
	for _, m := range d.Members {
		fmt.Fprintf(&out, "%s: epoch %d, %s, subscribes to %s", m.ID, m.Epoch, m.Phase, strings.Join(m.Topics, " "))
		if m.Instance != "" {
			fmt.Fprintf(&out, ", instance %s", m.Instance)
		}
		fmt.Fprintf(&out, "\n  has %s", s.name(m.Assigned))
		if len(m.Revoke) > 0 {
			fmt.Fprintf(&out, ", lets go of %s", s.name(m.Revoke))
		}
		if !slices.Equal(m.Assigned, m.Target) {
			fmt.Fprintf(&out, ", is to have %s", s.name(m.Target))
		}
		out.WriteByte('\n')
	}
	return out.String()
}
