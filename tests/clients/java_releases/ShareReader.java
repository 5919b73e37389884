import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Reads the records of a topic as a member of a share group, as since Kafka 4.1. */
final class ShareReader {
    private ShareReader() {}

    static List<String> read(String bootstrap, String topic, int count, long timeoutNs)
            throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            List<AlterConfigOp> settings = List.of(
                    set("share.auto.offset.reset", "earliest"),
                    set("share.isolation.level", "read_committed"));
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, "share");
            admin.incrementalAlterConfigs(Map.of(group, settings)).all().get();
        }
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("group.id", "share");
        List<String> values = new ArrayList<>();
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(
                config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long deadline = System.nanoTime() + timeoutNs;
            while (values.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    values.add(record.value());
                }
            }
            consumer.commitSync();
        }
        return values;
    }

    private static AlterConfigOp set(String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
    }
}
