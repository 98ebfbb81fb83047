import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;

/**
 * Writes the golden record batches: {@code NAME.bin}, the bytes of one or more batches back to back, and
 * {@code NAME.json}, what Kafka reads in them. Running it again gives the same files.
 *
 * <p>Usage: {@code java Golden DIRECTORY}
 */
public final class Golden {
    private static final long T0 = Shapes.T0;
    private static final long PRODUCER = 4_294_967_299L; // above 2^32, so that a halved field shows

    private final Map<String, ByteBuffer> files = new TreeMap<>();

    public static void main(String[] args) throws IOException {
        if (args.length != 1) {
            System.err.println("usage: java Golden DIRECTORY");
            System.exit(2);
        }
        Golden golden = new Golden();
        for (CompressionType codec : CompressionType.values()) {
            golden.addShapes(codec);
        }
        golden.addControl();
        golden.addCompacted();
        golden.addPlaces();
        golden.addMixed();
        golden.write(Path.of(args[0]));
    }

    private void addShapes(CompressionType codec) throws IOException {
        String name = codec.name + "-";
        files.put(name + "plain", new Batches(codec).of(Shapes.plain()));
        files.put(name + "headers", new Batches(codec).of(Shapes.headers()));
        files.put(name + "nulls", new Batches(codec).of(Shapes.nulls()));
        files.put(name + "one", new Batches(codec).of(Shapes.one()));
        files.put(name + "thousand", new Batches(codec).of(Shapes.thousand()));
        files.put(name + "large", new Batches(codec).of(Shapes.large(largeSize(codec))));
        files.put(name + "idempotent", Batches.join(
            new Batches(codec).producer(PRODUCER, 3, 0, false).of(Shapes.plain()),
            // The sequence wraps to 0 within this one.
            new Batches(codec).at(10, 0).producer(PRODUCER, Short.MAX_VALUE, Integer.MAX_VALUE - 4, false).of(Shapes.plain())));
        files.put(name + "transactional", new Batches(codec).producer(PRODUCER, 3, 17, true).of(Shapes.plain()));
        files.put(name + "logappendtime", Batches.join(
            new Batches(codec).appendTime(T0 + 5000).of(Shapes.stamped(T0 + 5000, T0 + 5000, T0 + 5000)),
            // As a broker makes them of what producers send: the records keep their own deltas, and mean nothing by them.
            Batches.stamp(new Batches(codec).at(3, 0).of(Shapes.plain()), T0 + 60_000)));
        files.put(name + "timestamps", Batches.join(
            new Batches(codec).of(Shapes.stamped(T0, T0 - 1, T0 - 1_000_000, 0, -1, T0, Long.MAX_VALUE, T0)),
            new Batches(codec).at(8, 0).of(Shapes.stamped(-1, -1, -1)),
            new Batches(codec).at(11, 0).unchecked(Shapes.stamped(0, Long.MIN_VALUE, -2, Long.MAX_VALUE, -1, Long.MIN_VALUE + 1)),
            new Batches(codec).at(17, 0).unchecked(Shapes.stamped(Long.MAX_VALUE, Long.MIN_VALUE, -1, 0)),
            new Batches(codec).at(21, 0).beforeTheEpoch(Shapes.stamped(-5000, -4000, -6000, -2)),
            new Batches(codec).at(25, 0).beforeTheEpoch(Shapes.stamped(Long.MIN_VALUE, Long.MAX_VALUE, -1, 0, Long.MIN_VALUE))));
    }

    /**
     * 200 KB cross zstd's blocks of 128 KiB; 72 KB do for the others (lz4 64 KiB, snappy 32 KiB), as the JSON
     * holds every byte again.
     */
    private static int largeSize(CompressionType codec) {
        return codec == CompressionType.ZSTD ? 200_000 : 72_000;
    }

    private void addControl() {
        files.put("control-commit", marker(ControlRecordType.COMMIT, 10));
        files.put("control-abort", marker(ControlRecordType.ABORT, 10));
        files.put("control-transactions", Batches.join(
            new Batches(CompressionType.NONE).producer(PRODUCER, 3, 0, true).of(Shapes.plain()),
            marker(ControlRecordType.ABORT, 10),
            new Batches(CompressionType.ZSTD).at(11, 0).producer(PRODUCER, 3, 10, true).of(Shapes.plain()),
            marker(ControlRecordType.COMMIT, 21)));
    }

    private static ByteBuffer marker(ControlRecordType type, long offset) {
        return MemoryRecords.withEndTransactionMarker(offset, T0 + 9000, 2, PRODUCER, (short) 3,
            new EndTransactionMarker(type, 7)).buffer();
    }

    private void addCompacted() {
        for (CompressionType codec : CompressionType.values()) {
            files.put("compacted-gaps-" + codec.name, Batches.join(
                new Batches(codec).withGaps(new long[] {0, 3, 4, 200, 100_000}, Shapes.stamped(T0, T0 + 1, T0 + 2, T0 + 3, T0 + 4)),
                // The first record of the batch is gone, and the last.
                Batches.compact(new Batches(codec).at(100_001, 1).producer(PRODUCER, 3, 40, false).of(Shapes.plain()),
                    List.of(100_003L, 100_004L, 100_008L), T0, 1000)));
        }
        ByteBuffer idempotent = new Batches(CompressionType.GZIP).at(50, 4).producer(PRODUCER, 3, 90, false).of(Shapes.plain());
        files.put("compacted-empty", Batches.compact(idempotent, List.of(), T0, 1000));
        // A tombstone that is kept sets the delete horizon, and with it another base timestamp.
        ByteBuffer tombstones = new Batches(CompressionType.NONE).of(Shapes.nulls());
        files.put("compacted-delete-horizon", Batches.compact(tombstones, List.of(0L, 3L, 5L, 8L), T0 + 100_000, 86_400_000));
    }

    private void addPlaces() {
        files.put("place-epoch", new Batches(CompressionType.NONE).at(1000, Integer.MAX_VALUE).of(Shapes.plain()));
        files.put("place-no-epoch", new Batches(CompressionType.NONE).at(1000, -1).of(Shapes.plain()));
        files.put("place-above-32-bits", new Batches(CompressionType.LZ4).at((1L << 32) + 5, 7).of(Shapes.plain()));
        files.put("place-last", new Batches(CompressionType.NONE).at(Long.MAX_VALUE - 10, 7).of(Shapes.plain()));
    }

    /** Batches of all codecs at rising offsets: a segment from its first byte to its last. */
    private void addMixed() {
        CompressionType[] codecs = CompressionType.values();
        ByteBuffer[] parts = new ByteBuffer[2 * codecs.length];
        long offset = 4096;
        for (int i = 0; i < parts.length; i++) {
            boolean one = i % 2 == 1;
            parts[i] = new Batches(codecs[i % codecs.length]).at(offset, i / 4).of(one ? Shapes.one() : Shapes.plain());
            offset += one ? 1 : 10;
        }
        files.put("mixed", Batches.join(parts));
    }

    private void write(Path directory) throws IOException {
        Files.createDirectories(directory);
        for (Map.Entry<String, ByteBuffer> file : files.entrySet()) {
            ByteBuffer bytes = file.getValue();
            byte[] copy = new byte[bytes.remaining()];
            bytes.duplicate().get(copy);
            Files.write(directory.resolve(file.getKey() + ".bin"), copy);
            Files.writeString(directory.resolve(file.getKey() + ".json"), json(ByteBuffer.wrap(copy)));
        }
        System.out.println(files.size() + " golden files written");
    }

    /** One line a record, so that a change shows as a small difference. */
    private static String json(ByteBuffer bytes) {
        StringBuilder text = new StringBuilder("{\"batches\":[");
        String separator = "\n";
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(bytes).batches()) {
            batch.ensureValid();
            text.append(separator).append(BatchJson.of((DefaultRecordBatch) batch).toString()
                .replace("\"records\":[{", "\"records\":[\n{")
                .replace("]},{\"offset\":", "]},\n{\"offset\":"));
            separator = ",\n";
        }
        return text.append("\n]}\n").toString();
    }
}
