import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.Crc32C;

/** Record batches made by Kafka's own writer. The fields are what its builder wants; the defaults are a plain batch. */
final class Batches {
    private static final int CRC_POSITION = 17;
    private static final int ATTRIBUTES_POSITION = 21;
    private static final int BASE_TIMESTAMP_POSITION = 27;
    private static final int MAX_TIMESTAMP_POSITION = 35;

    final CompressionType codec;
    long baseOffset = 0;
    int leaderEpoch = 0;
    long producerId = RecordBatch.NO_PRODUCER_ID;
    short producerEpoch = RecordBatch.NO_PRODUCER_EPOCH;
    int baseSequence = RecordBatch.NO_SEQUENCE;
    boolean transactional = false;
    long logAppendTime = RecordBatch.NO_TIMESTAMP;

    Batches(CompressionType codec) {
        this.codec = codec;
    }

    Batches at(long offset, int epoch) {
        baseOffset = offset;
        leaderEpoch = epoch;
        return this;
    }

    Batches producer(long id, int epoch, int sequence, boolean inTransaction) {
        producerId = id;
        producerEpoch = (short) epoch;
        baseSequence = sequence;
        transactional = inTransaction;
        return this;
    }

    Batches appendTime(long timestamp) {
        logAppendTime = timestamp;
        return this;
    }

    ByteBuffer of(SimpleRecord... records) {
        MemoryRecordsBuilder builder = builder();
        for (SimpleRecord record : records) {
            builder.append(record);
        }
        return builder.build().buffer();
    }

    /** Records at chosen offsets: the gaps that compaction leaves. */
    ByteBuffer withGaps(long[] offsets, SimpleRecord... records) {
        MemoryRecordsBuilder builder = builder();
        for (int i = 0; i < records.length; i++) {
            builder.appendWithOffset(offsets[i], records[i]);
        }
        return builder.build().buffer();
    }

    /**
     * Timestamps that the checked append refuses: negative ones, and deltas that wrap.
     * The first must be one that Kafka's header writer takes: -1 or above.
     */
    ByteBuffer unchecked(SimpleRecord... records) throws IOException {
        MemoryRecordsBuilder builder = builder();
        for (int i = 0; i < records.length; i++) {
            builder.appendUncheckedWithOffset(baseOffset + i, records[i]);
        }
        return builder.build().buffer();
    }

    /**
     * A batch whose base timestamp is below -1, which Kafka reads but does not write: the records are
     * written with their deltas to a base of 0, then the two timestamps of the header are put in.
     */
    ByteBuffer beforeTheEpoch(SimpleRecord... records) throws IOException {
        long base = records[0].timestamp();
        long max = Long.MIN_VALUE;
        SimpleRecord[] shifted = new SimpleRecord[records.length];
        for (int i = 0; i < records.length; i++) {
            SimpleRecord record = records[i];
            shifted[i] = new SimpleRecord(record.timestamp() - base, record.key(), record.value(), record.headers());
            max = Math.max(max, record.timestamp());
        }
        ByteBuffer batch = unchecked(shifted);
        int start = batch.position();
        batch.putLong(start + BASE_TIMESTAMP_POSITION, base);
        batch.putLong(start + MAX_TIMESTAMP_POSITION, max);
        int covered = batch.remaining() - ATTRIBUTES_POSITION;
        batch.putInt(start + CRC_POSITION, (int) Crc32C.compute(batch, ATTRIBUTES_POSITION, covered));
        return batch;
    }

    private MemoryRecordsBuilder builder() {
        TimestampType type = logAppendTime == RecordBatch.NO_TIMESTAMP
            ? TimestampType.CREATE_TIME : TimestampType.LOG_APPEND_TIME;
        return MemoryRecords.builder(ByteBuffer.allocate(1024), RecordBatch.MAGIC_VALUE_V2,
            Compression.of(codec).build(), type, baseOffset, logAppendTime,
            producerId, producerEpoch, baseSequence, transactional, leaderEpoch);
    }

    /** What a broker with message.timestamp.type=LogAppendTime does to a batch from a producer. */
    static ByteBuffer stamp(ByteBuffer batches, long timestamp) {
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(batches).batches()) {
            batch.setMaxTimestamp(TimestampType.LOG_APPEND_TIME, timestamp);
        }
        return batches;
    }

    /** What the log cleaner leaves of the batches when it keeps the records at these offsets; emptied batches stay. */
    static ByteBuffer compact(ByteBuffer batches, List<Long> kept, long now, long deleteRetentionMs) {
        MemoryRecords.RecordFilter filter = new MemoryRecords.RecordFilter(now, deleteRetentionMs) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                return new BatchRetentionResult(BatchRetention.RETAIN_EMPTY, false);
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return kept.contains(record.offset());
            }
        };
        ByteBuffer target = ByteBuffer.allocate(2 * batches.remaining() + DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        ByteBuffer filtered = MemoryRecords.readableRecords(batches)
            .filterTo(filter, target, BufferSupplier.NO_CACHING, Integer.MAX_VALUE)
            .outputBuffer();
        filtered.flip();
        return filtered;
    }

    static ByteBuffer join(ByteBuffer... parts) {
        int size = 0;
        for (ByteBuffer part : parts) {
            size += part.remaining();
        }
        ByteBuffer joined = ByteBuffer.allocate(size);
        for (ByteBuffer part : parts) {
            joined.put(part.duplicate());
        }
        return joined.flip();
    }
}
