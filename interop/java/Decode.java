import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.RecordBatch;

/**
 * Reads files of record batches back to back (a segment's {@code .log}, a golden {@code .bin}) and prints each
 * batch as one line of JSON. Stops with exit code 1 at the first byte that Kafka finds invalid.
 *
 * <p>Usage: {@code java Decode FILE...}
 */
public final class Decode {
    private Decode() {}

    public static void main(String[] args) throws IOException {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        boolean valid = args.length > 0;
        for (int i = 0; valid && i < args.length; i++) {
            valid = decode(new File(args[i]), out);
        }
        out.flush();
        System.exit(valid ? 0 : 1);
    }

    private static boolean decode(File file, PrintStream out) throws IOException {
        long position = 0;
        try (FileRecords records = FileRecords.open(file, false)) {
            for (FileChannelRecordBatch batch : records.batches()) {
                if (batch.magic() != RecordBatch.MAGIC_VALUE_V2) {
                    throw new IllegalArgumentException("magic " + batch.magic());
                }
                batch.ensureValid();
                out.println(BatchJson.of(inMemory(batch)));
                position += batch.sizeInBytes();
            }
        } catch (RuntimeException e) {
            System.err.println("decode " + file + " at position " + position + ": " + e);
            return false;
        }
        // Kafka's iterator takes a batch that the file ends inside for the end of the log.
        if (position != file.length()) {
            System.err.println("decode " + file + " at position " + position + ": "
                + (file.length() - position) + " bytes are not a whole batch");
            return false;
        }
        return true;
    }

    /** The same bytes by Kafka's other way of reading, the one of its clients. */
    private static DefaultRecordBatch inMemory(FileChannelRecordBatch batch) {
        ByteBuffer bytes = ByteBuffer.allocate(batch.sizeInBytes());
        batch.writeTo(bytes);
        bytes.flip();
        MutableRecordBatch only = MemoryRecords.readableRecords(bytes).batches().iterator().next();
        only.ensureValid();
        return (DefaultRecordBatch) only;
    }
}
