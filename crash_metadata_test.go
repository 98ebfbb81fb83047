package varve_test

import (
	"bytes"
	"context"
	"errors"
	"path"
	"reflect"
	"strings"
	"testing"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
)

const copySuffix = ".copy"

func isMetadata(file string) bool {
	switch strings.TrimSuffix(path.Base(file), copySuffix) {
	case "FORMAT", "topic.json", "partition.json":
		return true
	}
	return false
}

func metadataFiles(disk *vfs.Mem) (list []string) {
	for _, f := range disk.Files() {
		if isMetadata(f) {
			list = append(list, f)
		}
	}
	return list
}

// ids are what tells a topic from another.
func ids(e *varve.Engine) map[string]string {
	all := map[string]string{}
	for _, t := range e.Topics() {
		all[t.Name()] = t.ID().String()
		for _, c := range t.Config() {
			all[t.Name()] += " " + c.Key + "=" + c.Value
		}
	}
	return all
}

// TestMetadataSurvivesDamage spoils every file of metadata in every way, flips
// included: nothing is lost, the log names the file, and what was damaged is as it
// was before. The copy of a log start is not read after a clean stop, and so not
// mended before the next start that is not.
func TestMetadataSurvivesDamage(t *testing.T) {
	t.Parallel() // it takes long, and most of it on one processor
	clean, unclean, _ := filled(t)
	for name, disk := range map[string]*vfs.Mem{"clean": clean, "after a crash": unclean} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, _ := openOn(t, disk.Clone())
			want, wantIDs := ask(t, e), ids(e)
			mustClose(t, e)
			check := func(t *testing.T, what, file string, m *vfs.Mem) {
				t.Helper()
				before, _ := disk.ReadFile(file)
				e, logged := openOn(t, m)
				defer mustClose(t, e)
				if got := ask(t, e); !reflect.DeepEqual(got, want) {
					t.Fatalf("%s %s: %s", file, what, difference(got, want))
				}
				if got := ids(e); !reflect.DeepEqual(got, wantIDs) {
					t.Fatalf("%s %s: topics are %v, they were %v", file, what, got, wantIDs)
				}
				if name == "clean" && strings.Contains(file, "partition.json") {
					return
				}
				if logged.first(strings.TrimSuffix(file, copySuffix)) == "" {
					t.Fatalf("%s %s: the log does not name it:\n%s", file, what, logged.buf.String())
				}
				after, err := m.ReadFile(file)
				if strings.HasPrefix(file, "FORMAT") { // counts the starts
					before, _ = m.ReadFile("FORMAT")
					if file == "FORMAT" {
						before, _ = m.ReadFile("FORMAT.copy")
					}
				}
				if err != nil || !bytes.Equal(after, before) {
					t.Fatalf("%s %s: it is not whole again: %s (%v), it was %s", file, what, after, err, before)
				}
			}
			step := int64(1)
			if testing.Short() || raceDetector {
				step = 97
			}
			for _, file := range metadataFiles(disk) {
				for _, h := range harms(nil) {
					if h.name == "of an earlier stop" {
						continue
					}
					m := disk.Clone()
					h.do(m, file)
					check(t, h.name, file, m)
				}
				data, err := disk.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for bit := int64(0); bit < int64(len(data))*8; bit += step {
					m := disk.Clone()
					if err := m.FlipBit(file, bit); err != nil {
						t.Fatal(err)
					}
					check(t, "flipped", file, m)
				}
			}
		})
	}
}

// A document of another topic or partition, put in the place of one of two files, is not
// taken for a newer one: topic.json says by its name whose it is, partition.json by the
// seals beside it. Where nothing tells, what it speaks of is refused, and changed in
// nothing.
func TestForeignMetadataIsNotBelieved(t *testing.T) {
	_, disk, _ := filled(t)
	e, _ := openOn(t, disk.Clone())
	want := ask(t, e)
	mustClose(t, e)
	for _, c := range []struct{ file, from, unsealed string }{
		{"topics/a/topic.json", "topics/o/topic.json", ""},
		{"topics/a/topic.json.copy", "topics/o/topic.json", ""},
		{"topics/a/0/partition.json", "topics/o/1/partition.json", ""},
		{"topics/a/0/partition.json.copy", "topics/o/1/partition.json", ""},
		{"topics/o/1/partition.json", "topics/a/0/partition.json", ""},
		{"topics/o/1/partition.json.copy", "topics/a/0/partition.json", ""},
		{"topics/o/1/partition.json.copy", "topics/a/0/partition.json", "topics/o/1/seals"},
	} {
		t.Run(strings.ReplaceAll(c.file, "/", " ")+" "+path.Base(c.unsealed), func(t *testing.T) {
			m := disk.Clone()
			theirs, err := m.ReadFile(c.from)
			if err != nil {
				t.Fatal(err)
			}
			if c.unsealed != "" {
				if err := m.Remove(c.unsealed); err != nil {
					t.Fatal(err)
				}
			}
			ours, _ := m.ReadFile(c.file)
			if err := m.WriteFile(c.file, theirs); err != nil {
				t.Fatal(err)
			}
			e, logged := openOn(t, m)
			now, _ := m.ReadFile(c.file)
			if c.unsealed == "" {
				if got := ask(t, e); !reflect.DeepEqual(got, want) {
					t.Error(difference(got, want))
				}
				if !bytes.Equal(now, ours) || logged.first("something else") == "" {
					t.Errorf("it was %s and is %s:\n%s", ours, now, logged.buf.String())
				}
				mustClose(t, e)
				return
			}
			topic, err := e.Topic("o")
			if err != nil {
				t.Fatal(err)
			}
			p, _ := topic.Partition(1)
			if p.Err() == nil || !strings.Contains(p.Err().Error(), "different things") || logged.first("level=ERROR") == "" {
				t.Errorf("it says %v", p.Err())
			}
			mustClose(t, e)
			if now, _ := m.ReadFile(c.file); !bytes.Equal(now, theirs) {
				t.Error("it was written over")
			}
			if err := m.WriteFile(c.file, ours); err != nil {
				t.Fatal(err)
			}
			e, _ = openOn(t, m)
			if got := ask(t, e); !reflect.DeepEqual(got, want) {
				t.Errorf("brought back: %s", difference(got, want))
			}
			mustClose(t, e)
		})
	}
}

// Both files of topic.json put back from before partitions were added: the topic is
// refused while anything tells of them, with its records, its journal and its other
// files untouched; a newer file brings all of it back.
func TestOlderTopicDocumentIsNoticed(t *testing.T) {
	disk := vfs.NewMem()
	e, _ := openOn(t, disk)
	mustTopic(t, e, "t")
	mustClose(t, e)
	old := disk.Clone()
	e, _ = openOn(t, disk)
	topic := mustTopic(t, e, "t")
	if err := topic.AddPartitions(2); err != nil {
		t.Fatal(err)
	}
	p := partOf(t, topic, 1)
	if _, err := p.Publish(context.Background(), text("x")); err != nil {
		t.Fatal(err)
	}
	cut := disk.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedLost, Names: vfs.NamesLost})
	killed := disk.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept, Names: vfs.NamesKept})
	mustClose(t, e)
	stopped := disk.Clone()
	if _, err := cut.Stat("topics/t/1/00000000000000000000.log"); err == nil {
		t.Fatal("the power cut has left the log file")
	}
	unlisted := stopped.Clone() // the checkpoint alone tells
	if err := unlisted.RemoveAll("topics/t/1"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		disk *vfs.Mem
		says string
	}{
		"by the checkpoint":               {unlisted, "checkpoint"},
		"by the checkpoint and its files": {stopped, "checkpoint"},
		"by its files":                    {killed, "topics/t/1"},
		"by the journal":                  {cut, "wal"},
	} {
		t.Run(name, func(t *testing.T) {
			m := c.disk.Clone()
			newer, err := m.ReadFile("topics/t/topic.json")
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{"topics/t/topic.json", "topics/t/topic.json.copy"} {
				data, err := old.ReadFile(file)
				if err == nil {
					err = m.WriteFile(file, data)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				e, logged := openOn(t, m)
				_, err := e.Topic("t")
				if err == nil || !strings.Contains(err.Error(), "older than the topic") || !strings.HasSuffix(err.Error(), c.says+": bring back a newer one") {
					t.Errorf("it says %v", err)
				}
				if logged.first("level=ERROR") == "" {
					t.Errorf("no error is logged:\n%s", logged.buf.String())
				}
				mustClose(t, e)
			}
			if err := m.WriteFile("topics/t/topic.json", newer); err != nil {
				t.Fatal(err)
			}
			e, _ := openOn(t, m)
			defer mustClose(t, e)
			topic, err := e.Topic("t")
			if err != nil || topic.Partitions() != 2 {
				t.Fatalf("brought back: %v", err)
			}
			if c.disk != unlisted {
				if end := partOf(t, topic, 1).End(); end != 1 {
					t.Errorf("brought back, partition 1 ends at %d", end)
				}
			}
		})
	}
}

// What an attempt to add partitions has left is no sign of an older document.
func TestLeftoversOfAddedPartitionsAreNone(t *testing.T) {
	disk := vfs.NewMem()
	e, _ := openOn(t, disk)
	mustTopic(t, e, "t")
	mustClose(t, e)
	if err := partition.Create(disk, "topics/t/1"); err != nil {
		t.Fatal(err)
	}
	e, _ = openOn(t, disk)
	defer mustClose(t, e)
	if err := mustTopic(t, e, "t").AddPartitions(3); err != nil {
		t.Error(err)
	}
}

// The directory of a partition whose name is not durable, because somebody moved it away
// and back after a kill, is served only when it is: what is acknowledged then survives.
func TestNamesOfPartitionsAreDurableAfterAKill(t *testing.T) {
	disk := vfs.NewMem()
	e, _ := openOn(t, disk)
	want := fill(t, mustTopic(t, e, "t"), "before", 3)
	killed := disk.Clone()
	mustClose(t, e)
	away := func() error { return killed.Rename("topics/t/0", "topics/t/aside") }
	if err := errors.Join(away(), killed.SyncDir("topics/t"), killed.Rename("topics/t/aside", "topics/t/0")); err != nil {
		t.Fatal(err)
	}
	e, _ = openOn(t, killed)
	want = append(want, fill(t, mustTopic(t, e, "t"), "after", 3)...)
	left := killed.Crash(vfs.CrashOptions{})
	mustClose(t, e)
	checkValues(t, left, map[string][]string{"t": want})
}

// Damage to both copies is not guessed about: what they speak of refuses to serve
// and says why, everything else serves, no file of data is touched, and one copy
// brought back brings all of it back.
func TestBothCopiesDamagedIsLoud(t *testing.T) {
	clean, unclean, _ := filled(t)
	for name, disk := range map[string]*vfs.Mem{"clean": clean, "after a crash": unclean} {
		for _, how := range []string{"garbage", "empty", "missing"} {
			for _, file := range []string{"topics/a/topic.json", "topics/a/0/partition.json", "FORMAT"} {
				t.Run(strings.Join([]string{name, how, strings.ReplaceAll(file, "/", " ")}, " "), func(t *testing.T) {
					e, _ := openOn(t, disk.Clone())
					want := ask(t, e)
					mustClose(t, e)
					m := disk.Clone()
					for _, f := range []string{file, file + copySuffix} {
						spoil(t, m, f, how)
					}
					before := dataFiles(t, m)
					e, logged, err := tryOpenOn(m)
					switch {
					case file == "FORMAT" && how == "missing":
						// The topics say whose directory it is.
						if err != nil {
							t.Fatal(err)
						}
						if got := ask(t, e); !reflect.DeepEqual(got, want) {
							t.Error(difference(got, want))
						}
						mustClose(t, e)
						return
					case file == "FORMAT":
						if err == nil || !strings.Contains(err.Error(), "FORMAT") {
							t.Errorf("the error does not name the file: %v", err)
						}
					case strings.HasSuffix(file, "topic.json"):
						if _, err := e.Topic("a"); err == nil || !strings.Contains(err.Error(), "topic.json") {
							t.Errorf("the error does not name the file: %v", err)
						}
						if _, err := e.CreateTopic("a", varve.TopicConfig{}); !errors.Is(err, varve.ErrTopicExists) {
							t.Errorf("a topic is made in its place: %v", err)
						}
					case name == "clean": // the checkpoint has it, and is believed
						if got := ask(t, e); !reflect.DeepEqual(got, want) {
							t.Error(difference(got, want))
						}
					default:
						topic, err := e.Topic("a")
						if err != nil {
							t.Fatal(err)
						}
						p, _ := topic.Partition(0)
						if p.Err() == nil || !strings.Contains(p.Err().Error(), "partition.json") {
							t.Errorf("the error does not name the file: %v", p.Err())
						}
					}
					if err == nil {
						rest := ask0(t, e)
						for part, a := range rest {
							if !reflect.DeepEqual(a, want[part]) {
								t.Errorf("%s: %s", part, difference(answers{part: a}, answers{part: want[part]}))
							}
						}
						if name != "clean" || !strings.Contains(file, "partition") {
							if logged.first("level=ERROR") == "" {
								t.Error("the log says nothing of it")
							}
						}
						mustClose(t, e)
					}
					for f, data := range dataFiles(t, m) {
						if !bytes.HasPrefix(data, before[f]) {
							t.Errorf("%s was changed", f)
						}
					}
					for f := range before {
						if _, err := m.Stat(f); err != nil {
							t.Errorf("%s: %v", f, err)
						}
					}
					good, _ := disk.ReadFile(file)
					if err := m.WriteFile(file, good); err != nil {
						t.Fatal(err)
					}
					e, _ = openOn(t, m)
					if got := ask(t, e); !reflect.DeepEqual(got, want) {
						t.Errorf("one copy was brought back: %s", difference(got, want))
					}
					mustClose(t, e)
				})
			}
		}
	}
}

func spoil(t *testing.T, m *vfs.Mem, file, how string) {
	t.Helper()
	var err error
	switch how {
	case "garbage":
		err = m.WriteFile(file, []byte("garbage"))
	case "empty":
		err = m.WriteFile(file, nil)
	case "missing":
		err = m.Remove(file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func dataFiles(t *testing.T, m *vfs.Mem) map[string][]byte {
	all := map[string][]byte{}
	for _, f := range m.Files() {
		if strings.HasSuffix(f, ".log") {
			data, err := m.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all[f] = data
		}
	}
	return all
}

// ask0 asks only the partitions that serve.
func ask0(t *testing.T, e *varve.Engine) answers {
	all := answers{}
	for _, topic := range e.Topics() {
		for i := range topic.Partitions() {
			p, err := topic.Partition(i)
			if err != nil {
				t.Fatal(err)
			}
			if p.Err() == nil {
				all[bookName(p)] = askPartition(t, p)
			}
		}
	}
	return all
}
