import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AbstractOptions;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Calls every Admin method whose requests the broker serves, and prints the results.
 *
 * <p>Prints one JSON object: the name of each call, and its result or the name of the exception.
 * Of values that differ between runs (ids, ports, directories) it has only the presence.
 */
public final class AdminSweep {
    static final int TIMEOUT_S = 30;

    /** A call that may throw any exception. */
    interface Call {
        Object answer() throws Exception;
    }

    /** A condition that may become true. */
    interface Question {
        boolean isSo() throws Exception;
    }

    final String bootstrap;
    final Recorder recorder = new Recorder();
    final Admin admin;
    private final Map<String, Object> cells = new LinkedHashMap<>();

    private AdminSweep(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = client(Map.of("bootstrap.servers", bootstrap));
    }

    /** Run the sweep at a broker, and at a listener with SASL and a controller if they are given. */
    public static void main(String[] arguments) throws Exception {
        AdminSweep sweep = new AdminSweep(arguments[0]);
        try (sweep.admin) {
            new TopicCalls(sweep).run();
            new ConfigCalls(sweep).run();
            new GroupCalls(sweep).run();
            new TransactionCalls(sweep).run();
            if (arguments.length > 1) {
                new OptionCalls(sweep).run();
                new SecurityCalls(sweep, arguments[1]).run();
                new ShareCalls(sweep).run();
                new StreamsCalls(sweep).run();
                new ClusterCalls(sweep).run();
                new ControllerCalls(sweep, arguments[2]).run();
            }
        }
        ObjectMapper json = new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT);
        System.out.println(json.writeValueAsString(
                Map.of("surface", Recorder.surface(), "cells", sweep.cells)));
    }

    /** Return a client whose calls are recorded. */
    Admin client(Map<String, String> settings) {
        Properties config = new Properties();
        config.put("default.api.timeout.ms", TIMEOUT_S * 1000);
        config.putAll(settings);
        return recorder.recording(Admin.create(config));
    }

    /** Make one call and store its result under a name. */
    void call(String name, Call call) {
        recorder.take();
        Object answer;
        try {
            answer = call.answer();
        } catch (ExecutionException failure) {
            answer = Map.of("error", failure.getCause().getClass().getSimpleName());
        } catch (Exception failure) {
            answer = Map.of("error", failure.getClass().getSimpleName());
        }
        Object cell = Map.of("calls", recorder.take(), "answer", answer == null ? "done" : answer);
        if (cells.put(name, cell) != null) {
            throw new IllegalStateException("called twice: " + name);
        }
    }

    /** Make one call and store everything that its result has. */
    void show(String name, Call call) {
        call(name, () -> {
            try {
                return Shown.of(call.answer());
            } catch (Exception failure) {
                return Shown.error(failure);
            }
        });
    }

    /** Set the timeout of a call, so that the client uses the option. */
    static <T extends AbstractOptions<T>> T timed(T options) {
        return options.timeoutMs(TIMEOUT_S * 1000);
    }

    static <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get(TIMEOUT_S, TimeUnit.SECONDS);
    }

    /** The result or the exception of each key. */
    static <K, T> Map<String, Object> each(Map<K, KafkaFuture<T>> futures) throws Exception {
        Map<String, Object> found = new TreeMap<>();
        for (Map.Entry<K, KafkaFuture<T>> entry : futures.entrySet()) {
            found.put(String.valueOf(entry.getKey()), outcome(entry.getValue()));
        }
        return found;
    }

    private static Object outcome(KafkaFuture<?> future) throws Exception {
        try {
            return String.valueOf(get(future));
        } catch (ExecutionException failure) {
            return Map.of("error", failure.getCause().getClass().getSimpleName());
        }
    }

    static Set<String> names(Optional<? extends Collection<?>> values) {
        return values.map(AdminSweep::names).orElse(Set.of());
    }

    static Set<String> names(Collection<?> values) {
        if (values == null) {
            return Set.of("none");
        }
        return values.stream().map(String::valueOf).collect(Collectors.toCollection(TreeSet::new));
    }

    static Map<String, Object> describe(Node node) {
        return Map.of("id", node.id(), "host", node.host(), "hasRack", node.hasRack());
    }

    static Map<String, Object> describe(TopicPartitionInfo partition) {
        Map<String, Object> found = new TreeMap<>();
        found.put("partition", partition.partition());
        found.put("leader", describe(partition.leader()));
        found.put("replicas", partition.replicas().stream().map(Node::id).toList());
        found.put("isr", partition.isr().stream().map(Node::id).toList());
        found.put("elr", partition.elr());
        found.put("lastKnownElr", partition.lastKnownElr());
        return found;
    }

    /** All properties of each entry. */
    static Map<String, Object> describe(Config config) {
        Map<String, Object> found = new TreeMap<>();
        config.entries().forEach(entry -> {
            Map<String, Object> told = new TreeMap<>();
            told.put("value", entry.value());
            told.put("source", entry.source());
            told.put("type", entry.type());
            told.put("readOnly", entry.isReadOnly());
            told.put("sensitive", entry.isSensitive());
            told.put("documented", entry.documentation() != null);
            told.put("synonyms", entry.synonyms().stream()
                    .map(synonym -> List.of(String.valueOf(synonym.source()), synonym.name(),
                            String.valueOf(synonym.value())))
                    .toList());
            found.put(entry.name(), told);
        });
        return found;
    }

    /**
     * Wait for a condition: a broker applies decisions of its controller with a delay.
     *
     * <p>A condition is false while a call fails, as for a topic that is not known yet.
     */
    static void await(Question question) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIMEOUT_S);
        while (!isSo(question)) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("still not so");
            }
            Thread.sleep(10);
        }
    }

    private static boolean isSo(Question question) throws Exception {
        try {
            return question.isSo();
        } catch (ExecutionException failure) {
            return false;
        }
    }

    void awaitPartitions(String topic, int count) throws Exception {
        await(() -> get(admin.describeTopics(List.of(topic)).allTopicNames())
                .get(topic).partitions().size() == count);
    }

    void produce(String topic, int partitions, int count) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("linger.ms", "0");
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < count; number++) {
                // Timestamps decrease, so that the largest is not the last.
                long timestamp = 1_700_000_000_000L - number * 1000L;
                producer.send(new ProducerRecord<>(topic, number % partitions, timestamp,
                        "key", "value " + number)).get(TIMEOUT_S, TimeUnit.SECONDS);
            }
        }
    }

    /** Returns a consumer with assigned partitions; it sends heartbeats in the background. */
    KafkaConsumer<String, String> joined(String topic, Map<String, String> settings) {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.putAll(settings);
        KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIMEOUT_S);
        while (consumer.assignment().isEmpty()) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("no assignment for " + settings);
            }
            consumer.poll(Duration.ofMillis(50));
        }
        return consumer;
    }

    static List<TopicPartition> partitions(String topic, int count) {
        List<TopicPartition> found = new ArrayList<>();
        for (int partition = 0; partition < count; partition++) {
            found.add(new TopicPartition(topic, partition));
        }
        return found;
    }
}
