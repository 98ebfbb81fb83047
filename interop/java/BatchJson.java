import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.Base64;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Utils;

/** One record batch as JSON: every header field and every record, as Kafka's own classes read them. */
final class BatchJson {
    // The one field Kafka keeps private: its getters give the meaning of the bits, not the bits.
    private static final int ATTRIBUTES_POSITION = 21;

    private BatchJson() {}

    static ObjectNode of(DefaultRecordBatch batch) {
        ByteBuffer raw = ByteBuffer.allocate(batch.sizeInBytes());
        batch.writeTo(raw);

        ObjectNode node = JsonNodeFactory.instance.objectNode();
        node.put("baseOffset", batch.baseOffset());
        node.put("length", batch.sizeInBytes() - 12);
        node.put("leaderEpoch", batch.partitionLeaderEpoch());
        node.put("magic", batch.magic());
        node.put("crc", batch.checksum());
        node.put("attributes", raw.getShort(ATTRIBUTES_POSITION));
        node.put("lastOffsetDelta", batch.lastOffset() - batch.baseOffset());
        node.put("baseTimestamp", batch.baseTimestamp());
        node.put("maxTimestamp", batch.maxTimestamp());
        node.put("producerId", batch.producerId());
        node.put("producerEpoch", batch.producerEpoch());
        node.put("baseSequence", batch.baseSequence());
        node.put("count", batch.countOrNull());
        node.put("codec", batch.compressionType().name);
        node.put("logAppendTime", batch.timestampType() == TimestampType.LOG_APPEND_TIME);
        node.put("transactional", batch.isTransactional());
        node.put("control", batch.isControlBatch());
        ArrayNode records = node.putArray("records");
        for (Record record : (RecordBatch) batch) {
            record.ensureValid();
            records.add(of(record));
        }
        return node;
    }

    private static ObjectNode of(Record record) {
        ObjectNode node = JsonNodeFactory.instance.objectNode();
        node.put("offset", record.offset());
        node.put("timestamp", record.timestamp());
        node.put("key", base64(Utils.toNullableArray(record.key())));
        node.put("value", base64(Utils.toNullableArray(record.value())));
        ArrayNode headers = node.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(base64(header.value()));
        }
        return node;
    }

    private static String base64(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
