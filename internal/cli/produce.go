package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/record"
)

// produceFlags are the flags of produce as given.
type produceFlags struct {
	format      string
	wholeFile   bool
	separator   string
	headers     []string
	partition   int
	create      bool
	partitions  int
	config      configFlag
	durability  string
	compression string
	partitioner string
}

func (a *app) produceCommand() *cobra.Command {
	var f produceFlags
	c := &cobra.Command{
		Use:   "produce NAME [FILE]…",
		Short: "Publish lines, JSON records or whole files",
		Long: `Publish records to a topic, from files or, without any, from standard input, which
is also what a file "-" stands for: by default each line as the value of one
record. Only the newline is taken off, so a carriage return stays; a last line
without a newline counts. Records with the same key go to the same partition and
stay in order; those without a key are spread.

With --format json each line is an object:
  {"key":"k","value":"v","headers":[{"k":"a","v":"1"}],"partition":0}
Only value must be there, and may be null. Bytes that are no UTF-8 go, in base64,
into key_base64, value_base64, k_base64 and v_base64. headers may also be an object.
A timestamp may be given as well, in milliseconds since 1970 or as an RFC 3339 time;
without one it is now. Retention goes by it and
is applied before the command ends: a segment of records dated longer ago than
retention.ms goes at once. A record that names its partition goes there,
unless --partition says where all go; for the others the key chooses. What consume
--format json prints is read back to the same record, but for a timestamp of 0,
which is refused: publishing takes it for now.

The partitioner murmur2 puts a key where Kafka's Java client does, crc32 where
librdkafka does, fnv1a where sarama does.

At the first record that cannot be stored it stops, says which one that is and how
many were stored. At the end it prints what was stored and where each partition
ends, on standard error.`,
		Example: `  varve produce orders < orders.ndjson
  varve produce orders --key-separator : --header source=import orders.txt
  varve produce pictures --create --whole-file *.png`,
		Args:              leastArgs("a topic name"),
		ValidArgsFunction: a.topicNames,
		RunE: func(c *cobra.Command, args []string) error {
			o, err := f.check(c.Flags().Changed)
			if err != nil {
				return err
			}
			in, err := a.openInputs(c.Context(), args[1:])
			if err != nil {
				return err
			}
			open := a.withEngine
			if f.create {
				config := varve.TopicConfig{Partitions: f.partitions, Config: f.config}
				open = func(run func(*varve.Engine) error) error { return a.withNewEngine(args[0], config, run) }
			}
			return open(func(e *varve.Engine) error {
				t, err := a.produceTopic(e, args[0], f)
				if err != nil {
					return err
				}
				return a.produce(e, t, o, in)
			})
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.format, "format", formatLines, "lines or json")
	flags.BoolVar(&f.wholeFile, "whole-file", false, "each file is one record")
	flags.StringVar(&f.separator, "key-separator", "", "the key is what comes before this in a line (\\t is a tab)")
	flags.StringArrayVar(&f.headers, "header", nil, "`key=value` to add to each record that does not have it; may be repeated")
	numberVar(flags, &f.partition, "partition", anyPartition, "publish everything to partition `N`")
	flags.Lookup("partition").DefValue = "0" // keeps -1 out of the help
	flags.BoolVar(&f.create, "create", false, "create the topic if it does not exist")
	numberVar(flags, &f.partitions, "partitions", 1, "with --create: make a topic of `N` partitions")
	flags.Var(&f.config, "config", "with --create: a config of the topic; may be repeated")
	flags.StringVar(&f.durability, "durability", "", "when a record counts as stored: fsync, interval or os (default: the topic's)")
	flags.StringVar(&f.compression, "compression", "", "none, gzip, snappy, lz4 or zstd (default: the topic's)")
	flags.StringVar(&f.partitioner, "partitioner", "murmur2", "how a key finds its partition: murmur2, crc32 or fnv1a")
	for name, values := range map[string][]string{
		"format":      {formatLines, formatJSON},
		"durability":  {"fsync", "interval", "os"},
		"compression": {"none", "gzip", "snappy", "lz4", "zstd"},
		"partitioner": {"murmur2", "crc32", "fnv1a"},
	} {
		c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	c.RegisterFlagCompletionFunc("config", completeConfig("="))
	return c
}

const formatLines = "lines"

// produceOptions are the flags after they were checked.
type produceOptions struct {
	publisher varve.PublisherOptions
	partition int // anyPartition: the key decides
	separator []byte
	headers   []varve.Header
	json      bool
	wholeFile bool
}

// check refuses flags that make no sense, before anything is opened or created.
func (f *produceFlags) check(given func(flag string) bool) (o produceOptions, err error) {
	o.json, o.wholeFile, o.partition = f.format == formatJSON, f.wholeFile, f.partition
	switch {
	case f.format != formatLines && f.format != formatJSON:
		return o, usagef("--format %q: want lines or json (see: varve produce --help)", f.format)
	case f.wholeFile && given("format"):
		return o, usagef("--whole-file and --format do not go together")
	case given("key-separator") && (o.json || f.wholeFile):
		return o, usagef("--key-separator goes with lines only")
	case given("key-separator") && f.separator == "":
		return o, usagef("--key-separator is empty")
	case given("partition") && f.partition < 0:
		return o, usagef("--partition %d: partitions count from 0", f.partition)
	case given("partition") && given("partitioner"):
		return o, usagef("--partition and --partitioner do not go together")
	case (given("partitions") || given("config")) && !f.create:
		return o, usagef("--partitions and --config go with --create (for a topic that exists: varve topic alter)")
	case f.partitions < 1:
		return o, usagef("--partitions %d: a topic has at least one (see: varve produce --help)", f.partitions)
	}
	o.separator = []byte(unescapeTab(f.separator))
	for _, h := range f.headers {
		k, v, ok := strings.Cut(h, "=")
		if !ok || k == "" {
			return o, usagef("--header %q: want key=value", h)
		}
		o.headers = append(o.headers, varve.Header{Key: k, Value: []byte(v)})
	}
	if o.publisher.Partitioner, err = varve.PartitionerByName(f.partitioner); err != nil {
		return o, usagef("--partitioner: %v", err)
	}
	if f.durability != "" {
		if o.publisher.Ack, err = varve.ParseDurability(f.durability); err != nil {
			return o, usagef("--durability: %v", err)
		}
	}
	if o.publisher.Codec = f.compression; f.compression != "" {
		if _, err = record.ParseCodec(f.compression); err != nil {
			return o, usagef("--compression %q: there are none, gzip, snappy, lz4 and zstd", f.compression)
		}
	}
	return o, nil
}

// produceTopic finds the topic, or with --create makes it.
func (a *app) produceTopic(e *varve.Engine, name string, f produceFlags) (*varve.Topic, error) {
	t, err := e.Topic(name)
	if !errors.Is(err, varve.ErrNoTopic) || !f.create {
		return t, a.noTopic(err, name, ", or pass --create")
	}
	t, err = e.CreateTopic(name, varve.TopicConfig{Partitions: f.partitions, Config: f.config})
	if err != nil {
		return nil, asked(err)
	}
	a.created(t)
	return t, nil
}

// produce publishes what the inputs hold.
func (a *app) produce(e *varve.Engine, t *varve.Topic, o produceOptions, in *inputs) error {
	if o.partition != anyPartition {
		if _, err := onePartition(t, o.partition); err != nil {
			return err
		}
	}
	limit := valueLimit(t, o.publisher.Codec)
	d := newDelivery(t, o.publisher)
	err := d.all(in.records(o, limit))
	in.bar.done()
	err = d.finish(a.err, err)
	a.retain(e)
	d.taken(a.err)
	return err
}

// sizeLimit is the largest value worth reading.
type sizeLimit struct {
	bytes int
	what  string // it is
}

// valueLimit is the topic's max.message.bytes. Where batches are compressed that
// counts for what comes out, which only the engine can tell; then it is what a batch
// may inflate to.
func valueLimit(t *varve.Topic, codec string) sizeLimit {
	configs := map[string]string{}
	for _, c := range t.Config() {
		configs[c.Key] = c.Value
	}
	if own := configs["compression.type"]; own != "producer" {
		codec = own
	}
	if codec != "" && codec != "none" && codec != "uncompressed" {
		return sizeLimit{maxInflated, "the most that a compressed batch may hold"}
	}
	n, err := parseNumber[int](configs["max.message.bytes"])
	if err != nil {
		n = 1 << 20
	}
	return sizeLimit{n, "the topic's max.message.bytes"}
}
