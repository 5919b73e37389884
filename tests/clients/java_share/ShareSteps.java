import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Share consumers that run one step for each line of input.
 *
 * <p>A line is a JSON array of a command and its arguments; the result is a line of JSON.
 */
public final class ShareSteps {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Map<String, KafkaShareConsumer<String, String>> consumers = new HashMap<>();
    private final Map<String, Map<Long, ConsumerRecord<String, String>>> held = new HashMap<>();
    private final Map<String, List<ConsumerRecord<String, String>>> polled = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        ShareSteps steps = new ShareSteps();
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Object answer;
            try {
                answer = steps.step(JSON.readTree(line));
            } catch (KafkaException | IllegalStateException refusal) {
                answer = Map.of("error", refusal.getClass().getSimpleName());
            }
            out.println(JSON.writeValueAsString(answer));
        }
        for (KafkaShareConsumer<String, String> consumer : steps.consumers.values()) {
            consumer.close();
        }
    }

    private Object step(JsonNode line) throws Exception {
        String name = line.get(1).asText();
        switch (line.get(0).asText()) {
            case "prepare":
                return prepare(name, line.get(2).asText(), line.get(3).asText());
            case "produce":
                return produce(name, line.get(2).asText(), line.get(3).asInt());
            case "open":
                return open(name, line);
            case "poll":
                return poll(name, line.get(2).asInt());
            case "idle":
                return idle(name, line.get(2).asInt());
            case "say":
                return say(name, line);
            case "accept all":
                polled.get(name).forEach(consumers.get(name)::acknowledge);
                return "said";
            case "commit":
                return commit(name);
            case "close":
                consumers.remove(name).close();
                return "closed";
            default:
                throw new IllegalArgumentException(line.toString());
        }
    }

    private static Properties settings(String bootstrap) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        return settings;
    }

    private static Object prepare(String bootstrap, String topic, String group) throws Exception {
        try (Admin admin = Admin.create(settings(bootstrap))) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
            ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
            ConfigEntry earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
            AlterConfigOp set = new AlterConfigOp(earliest, AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
        }
        return "prepared";
    }

    private static Object produce(String bootstrap, String topic, int count) {
        Properties settings = settings(bootstrap);
        settings.put("linger.ms", "50");
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int index = 0; index < count; index++) {
                producer.send(new ProducerRecord<>(topic, "value " + index));
            }
        }
        return "produced";
    }

    private Object open(String name, JsonNode line) {
        Properties settings = settings(line.get(2).asText());
        settings.put("group.id", line.get(3).asText());
        settings.put("client.id", name);
        settings.put("share.acknowledgement.mode", line.get(5).asText());
        settings.put("max.poll.records", line.get(6).asText());
        settings.put("share.acquire.mode", "record_limit");
        KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(
                        settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(line.get(4).asText()));
        consumers.put(name, consumer);
        held.put(name, new TreeMap<>());
        return "opened";
    }

    /** Poll until there are records; return their offsets and delivery counts. */
    private Object poll(String name, int seconds) {
        long until = System.nanoTime() + seconds * 1_000_000_000L;
        List<List<Object>> rows = new ArrayList<>();
        polled.put(name, new ArrayList<>());
        while (rows.isEmpty() && System.nanoTime() < until) {
            for (ConsumerRecord<String, String> record :
                    consumers.get(name).poll(Duration.ofMillis(200))) {
                held.get(name).put(record.offset(), record);
                polled.get(name).add(record);
                rows.add(List.of(record.offset(), record.deliveryCount().orElse((short) -1)));
            }
        }
        return rows;
    }

    /** Poll once; return the number of records. */
    private Object idle(String name, int millis) {
        return consumers.get(name).poll(Duration.ofMillis(millis)).count();
    }

    private Object say(String name, JsonNode line) {
        AcknowledgeType type = AcknowledgeType.valueOf(line.get(2).asText());
        for (JsonNode offset : line.get(3)) {
            consumers.get(name).acknowledge(held.get(name).get(offset.asLong()), type);
        }
        return "said";
    }

    private Object commit(String name) {
        Map<String, String> results = new TreeMap<>();
        for (Map.Entry<TopicIdPartition, Optional<KafkaException>> result :
                consumers.get(name).commitSync().entrySet()) {
            results.put(
                    result.getKey().topicPartition().toString(),
                    result.getValue().map(error -> error.getClass().getSimpleName()).orElse("ok"));
        }
        return results;
    }
}
