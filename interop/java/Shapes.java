import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.internal.SimpleRecord;

/** The records that the golden batches hold. Everything here is fixed: no clock, no unseeded chance. */
final class Shapes {
    static final long T0 = 1_700_000_000_000L;
    private static final String[] WORDS = {
        "amber", "basin", "clay", "delta", "erosion", "fjord", "glacier", "humus", "isotope", "kettle",
        "lamina", "moraine", "névé", "outwash", "pollen", "quartz", "rhythmite", "silt", "till", "varve"
    };

    private Shapes() {}

    static SimpleRecord record(long timestamp, byte[] key, byte[] value, Header... headers) {
        return new SimpleRecord(timestamp, key, value, headers);
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Text that compresses about as well as a log file does. */
    static byte[] text(int size, long seed) {
        Random random = new Random(seed);
        StringBuilder text = new StringBuilder();
        while (text.length() < size) {
            text.append(WORDS[random.nextInt(WORDS.length)]).append(random.nextInt(8) == 0 ? random.nextInt(1000) : "").append(' ');
        }
        byte[] cut = new byte[size];
        System.arraycopy(utf8(text.toString()), 0, cut, 0, size);
        return cut;
    }

    static SimpleRecord[] plain() {
        List<SimpleRecord> records = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            records.add(record(T0 + i * 250L, utf8("key-" + i % 3), text(20 + 13 * i, i)));
        }
        return records.toArray(new SimpleRecord[0]);
    }

    static SimpleRecord[] headers() {
        byte[] binary = new byte[256];
        for (int i = 0; i < binary.length; i++) {
            binary[i] = (byte) i;
        }
        Header[] many = new Header[200];
        for (int i = 0; i < many.length; i++) {
            many[i] = header("h" + i, i % 4 == 0 ? null : utf8("v" + i));
        }
        return new SimpleRecord[] {
            record(T0, utf8("none"), utf8("v")),
            record(T0 + 1, utf8("one"), utf8("v"), header("trace-id", utf8("4bf92f3577b34da6"))),
            record(T0 + 2, utf8("null value"), utf8("v"), header("null", null)),
            record(T0 + 3, utf8("empty value"), utf8("v"), header("empty", new byte[0])),
            record(T0 + 4, utf8("empty key"), utf8("v"), header("", utf8("x")), header("", null), header("", new byte[0])),
            record(T0 + 5, utf8("repeated"), utf8("v"),
                header("a", utf8("1")), header("b", utf8("2")), header("a", utf8("3")), header("a", utf8("1"))),
            record(T0 + 6, utf8("unicode"), utf8("v"), header("schlüssel-鍵-🔑", binary)),
            record(T0 + 7, utf8("200"), utf8("v"), many),
            record(T0 + 8, null, null, header("tombstone", utf8("yes"))),
        };
    }

    private static Header header(String key, byte[] value) {
        return new RecordHeader(key, value);
    }

    /** Every mix of null, empty and filled key and value. */
    static SimpleRecord[] nulls() {
        byte[][] kinds = {null, new byte[0], utf8("x")};
        List<SimpleRecord> records = new ArrayList<>();
        for (byte[] key : kinds) {
            for (byte[] value : kinds) {
                records.add(record(T0 + records.size(), key, value));
            }
        }
        return records.toArray(new SimpleRecord[0]);
    }

    static SimpleRecord[] stamped(long... timestamps) {
        SimpleRecord[] records = new SimpleRecord[timestamps.length];
        for (int i = 0; i < timestamps.length; i++) {
            records[i] = record(timestamps[i], utf8("k" + i), utf8("at " + timestamps[i]));
        }
        return records;
    }

    static SimpleRecord[] one() {
        return new SimpleRecord[] {record(T0, utf8("only"), utf8("one record"))};
    }

    /** Offset deltas beyond one and two varint bytes, values null so that the JSON stays small. */
    static SimpleRecord[] thousand() {
        SimpleRecord[] records = new SimpleRecord[1000];
        for (int i = 0; i < records.length; i++) {
            records[i] = record(T0 + i * i, utf8("" + i), null);
        }
        return records;
    }

    static SimpleRecord[] large(int size) {
        return new SimpleRecord[] {
            record(T0, utf8("before"), utf8("small")),
            record(T0 + 1, utf8("large"), text(size, 7)),
            record(T0 + 2, utf8("after"), utf8("small")),
        };
    }
}
