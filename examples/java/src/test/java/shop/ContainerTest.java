package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kafkalite.KafkaliteBroker;
import io.kafkalite.KafkaliteContainer;
import io.kafkalite.junit5.Kafkalite;
import java.time.Duration;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Brokers in containers: they need a Docker engine, and the image {@code kafkalite}. */
@Tag("container")
class ContainerTest {
    @Test
    void anOrderIsPublishedWithTestcontainers() throws Exception {
        try (KafkaliteContainer kafka = new KafkaliteContainer("kafkalite").withTopic("orders", 3)) {
            kafka.start();
            assertAnOrderIsPublished(kafka.getBootstrapServers(), kafka.broker());
        }
    }

    @Test
    @Kafkalite(image = "kafkalite", topics = "orders:3")
    void anOrderIsPublishedWithTheImage(KafkaliteBroker broker) throws Exception {
        assertAnOrderIsPublished(broker.bootstrapServers(), broker);
    }

    private static void assertAnOrderIsPublished(String servers, KafkaliteBroker broker)
            throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers);
        StringSerializer text = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, text, text)) {
            producer.send(new ProducerRecord<>("orders", "two apples")).get();
        }
        assertEquals("two apples", broker.topics().records("orders").get(0).value());
        broker.clock().advance(Duration.ofDays(7));
    }
}
