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
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Members that commit all the time, while others join and leave and heartbeats are in flight.
 *
 * <p>Arguments: bootstrap, topic, group, rebalances, members that stay.  Prints one JSON object: how
 * many rebalances the group went through, and what became of the commits of the partitions that the
 * members had at the time.
 */
public final class CommitFencing {
    private static final int TIMEOUT_S = 60;

    private final String bootstrap;
    private final String topic;
    private final String group;
    private final LongAdder commits = new LongAdder();
    private final Map<String, LongAdder> refused = new ConcurrentHashMap<>();
    private volatile boolean isOver;

    private CommitFencing(String bootstrap, String topic, String group) {
        this.bootstrap = bootstrap;
        this.topic = topic;
        this.group = group;
    }

    public static void main(String[] arguments) throws Exception {
        CommitFencing run = new CommitFencing(arguments[0], arguments[1], arguments[2]);
        Map<String, Object> found =
                run.measure(Integer.parseInt(arguments[3]), Integer.parseInt(arguments[4]));
        System.out.println(new ObjectMapper().writeValueAsString(found));
    }

    private Map<String, Object> measure(int rebalances, int members) throws Exception {
        CountDownLatch assigned = new CountDownLatch(members);
        List<Thread> threads = new ArrayList<>();
        for (int member = 0; member < members; member++) {
            Thread thread = new Thread(() -> commitAllTheTime(assigned), "member-" + member);
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

    /** Commit whatever is assigned, as fast as the answers come. */
    private void commitAllTheTime(CountDownLatch assigned) {
        AtomicLong offset = new AtomicLong();
        boolean isWaitedFor = true;
        try (KafkaConsumer<String, String> consumer = consumer()) {
            while (!isOver) {
                consumer.poll(Duration.ofMillis(1));
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
                    consumer.commitSync(owned);
                } catch (RuntimeException failure) {
                    refused.computeIfAbsent(named(failure), name -> new LongAdder()).increment();
                }
                commits.increment();
            }
        }
    }

    /** One more member joins, is given partitions, and leaves. */
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
