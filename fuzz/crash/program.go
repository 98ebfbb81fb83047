package crash

import (
	"fmt"
	"strconv"
	"strings"
)

// Program is what an engine is asked to do, one step after the other. It has a text,
// which is how a failing one is passed on:
//
//	create a 3 durability=os segment.bytes=300; publish a/1 5 fsync; crowd a 12; reopen
//
// A step may end in a crash, in front of one of its calls that change the disk. The
// steps behind it are for the engine that is opened then:
//
//	create a 1 !kill:12; start !cut:7:lost:kept:99; publish a/0 1
type Program []Step

// lives are the parts of a program between crashes.
func (p Program) lives() (all []Program) {
	from := 0
	for i, s := range p {
		if s.Crash != nil {
			all = append(all, p[from:i+1])
			from = i + 1
		}
	}
	return append(all, p[from:])
}

// Step is one thing to do. One that makes no sense where it stands, such as a publish
// to a topic that is not there, does nothing: what is left of a program after steps
// were taken out is a program.
type Step struct {
	Verb  string
	Topic string
	Part  int
	N     int
	Words []string // what else the verb takes
	Crash *Crash   // how it ends, if it does not end well
}

// verb says what a step of it has beside its name, and what it does.
type verb struct {
	topic, part, n bool
	do             func(l *life, s Step)
}

// verbs are filled in by init: what they do refers to programs.
var verbs map[string]verb

func init() {
	verbs = map[string]verb{
		"create":  {topic: true, n: true, do: (*life).create},              // partitions, configs
		"delete":  {topic: true, do: (*life).remove},                       //
		"alter":   {topic: true, do: (*life).alter},                        // configs
		"grow":    {topic: true, n: true, do: (*life).grow},                // by so many partitions
		"publish": {topic: true, part: true, n: true, do: (*life).publish}, // a batch of so many records; a level to be acknowledged at
		"crowd":   {topic: true, n: true, do: (*life).crowd},               // so many batches, from several goroutines to all partitions
		"burst":   {topic: true, n: true, do: (*life).burst},               // so many records that nobody waits for singly
		"large":   {topic: true, part: true, do: (*life).large},            // a record that is too much for the journal
		"durable": {topic: true, part: true, do: (*life).durable},
		"trim":    {topic: true, part: true, n: true, do: (*life).trim}, // to so many records
		"roll":    {n: true, do: (*life).roll},                          // so many seconds pass, then what is old is rolled
		"retain":  {do: (*life).retain},                                 // a pass of retention
		"idle":    {n: true, do: (*life).idle},                          // so many seconds pass: the janitor's syncs and checkpoints
		"commit":  {topic: true, n: true, do: (*life).commit},           // so many records in front of the ends; a group, meta=LENGTH, times=N
		"work":    {topic: true, n: true, do: (*life).work},             // so many records at a time; a group, from=latest, meta=no
		"crew":    {topic: true, n: true, do: (*life).crew},             // as many; a group
		"reset":   {topic: true, n: true, do: (*life).reset},            // back by so many records; a group, to=earliest, to=latest
		"forget":  {topic: true, do: (*life).forget},                    // a group
		"disband": {do: (*life).disband},                                // a group
		"start":   {do: func(*life, Step) {}},                           // the opening that a life begins with
		"stop":    {do: (*life).stop},                                   // the closing that one ends with
		"reopen":  {do: (*life).reopen},                                 //
		"full":    {n: true, do: (*life).full},                          // there is room for so many bytes
		"room":    {do: (*life).room},                                   // there is room again
		"fail":    {do: (*life).fail},                                   // an operation, a part of a file name, how: the next such call fails
	}
}

func (s Step) String() string {
	var b strings.Builder
	b.WriteString(s.Verb)
	v := verbs[s.Verb]
	if v.topic {
		b.WriteString(" " + s.Topic)
	}
	if v.part {
		fmt.Fprintf(&b, "/%d", s.Part)
	}
	if v.n {
		fmt.Fprintf(&b, " %d", s.N)
	}
	for _, w := range s.Words {
		b.WriteString(" " + w)
	}
	if s.Crash != nil {
		b.WriteString(" " + s.Crash.String())
	}
	return b.String()
}

func (p Program) String() string {
	steps := make([]string, len(p))
	for i, s := range p {
		steps[i] = s.String()
	}
	return strings.Join(steps, "; ")
}

// Parse reads the text of a program.
func Parse(text string) (Program, error) {
	var p Program
	for _, part := range strings.Split(text, ";") {
		words := strings.Fields(part)
		if len(words) == 0 {
			continue
		}
		s, err := parseStep(words)
		if err != nil {
			return nil, fmt.Errorf("step %q: %w", strings.TrimSpace(part), err)
		}
		p = append(p, s)
	}
	return p, nil
}

func parseStep(words []string) (s Step, err error) {
	s.Verb, words = words[0], words[1:]
	v, ok := verbs[s.Verb]
	if !ok {
		return s, fmt.Errorf("there is no %q", s.Verb)
	}
	next := func() (w string) {
		if len(words) > 0 {
			w, words = words[0], words[1:]
		}
		return w
	}
	if v.topic {
		if s.Topic = next(); s.Topic == "" {
			return s, fmt.Errorf("names no topic")
		}
	}
	if v.part {
		name, part, _ := strings.Cut(s.Topic, "/")
		s.Topic = name
		if s.Part, err = strconv.Atoi(part); err != nil {
			return s, err
		}
	}
	if v.n {
		if s.N, err = strconv.Atoi(next()); err != nil {
			return s, err
		}
	}
	for _, w := range words {
		if !strings.HasPrefix(w, "!") {
			s.Words = append(s.Words, w)
		} else if s.Crash, err = parseCrash(w); err != nil {
			return s, err
		}
	}
	return s, nil
}
