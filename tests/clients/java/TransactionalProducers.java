import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactional producers of the Java client; the protocol is in {@code drivers/producers.py}. */
public final class TransactionalProducers {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int TIMEOUT_S = 30;

    private final String bootstrap;
    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();

    private TransactionalProducers(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws IOException {
        TransactionalProducers driver = new TransactionalProducers(arguments[0]);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                driver.perform(JSON.readTree(line));
                answer.putNull("ok");
            } catch (Exception failure) {
                StringWriter trace = new StringWriter();
                failure.printStackTrace(new PrintWriter(trace));
                answer.put("error", trace.toString());
            }
            System.out.println(JSON.writeValueAsString(answer));
        }
        // A fenced producer would take long to close.
        Runtime.getRuntime().halt(0);
    }

    private void perform(JsonNode request) throws Exception {
        String name = request.get("name").asText();
        if (request.get("op").asText().equals("init")) {
            producers.put(name, producer(request));
        }
        KafkaProducer<String, String> producer = producers.get(name);
        switch (request.get("op").asText()) {
            case "init" -> producer.initTransactions();
            case "begin" -> producer.beginTransaction();
            case "send" -> producer.send(new ProducerRecord<>(
                            request.get("topic").asText(), 0, null, request.get("value").asText()))
                    .get(TIMEOUT_S, TimeUnit.SECONDS);
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> throw new IllegalArgumentException(request.toString());
        }
    }

    private KafkaProducer<String, String> producer(JsonNode request) {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("transactional.id", request.get("transactional_id").asText());
        config.put("transaction.timeout.ms", request.get("timeout_ms").asInt());
        config.put("request.timeout.ms", request.get("request_timeout_ms").asInt());
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }
}
