import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Drives the Java client; the protocol is described in {@code drivers/protocol.py}. */
public final class ClientDriver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int TIMEOUT_S = 60;

    private final String bootstrap;
    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();
    private final Map<String, Member> members = new LinkedHashMap<>();
    private final List<ArrayNode> events = new ArrayList<>();

    private ClientDriver(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws IOException {
        ClientDriver driver = new ClientDriver(arguments[0]);
        BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("ok", driver.answer(JSON.readTree(line)));
            } catch (Exception failure) {
                answer.put("error", stackTrace(failure));
            }
            output.println(JSON.writeValueAsString(answer));
        }
        driver.close();
    }

    private JsonNode answer(JsonNode request) throws Exception {
        String topic = request.path("topic").asText();
        String consumer = request.path("consumer").asText();
        switch (request.get("op").asText()) {
            case "create_topic":
                createTopic(topic, request.get("partitions").asInt());
                break;
            case "produce":
                produce(topic, request.get("codec").asText(), request.get("records"));
                break;
            case "read":
                return read(topic, request.get("partitions").asInt(), request.get("count").asInt());
            case "join":
                String group = request.get("group").asText();
                String protocol = request.get("protocol").asText();
                members.put(consumer, new Member(consumer, group, topic, protocol));
                break;
            case "leave":
                members.remove(consumer).leave();
                break;
            case "members":
                return assignments();
            case "events":
                return takeEvents();
            default:
                throw new IllegalArgumentException(request.get("op").asText());
        }
        return JSON.nullNode();
    }

    private void createTopic(String topic, int partitions) throws Exception {
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1)))
                    .all()
                    .get(TIMEOUT_S, TimeUnit.SECONDS);
        }
    }

    private void produce(String topic, String codec, JsonNode records) throws Exception {
        KafkaProducer<String, String> producer = producers.computeIfAbsent(codec, this::producer);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode record : records) {
            sent.add(producer.send(new ProducerRecord<>(topic, record.get(0).asInt(),
                    record.get(1).textValue(), record.get(2).textValue())));
        }
        producer.flush();
        for (Future<RecordMetadata> acknowledged : sent) {
            acknowledged.get(TIMEOUT_S, TimeUnit.SECONDS);
        }
    }

    private KafkaProducer<String, String> producer(String codec) {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("compression.type", codec);
        config.put("acks", "all");
        config.put("linger.ms", "5");
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    private JsonNode read(String topic, int partitions, int count) {
        ArrayNode rows = JSON.createArrayNode();
        try (KafkaConsumer<String, String> client = consumer(new Properties())) {
            client.assign(IntStream.range(0, partitions)
                    .mapToObj(partition -> new TopicPartition(topic, partition))
                    .collect(Collectors.toList()));
            client.seekToBeginning(client.assignment());
            while (rows.size() < count) {
                ConsumerRecords<String, String> polled = client.poll(Duration.ofSeconds(TIMEOUT_S));
                if (polled.isEmpty()) {
                    throw new IllegalStateException(rows.size() + " of " + count + " records");
                }
                polled.forEach(record -> rows.add(row(record)));
            }
        }
        return rows;
    }

    private KafkaConsumer<String, String> consumer(Properties config) {
        config.put("bootstrap.servers", bootstrap);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    private JsonNode assignments() {
        ObjectNode answer = JSON.createObjectNode();
        members.forEach((name, member) -> {
            ArrayNode partitions = answer.putArray(name);
            member.assigned.forEach(owned -> partitions.add(owned.partition()));
        });
        return answer;
    }

    private synchronized void log(String kind, String consumer, JsonNode detail) {
        events.add(JSON.createArrayNode().add(kind).add(consumer).add(detail));
    }

    private synchronized JsonNode takeEvents() {
        ArrayNode taken = JSON.createArrayNode().addAll(events);
        events.clear();
        return taken;
    }

    private void close() {
        members.values().forEach(Member::leave);
        producers.values().forEach(KafkaProducer::close);
    }

    private static ArrayNode row(ConsumerRecord<String, String> record) {
        return JSON.createArrayNode()
                .add(record.partition())
                .add(record.offset())
                .add(record.key())
                .add(record.value());
    }

    private static String stackTrace(Throwable failure) {
        StringWriter text = new StringWriter();
        failure.printStackTrace(new PrintWriter(text));
        return text.toString();
    }

    /** A group member in a separate thread: poll, log, commit, until it must leave. */
    private final class Member {
        private final String name;
        private final KafkaConsumer<String, String> client;
        private final Thread thread;
        private volatile Set<TopicPartition> assigned = Set.of();
        private volatile boolean isLeaving;

        Member(String name, String group, String topic, String protocol) {
            this.name = name;
            Properties config = new Properties();
            config.put("client.id", name);
            config.put("group.id", group);
            boolean isClassic = !protocol.equals("consumer");
            config.put("group.protocol", isClassic ? "classic" : "consumer");
            if (isClassic) {
                config.put("session.timeout.ms", "6000");
                config.put("heartbeat.interval.ms", "300");
            }
            if (protocol.equals("cooperative")) {
                config.put("partition.assignment.strategy",
                        CooperativeStickyAssignor.class.getName());
            }
            client = consumer(config);
            client.subscribe(List.of(topic));
            thread = new Thread(this::run, name);
            thread.start();
        }

        void leave() {
            isLeaving = true;
            try {
                thread.join();
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
        }

        private void run() {
            try (client) {
                boolean isDirty = false;
                while (!isLeaving) {
                    ConsumerRecords<String, String> polled = client.poll(Duration.ofMillis(100));
                    assigned = Set.copyOf(client.assignment());
                    if (!polled.isEmpty()) {
                        ArrayNode rows = JSON.createArrayNode();
                        polled.forEach(record -> rows.add(row(record)));
                        log("records", name, rows);
                    }
                    if (isDirty || !polled.isEmpty()) {
                        isDirty = !commit();
                    }
                }
                if (isDirty) {
                    commit();
                }
            } catch (RuntimeException failure) {
                log("error", name, JSON.getNodeFactory().textNode(stackTrace(failure)));
            }
        }

        private boolean commit() {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (TopicPartition owned : client.assignment()) {
                offsets.put(owned, new OffsetAndMetadata(client.position(owned)));
            }
            try {
                client.commitSync(offsets);
            } catch (CommitFailedException | RebalanceInProgressException refused) {
                log("refused", name, JSON.getNodeFactory().textNode(refused.toString()));
                return false;
            }
            ObjectNode committed = JSON.createObjectNode();
            offsets.forEach((owned, offset) ->
                    committed.put(String.valueOf(owned.partition()), offset.offset()));
            log("commit", name, committed);
            return true;
        }
    }
}
