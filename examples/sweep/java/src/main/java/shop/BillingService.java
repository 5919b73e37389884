package shop;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A service that writes a bill for each order, with Kafka's own client.
 *
 * <p>It ends when it has read all orders, and begins again after an error. With the argument
 * {@code --ignore-failed-commits} it has a fault: after a pause it is no member of its group any
 * more, its commits fail, and it goes on with the orders that it has read. It reads them again when
 * it is a member again, and writes their bills a second time. A library had this fault:
 * https://github.com/astubbs/parallel-consumer/pull/108
 */
public final class BillingService {
    private static final int MAX_STARTS = 5;
    private static final TopicPartition ORDERS = new TopicPartition("orders", 0);
    private static final String SERVERS = System.getenv("KAFKA_BOOTSTRAP_SERVERS");

    private BillingService() {}

    /** Runs the service, and begins again after an error, at most five times. */
    public static void main(String[] arguments) throws InterruptedException {
        boolean ignoresFailedCommits = List.of(arguments).contains("--ignore-failed-commits");
        for (int start = 0; start < MAX_STARTS; start++) {
            try {
                billOrders(ignoresFailedCommits);
                return;
            } catch (KafkaException error) {
                System.out.println("the service starts again: " + error);
            }
        }
        System.out.println("the service gives up");
        System.exit(1);
    }

    private static void billOrders(boolean ignoresFailedCommits) throws InterruptedException {
        try (KafkaProducer<String, String> producer = newProducer();
                KafkaConsumer<String, String> consumer = newConsumer()) {
            consumer.subscribe(List.of(ORDERS.topic()));
            long end = consumer.endOffsets(Set.of(ORDERS)).get(ORDERS);
            while (committed(consumer) < end) {
                ConsumerRecords<String, String> orders = consumer.poll(Duration.ofSeconds(10));
                if (orders.isEmpty()) {
                    throw new TimeoutException("no order has arrived");
                }
                for (ConsumerRecord<String, String> order : orders) {
                    writeBill(producer, order.value());
                    try {
                        consumer.commitSync(
                                Map.of(ORDERS, new OffsetAndMetadata(order.offset() + 1)));
                    } catch (CommitFailedException error) {
                        if (!ignoresFailedCommits) {
                            throw error;
                        }
                    }
                }
            }
        }
    }

    private static void writeBill(KafkaProducer<String, String> producer, String order)
            throws InterruptedException {
        try {
            producer.send(new ProducerRecord<>("bills", "bill of " + order)).get();
        } catch (ExecutionException error) {
            throw new KafkaException(error.getCause());
        }
    }

    private static long committed(KafkaConsumer<String, String> consumer) {
        OffsetAndMetadata committed = consumer.committed(Set.of(ORDERS)).get(ORDERS);
        return committed == null ? 0 : committed.offset();
    }

    private static KafkaProducer<String, String> newProducer() {
        Map<String, Object> settings =
                Map.of(
                        "bootstrap.servers", SERVERS,
                        "request.timeout.ms", 5_000,
                        "delivery.timeout.ms", 20_000,
                        "retry.backoff.ms", 50);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private static KafkaConsumer<String, String> newConsumer() {
        Map<String, Object> settings =
                Map.of(
                        "bootstrap.servers", SERVERS,
                        "group.id", "billing",
                        "auto.offset.reset", "earliest",
                        "enable.auto.commit", false,
                        "session.timeout.ms", 6_000,
                        "heartbeat.interval.ms", 500,
                        "request.timeout.ms", 10_000);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }
}
