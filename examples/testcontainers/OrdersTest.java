import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** A program that writes a record to a kafkalite container. */
public class OrdersTest {
    public static void main(String[] arguments) throws Exception {
        try (KafkaliteContainer kafka = new KafkaliteContainer().withTopic("orders", 3)) {
            kafka.start();
            Map<String, Object> settings = Map.of("bootstrap.servers", kafka.getBootstrapServers());
            StringSerializer text = new StringSerializer();
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, text, text)) {
                producer.send(new ProducerRecord<>("orders", "two apples")).get();
            }
            kafka.run("clock", "advance", "7d");
        }
    }
}
