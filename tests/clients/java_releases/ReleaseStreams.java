import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts words with Kafka Streams at several brokers, and prints the counts and the type of each
 * group.
 *
 * <p>The first argument is the directory of the state, the second one tells how groups are listed:
 * {@code types}, as since Kafka 4.0, or {@code names}. Each other argument is a comma-separated
 * list: a bootstrap address, and applications such as {@code classic-at_least_once}. All of them run
 * at the same time. The state is in memory, so that RocksDB is not loaded.
 */
public final class ReleaseStreams {
    private static final String LINES = "lines";
    private static final List<String> TEXT = List.of("a b a", "c a", "b");
    private static final int UPDATES = 6;
    private static final Duration TIMEOUT = Duration.ofSeconds(90);

    private final String name;
    private final String bootstrap;
    private final String application;
    private final KafkaStreams streams;

    private ReleaseStreams(int broker, String bootstrap, String application, Path directory) {
        this.name = broker + " " + application;
        this.bootstrap = bootstrap;
        this.application = application;
        String[] protocolAndGuarantee = application.split("-");
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("application.id", application);
        if (!protocolAndGuarantee[0].equals("classic")) {
            config.put("group.protocol", protocolAndGuarantee[0]);
        }
        config.put("processing.guarantee", protocolAndGuarantee[1]);
        config.put("state.dir", directory.resolve(Integer.toString(broker)).toString());
        config.put("commit.interval.ms", "100");
        config.put("cache.max.bytes.buffering", "0"); // the name before 3.4
        config.put("statestore.cache.max.bytes", "0");
        config.put("consumer.auto.offset.reset", "earliest");
        streams = new KafkaStreams(topology("counts-" + application), config);
    }

    public static void main(String[] arguments) throws Exception {
        List<ReleaseStreams> applications = new ArrayList<>();
        for (int broker = 0; broker < arguments.length - 2; broker++) {
            String[] parts = arguments[broker + 2].split(",");
            produce(parts[0]);
            for (String application : Arrays.asList(parts).subList(1, parts.length)) {
                Path directory = Path.of(arguments[0]);
                applications.add(new ReleaseStreams(broker, parts[0], application, directory));
            }
        }
        applications.forEach(each -> each.streams.start());
        for (ReleaseStreams each : applications) {
            System.out.println(each.name + " counts " + each.counts());
            System.out.println(each.name + " type " + each.type(arguments[1].equals("types")));
        }
        applications.forEach(each -> each.streams.close(Duration.ofSeconds(10)));
    }

    private static Topology topology(String output) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(LINES, Consumed.with(Serdes.String(), Serdes.String()))
                .flatMapValues(line -> List.of(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
                .count(Materialized.as(Stores.inMemoryKeyValueStore("counts")))
                .toStream()
                .mapValues(count -> count.toString())
                .to(output, Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    private static void produce(String bootstrap) {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", bootstrap),
                new StringSerializer(),
                new StringSerializer())) {
            for (int index = 0; index < TEXT.size(); index++) {
                producer.send(new ProducerRecord<>(LINES, index % 2, null, TEXT.get(index)));
            }
        }
    }

    /** Returns all committed updates of each word, such as {@code a=1+2,b=1}. */
    private String counts() {
        Map<String, List<String>> counts = new TreeMap<>();
        Map<String, Object> config =
                Map.of("bootstrap.servers", bootstrap, "isolation.level", "read_committed");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> partitions =
                    List.of(new TopicPartition("counts-" + application, 0));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long deadline = System.nanoTime() + TIMEOUT.toNanos();
            for (int read = 0; read < UPDATES && System.nanoTime() < deadline; ) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(200))) {
                    counts.computeIfAbsent(each.key(), word -> new ArrayList<>()).add(each.value());
                    read++;
                }
            }
        }
        return counts.entrySet().stream()
                .map(each -> each.getKey() + "=" + String.join("+", each.getValue()))
                .collect(Collectors.joining(","));
    }

    /** Returns the type of the group, or {@code listed} if the client lists no types. */
    private String type(boolean hasTypes) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            return hasTypes
                    ? GroupTypes.of(admin, application)
                    : GroupNames.of(admin, application);
        }
    }
}
