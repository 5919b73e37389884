import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What the Java client does in each family of APIs; matrix_process.py describes the requests. */
public final class FaultMatrix {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int TIMEOUT_MS = 8_000;
    // A producer does not close in time after an answer that it cannot read.
    private static final Duration CLOSE_TIMEOUT = Duration.ofMillis(500);

    private final String client;
    private final String family;
    private final String topic;
    private final String name;
    private final Map<String, Object> config = new HashMap<>();

    private FaultMatrix(String bootstrap, JsonNode cell) {
        client = cell.get("client").asText();
        family = cell.get("family").asText();
        topic = cell.get("topic").asText();
        name = cell.get("name").asText();
        config.put("bootstrap.servers", bootstrap);
        config.put("client.id", client);
        config.put("request.timeout.ms", 700);
        config.put("default.api.timeout.ms", TIMEOUT_MS);
        config.put("retry.backoff.ms", 10);
        config.put("retry.backoff.max.ms", 50);
        config.put("reconnect.backoff.ms", 10);
        config.put("reconnect.backoff.max.ms", 50);
        config.put("enable.metrics.push", false);
    }

    /** Starts each cell from standard input at once; ends with the last of them. */
    public static void main(String[] arguments) throws Exception {
        BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ExecutorService running = Executors.newCachedThreadPool();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            FaultMatrix cell = new FaultMatrix(arguments[0], JSON.readTree(line));
            running.execute(cell::run);
        }
        running.shutdown();
        running.awaitTermination(TIMEOUT_MS, TimeUnit.MILLISECONDS);
        System.exit(0);
    }

    private void run() {
        Map<String, String> answer = Map.of("client", client, "outcome", outcome());
        try {
            System.out.println(JSON.writeValueAsString(answer));
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
    }

    private String outcome() {
        try {
            perform();
            return "recovered";
        } catch (ExecutionException failure) {
            return failure.getCause().getClass().getSimpleName();
        } catch (KafkaException | TimeoutException failure) {
            return failure.getClass().getSimpleName();
        } catch (Exception failure) {
            return failure.getClass().getPackageName(); // of unreadable bytes
        }
    }

    private void perform() throws Exception {
        switch (family) {
            case "metadata" -> metadata();
            case "produce" -> produce();
            case "fetch" -> fetch();
            case "group" -> group();
            case "offsets" -> offsets();
            case "transactions" -> transactions();
            case "admin" -> admin();
            default -> throw new IllegalArgumentException(family);
        }
    }

    private KafkaProducer<String, String> producer() {
        config.put("max.block.ms", TIMEOUT_MS);
        config.put("delivery.timeout.ms", TIMEOUT_MS);
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    private void metadata() {
        KafkaProducer<String, String> producer = producer();
        try {
            producer.partitionsFor(topic);
        } finally {
            producer.close(CLOSE_TIMEOUT);
        }
    }

    private void produce() throws Exception {
        KafkaProducer<String, String> producer = producer();
        try {
            producer.send(new ProducerRecord<>(topic, "v")).get();
        } finally {
            producer.close(CLOSE_TIMEOUT);
        }
    }

    private KafkaConsumer<String, String> consumer() {
        config.put("group.id", name);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", false);
        config.put("session.timeout.ms", 1_000);
        config.put("heartbeat.interval.ms", 100);
        // It waits five seconds longer for the answer to a JoinGroup.
        config.put("max.poll.interval.ms", 1_000);
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    private void fetch() throws Exception {
        try (KafkaConsumer<String, String> consumer = consumer()) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            poll(consumer);
        }
    }

    private void group() throws Exception {
        try (KafkaConsumer<String, String> consumer = consumer()) {
            consumer.subscribe(List.of(topic));
            poll(consumer);
        }
    }

    private void offsets() throws Exception {
        try (KafkaConsumer<String, String> consumer = consumer()) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(1)));
        }
    }

    private static void poll(KafkaConsumer<String, String> consumer) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(TIMEOUT_MS);
        while (consumer.poll(Duration.ofMillis(100)).isEmpty()) {
            if (System.nanoTime() > deadline) {
                throw new TimeoutException();
            }
        }
    }

    private void transactions() {
        config.put("transactional.id", name);
        KafkaProducer<String, String> producer = producer();
        try {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "v"));
            producer.commitTransaction();
        } finally {
            producer.close(CLOSE_TIMEOUT);
        }
    }

    private void admin() throws Exception {
        // It waits this long for an answer while its connection lives.
        config.put("default.api.timeout.ms", 2_000);
        try (Admin admin = Admin.create(config)) {
            admin.createTopics(List.of(new NewTopic(name, 1, (short) 1))).all().get();
        }
    }
}
