import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Runs each kind of client at several brokers and prints the values that each kind reads.
 *
 * <p>An argument is a comma-separated list: a bootstrap address, and the kinds of consumers. Classes
 * that older clients do not have are in {@code ShareReader}, which is loaded only if it is used.
 */
public final class ReleaseClients {
    private static final String TOPIC = "orders";
    private static final List<String> VALUES = List.of("idempotent", "committed");
    private static final long TIMEOUT_NS = 60_000_000_000L;

    private ReleaseClients() {}

    public static void main(String[] arguments) throws Exception {
        for (int broker = 0; broker < arguments.length; broker++) {
            String[] parts = arguments[broker].split(",");
            produce(parts[0]);
            for (int kind = 1; kind < parts.length; kind++) {
                List<String> values = parts[kind].equals("share")
                        ? ShareReader.read(parts[0], TOPIC, VALUES.size(), TIMEOUT_NS)
                        : read(parts[0], parts[kind]);
                System.out.println(broker + " " + parts[kind] + " " + String.join(",", values));
            }
        }
    }

    private static void produce(String bootstrap) throws Exception {
        try (KafkaProducer<String, String> producer = producer(bootstrap, null)) {
            producer.send(new ProducerRecord<>(TOPIC, "idempotent")).get();
        }
        try (KafkaProducer<String, String> producer = producer(bootstrap, "teller")) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(TOPIC, "aborted")).get();
            producer.abortTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(TOPIC, "committed"));
            producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(TOPIC, 0), new OffsetAndMetadata(1)),
                    new org.apache.kafka.clients.consumer.ConsumerGroupMetadata("in-transaction"));
            producer.commitTransaction();
        }
    }

    private static KafkaProducer<String, String> producer(String bootstrap, String transactionalId) {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("enable.idempotence", "true");
        if (transactionalId != null) {
            config.put("transactional.id", transactionalId);
        }
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    private static List<String> read(String bootstrap, String protocol) {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("group.id", protocol);
        if (!protocol.equals("classic")) {
            config.put("group.protocol", protocol);
        }
        config.put("auto.offset.reset", "earliest");
        config.put("isolation.level", "read_committed");
        config.put("enable.auto.commit", "false");
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(TOPIC));
            long deadline = System.nanoTime() + TIMEOUT_NS;
            while (values.size() < VALUES.size() && System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    values.add(record.value());
                }
            }
            consumer.commitSync();
        }
        return values;
    }
}
