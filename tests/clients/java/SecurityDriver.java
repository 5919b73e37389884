import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes one record and reads it in a group, with the settings of each request; see {@code
 * drivers/security_driver.py}.
 */
public final class SecurityDriver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int TIMEOUT_S = 20;

    private SecurityDriver() {}

    public static void main(String[] arguments) throws IOException {
        BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.put("ok", exchange(JSON.readTree(line)));
            } catch (Exception failure) {
                StringWriter text = new StringWriter();
                failure.printStackTrace(new PrintWriter(text));
                answer.put("error", text.toString());
            }
            output.println(JSON.writeValueAsString(answer));
        }
    }

    private static String exchange(JsonNode request) throws Exception {
        Map<String, Object> settings =
                JSON.convertValue(request.get("settings"), new TypeReference<>() {});
        String topic = request.get("topic").asText();
        produce(settings, new ProducerRecord<>(topic, request.get("value").asText()));
        return consume(settings, topic, request.get("group").asText());
    }

    private static void produce(Map<String, Object> settings, ProducerRecord<String, String> record)
            throws Exception {
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(record).get(TIMEOUT_S, TimeUnit.SECONDS);
        }
    }

    private static String consume(Map<String, Object> settings, String topic, String group) {
        Map<String, Object> config = new HashMap<>(settings);
        config.put("group.id", group);
        config.put("group.protocol", "consumer");
        config.put("auto.offset.reset", "earliest");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            for (ConsumerRecord<String, String> record :
                    consumer.poll(Duration.ofSeconds(TIMEOUT_S))) {
                consumer.commitSync();
                return record.value();
            }
        }
        throw new IllegalStateException("no record of " + topic);
    }
}
