import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A reader of one partition; partition_readers.py describes it. It also runs with old clients. */
public final class PartitionReader {
    private static final Duration POLL_TIME = Duration.ofMillis(50);

    private PartitionReader() {}

    public static void main(String[] arguments) {
        TopicPartition partition = new TopicPartition(arguments[1], 0);
        TopicPartition other = new TopicPartition(arguments[1], 1);
        long offset = Long.parseLong(arguments[2]);
        int epoch = Integer.parseInt(arguments[3]);
        Map<String, Object> config = Map.of(
                "bootstrap.servers", arguments[0],
                "client.id", "reader",
                "group.id", "reader",
                "enable.auto.commit", "false",
                "auto.offset.reset", "earliest",
                "metadata.max.age.ms", "100");
        try (KafkaConsumer<String, String> client = new KafkaConsumer<>(
                config, new StringDeserializer(), new StringDeserializer())) {
            client.assign(List.of(partition, other));
            client.seek(other, 0);
            if (epoch < 0) {
                client.seek(partition, offset);
            } else {
                client.seek(partition, new OffsetAndMetadata(offset, Optional.of(epoch), ""));
            }
            System.out.println("ready");
            while (true) {
                for (ConsumerRecord<String, String> record : client.poll(POLL_TIME)) {
                    if (record.partition() == 0) {
                        System.out.println("record " + record.offset() + " " + record.value());
                    }
                }
            }
        } catch (KafkaException failed) {
            System.out.println("failed " + failed);
        }
    }
}
