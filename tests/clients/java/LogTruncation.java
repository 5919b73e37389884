import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.LogTruncationException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Reads partition 0 of a topic up to an offset, waits for a line, and reads on until the client
 * notices that the log was truncated. Prints "read OFFSET" and then "truncated POSITION DIVERGENT".
 */
public final class LogTruncation {
    private static final Duration POLL_TIME = Duration.ofMillis(100);

    private LogTruncation() {}

    public static void main(String[] arguments) throws IOException {
        TopicPartition partition = new TopicPartition(arguments[1], 0);
        long end = Long.parseLong(arguments[2]);
        Map<String, Object> config = Map.of(
                "bootstrap.servers", arguments[0],
                "auto.offset.reset", "none",
                "metadata.max.age.ms", "200");
        try (KafkaConsumer<String, String> client = new KafkaConsumer<>(
                config, new StringDeserializer(), new StringDeserializer())) {
            client.assign(List.of(partition));
            client.seek(partition, 0);
            while (client.position(partition) < end) {
                client.poll(POLL_TIME);
            }
            System.out.println("read " + client.position(partition));
            System.in.read();
            ConsumerRecords<String, String> polled = ConsumerRecords.empty();
            while (polled.isEmpty()) {
                polled = client.poll(POLL_TIME);
            }
            System.out.println("no truncation before offset " + client.position(partition));
        } catch (LogTruncationException truncated) {
            System.out.println("truncated " + truncated.offsetOutOfRangePartitions().get(partition)
                    + " " + truncated.divergentOffsets().get(partition).offset());
        }
    }
}
