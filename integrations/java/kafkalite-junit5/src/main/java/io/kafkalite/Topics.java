package io.kafkalite;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;

/** Topics and their records, without a Kafka client. */
public final class Topics {
    private final ControlClient control;

    Topics(ControlClient control) {
        this.control = control;
    }

    /** A topic in a list. */
    public record ListedTopic(
            String name, int partitions, int replicationFactor, boolean internal) {}

    /** All topics. */
    record TopicList(List<ListedTopic> topics) {}

    /** A topic with its partitions. */
    public record TopicStatus(
            String name,
            String topicId,
            Map<String, String> config,
            List<PartitionStatus> partitions) {}

    /** A partition, its replicas and its offsets. */
    public record PartitionStatus(
            int partition,
            int leader,
            int leaderEpoch,
            List<Integer> replicas,
            List<Integer> isr,
            long startOffset,
            long endOffset,
            long highWatermark,
            long lastStableOffset) {}

    /** A topic that was deleted. */
    record DeletedTopic(String name) {}

    /** A record of a topic. The texts of key and value are null if they are not UTF-8. */
    public record RecordAnswer(
            String topic,
            int partition,
            long offset,
            long timestampMs,
            String key,
            String keyBase64,
            String value,
            String valueBase64,
            List<Header> headers,
            long producerId,
            int producerEpoch,
            boolean transactional,
            boolean aborted) {

        /** Returns the bytes of the key, null without one. */
        public byte[] keyBytes() {
            return bytes(key, keyBase64);
        }

        /** Returns the bytes of the value, null for a tombstone. */
        public byte[] valueBytes() {
            return bytes(value, valueBase64);
        }

        private static byte[] bytes(String text, String base64) {
            if (base64 != null) {
                return Base64.getDecoder().decode(base64);
            }
            return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
        }
    }

    /** A header of a record. */
    public record Header(String key, String value, String valueBase64) {}

    /** Records by partition and offset. */
    record RecordList(List<RecordAnswer> records) {}

    /** A record to write, as text; key and headers may be null. */
    public record NewRecordFields(String key, String value, List<Header> headers) {}

    /** Records to write; the partition may be null. */
    record ProduceRecords(List<NewRecordFields> records, Integer partition) {}

    /** The position of a record that was written. */
    public record Position(int partition, long offset) {}

    /** The positions of the records that were written. */
    record Positions(List<Position> positions) {}

    /** Returns all topics. */
    public List<ListedTopic> list() {
        return control.send(Route.TOPICS, "", TopicList.class).topics();
    }

    /** Returns a topic with its partitions. */
    public TopicStatus get(String topic) {
        return control.send(Route.TOPIC, topic, TopicStatus.class);
    }

    /** Creates a topic, with settings such as {@code cleanup.policy}. */
    public TopicStatus create(String topic, int partitions, Map<String, String> config) {
        Map<String, Object> body =
                Map.of("name", topic, "partitions", partitions, "config", config);
        return control.send(Route.CREATE_TOPIC, "", Map.of(), body, TopicStatus.class);
    }

    /** Deletes a topic. */
    public void delete(String topic) {
        control.send(Route.DELETE_TOPIC, topic, DeletedTopic.class);
    }

    /** Writes records without keys, each to the partition 0. */
    public List<Position> produce(String topic, String... values) {
        List<NewRecordFields> records =
                Arrays.stream(values)
                        .map(value -> new NewRecordFields(null, value, null))
                        .toList();
        return produce(topic, records);
    }

    /** Writes records, each to the partition that Java's producer selects for the key. */
    public List<Position> produce(String topic, List<NewRecordFields> records) {
        ProduceRecords body = new ProduceRecords(records, null);
        return control.send(Route.PRODUCE, topic, Map.of(), body, Positions.class).positions();
    }

    /** Returns the first 1000 records of a topic, without those of open and aborted transactions. */
    public List<RecordAnswer> records(String topic) {
        return records(topic, Map.of("limit", 1000));
    }

    /** Returns the first 1000 records of a topic, with those of open and aborted transactions. */
    public List<RecordAnswer> uncommittedRecords(String topic) {
        return records(topic, Map.of("limit", 1000, "isolation", "read_uncommitted"));
    }

    /** Returns the records when there are enough; AssertionError after the time limit. */
    public List<RecordAnswer> awaitRecords(String topic, int count, Duration limit) {
        Map<String, Object> parameters =
                Map.of(
                        "count", count,
                        "limit", Math.max(count, 1000),
                        "wait_ms", limit.toMillis());
        List<RecordAnswer> records = records(topic, parameters);
        if (records.size() < count) {
            throw new AssertionError(
                    "expected " + count + " records in " + topic + " within " + limit + ": "
                            + records);
        }
        return records;
    }

    private List<RecordAnswer> records(String topic, Map<String, Object> parameters) {
        return control.send(Route.RECORDS, topic, parameters, null, RecordList.class).records();
    }
}
