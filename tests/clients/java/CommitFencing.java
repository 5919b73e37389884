import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Members that commit without pause while others join and leave and heartbeats are in flight.
 *
 * <p>Arguments: bootstrap, topic, group, rebalances, members that stay, milliseconds between two
 * commits, and optionally "transactional": then each commit is in a transaction with a record.
 * Prints one JSON object with the number of rebalances and the results of the commits. Members
 * commit only partitions that they have at that time.
 */
public final class CommitFencing {
    private static final int TIMEOUT_S = 60;

    private final String bootstrap;
    private final String topic;
    private final String group;
    private final long everyMs;
    private final boolean isTransactional;
    private final LongAdder commits = new LongAdder();
    private final Map<String, LongAdder> refused = new ConcurrentHashMap<>();
    private volatile boolean isOver;

    /** Commits offsets for a member; an exception counts as a refused commit. */
    private interface Committing extends AutoCloseable {
        void commit(Map<TopicPartition, OffsetAndMetadata> owned);

        @Override
        void close();
    }

    private CommitFencing(String[] arguments) {
        this.bootstrap = arguments[0];
        this.topic = arguments[1];
        this.group = arguments[2];
        this.everyMs = Long.parseLong(arguments[5]);
        this.isTransactional = arguments.length > 6 && arguments[6].equals("transactional");
    }

    public static void main(String[] arguments) throws Exception {
        CommitFencing run = new CommitFencing(arguments);
        Map<String, Object> found =
                run.measure(Integer.parseInt(arguments[3]), Integer.parseInt(arguments[4]));
        System.out.println(new ObjectMapper().writeValueAsString(found));
    }

    private Map<String, Object> measure(int rebalances, int members) throws Exception {
        CountDownLatch assigned = new CountDownLatch(members);
        List<Thread> threads = new ArrayList<>();
        for (int member = 0; member < members; member++) {
            String name = "member-" + member;
            Thread thread = new Thread(() -> commitAllTheTime(name, assigned), name);
            thread.start();
            threads.add(thread);
        }
        if (!assigned.await(TIMEOUT_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException("not every member was given partitions");
        }
        int first = groupEpoch();
        long begun = System.nanoTime();
        while (groupEpoch() - first < rebalances) {
            comeAndGo();
        }
        double seconds = (System.nanoTime() - begun) / 1e9;
        int last = groupEpoch();
        isOver = true;
        for (Thread thread : threads) {
            thread.join(TimeUnit.SECONDS.toMillis(TIMEOUT_S));
        }
        Map<String, Object> found = new TreeMap<>();
        found.put("rebalances", last - first);
        found.put("commits", commits.sum());
        found.put("seconds", seconds);
        Map<String, Long> errors = new TreeMap<>();
        refused.forEach((name, count) -> errors.put(name, count.sum()));
        found.put("refused", errors);
        return found;
    }

    private KafkaConsumer<String, String> consumer() {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("group.id", group);
        config.put("group.protocol", "consumer");
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        config.put("default.api.timeout.ms", TIMEOUT_S * 1000);
        KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    private Committing plain(KafkaConsumer<String, String> consumer) {
        return new Committing() {
            @Override
            public void commit(Map<TopicPartition, OffsetAndMetadata> owned) {
                consumer.commitSync(owned);
            }

            @Override
            public void close() {
                // The caller closes the consumer.
            }
        };
    }

    private Committing transactional(String name, KafkaConsumer<String, String> consumer) {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("transactional.id", group + "-" + name);
        config.put("max.block.ms", TIMEOUT_S * 1000);
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return new Committing() {
            @Override
            public void commit(Map<TopicPartition, OffsetAndMetadata> owned) {
                producer.beginTransaction();
                try {
                    producer.send(new ProducerRecord<>(topic + "-done", name, "done"));
                    producer.sendOffsetsToTransaction(owned, consumer.groupMetadata());
                    producer.commitTransaction();
                } catch (RuntimeException failure) {
                    // A fatal error ends the run: no other producer has this transactional id.
                    producer.abortTransaction();
                    throw failure;
                }
            }

            @Override
            public void close() {
                producer.close();
            }
        };
    }

    /** Commit all assigned partitions repeatedly, at the given interval. */
    private void commitAllTheTime(String name, CountDownLatch assigned) {
        AtomicLong offset = new AtomicLong();
        boolean isWaitedFor = true;
        try (KafkaConsumer<String, String> consumer = consumer();
                Committing way = isTransactional ? transactional(name, consumer) : plain(consumer)) {
            long next = System.nanoTime();
            while (!isOver) {
                do {
                    consumer.poll(Duration.ofMillis(1));
                } while (System.nanoTime() < next);
                next = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(everyMs);
                Map<TopicPartition, OffsetAndMetadata> owned = new HashMap<>();
                for (TopicPartition partition : consumer.assignment()) {
                    owned.put(partition, new OffsetAndMetadata(offset.incrementAndGet()));
                }
                if (owned.isEmpty()) {
                    continue;
                }
                if (isWaitedFor) {
                    assigned.countDown();
                    isWaitedFor = false;
                }
                try {
                    way.commit(owned);
                } catch (RuntimeException failure) {
                    refused.computeIfAbsent(named(failure), why -> new LongAdder()).increment();
                }
                commits.increment();
            }
        }
    }

    /** Let another member join, get partitions, and leave. */
    private void comeAndGo() {
        try (KafkaConsumer<String, String> passer = consumer()) {
            long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIMEOUT_S);
            while (passer.assignment().isEmpty()) {
                passer.poll(Duration.ofMillis(20));
                if (System.nanoTime() > until) {
                    throw new IllegalStateException("a passing member was given no partition");
                }
            }
        }
    }

    private int groupEpoch() throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        try (Admin admin = Admin.create(config)) {
            return admin.describeConsumerGroups(List.of(group))
                    .describedGroups()
                    .get(group)
                    .get(TIMEOUT_S, TimeUnit.SECONDS)
                    .groupEpoch()
                    .orElseThrow();
        }
    }

    private static String named(Throwable failure) {
        StringBuilder names = new StringBuilder();
        for (Throwable each = failure; each != null; each = each.getCause()) {
            names.append(names.isEmpty() ? "" : " < ").append(each.getClass().getSimpleName());
        }
        return names + ": " + failure.getMessage();
    }
}
