import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Opens a partition directory (named {@code topic-N}) as a broker does at its start, finds every batch by offset
 * and by time through the indexes, holds the answers against a plain scan, prints a summary and closes it.
 *
 * <p>Usage: {@code java OpenLog clean|unclean DIRECTORY INDEX_INTERVAL_BYTES}. After a clean stop Kafka believes
 * the index files that it finds; after an unclean one it reads all segments and makes the files anew. Either way
 * it writes into the directory: give it a copy.
 */
public final class OpenLog {
    private static final int WHOLE_BATCH = 1; // a read gives one batch at least, however small the limit

    private final UnifiedLog log;
    private final List<Seen> batches = new ArrayList<>();
    private long records = 0;
    private int wrong = 0;

    /** A batch as the scan met it. */
    private record Seen(long base, long last, long maxTimestamp, long firstTimestamp) {}

    private OpenLog(UnifiedLog log) {
        this.log = log;
    }

    public static void main(String[] args) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        OpenLog opened;
        try (UnifiedLog log = open(args[0].equals("clean"), new File(args[1]), args[2], scheduler)) {
            opened = new OpenLog(log);
            opened.scan();
            opened.findByOffset();
            opened.findByTime();
            System.out.println(opened.summary());
        } finally {
            scheduler.shutdown();
        }
        System.exit(opened.wrong == 0 ? 0 : 1);
    }

    private static UnifiedLog open(boolean clean, File directory, String interval, KafkaScheduler scheduler)
            throws IOException {
        Map<String, String> settings = new HashMap<>();
        settings.put("index.interval.bytes", interval);
        settings.put("retention.ms", "-1");
        return UnifiedLog.create(directory, new LogConfig(settings), 0, 0, scheduler, new BrokerTopicStats(), Time.SYSTEM,
            600_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), clean,
            Optional.empty());
    }

    private void scan() throws IOException {
        for (long next = log.logStartOffset(); next < log.logEndOffset(); ) {
            RecordBatch batch = batchAt(next);
            batch.ensureValid();
            if (batch.baseOffset() != next) {
                complain("the batch after " + (next - 1) + " begins at " + batch.baseOffset());
            }
            long first = RecordBatch.NO_TIMESTAMP;
            for (Record record : batch) {
                first = record.offset() == batch.baseOffset() ? record.timestamp() : first;
                records++;
            }
            batches.add(new Seen(batch.baseOffset(), batch.lastOffset(), batch.maxTimestamp(), first));
            next = batch.nextOffset();
        }
    }

    private RecordBatch batchAt(long offset) throws IOException {
        return log.read(offset, WHOLE_BATCH, FetchIsolation.LOG_END, true).records.batches().iterator().next();
    }

    private void findByOffset() throws IOException {
        for (Seen batch : batches) {
            for (long offset : new long[] {batch.base, batch.last}) {
                long found = batchAt(offset).baseOffset();
                if (found != batch.base) {
                    complain("offset " + offset + ": read begins at " + found + ", not at " + batch.base);
                }
            }
        }
    }

    private void findByTime() throws IOException {
        for (Seen batch : batches) {
            for (long timestamp : new long[] {batch.firstTimestamp, batch.maxTimestamp, batch.maxTimestamp + 1}) {
                if (timestamp < 0) {
                    continue; // such ask Kafka for other things: the latest offset, the earliest
                }
                long want = firstAtOrAfter(timestamp);
                long found = log.fetchOffsetByTimestamp(timestamp, Optional.empty())
                    .timestampAndOffsetOpt().map(at -> at.offset).orElse(-1L);
                if (found != want) {
                    complain("timestamp " + timestamp + ": found at offset " + found + ", is at " + want);
                }
            }
        }
    }

    private long firstAtOrAfter(long timestamp) throws IOException {
        for (Seen batch : batches) {
            if (batch.maxTimestamp < timestamp) {
                continue;
            }
            for (Record record : batchAt(batch.base)) {
                if (record.timestamp() >= timestamp) {
                    return record.offset();
                }
            }
        }
        return -1;
    }

    private void complain(String what) {
        System.err.println(what);
        wrong++;
    }

    private ObjectNode summary() {
        return JsonNodeFactory.instance.objectNode()
            .put("logStart", log.logStartOffset())
            .put("logEnd", log.logEndOffset())
            .put("segments", log.numberOfSegments())
            .put("batches", batches.size())
            .put("records", records)
            .put("leaderEpoch", log.latestEpoch().orElse(-1));
    }
}
