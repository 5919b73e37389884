package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kafkalite.Clock;
import io.kafkalite.Explain;
import io.kafkalite.Explain.HistoryEntry;
import io.kafkalite.FaultRule;
import io.kafkalite.Faults;
import io.kafkalite.Groups;
import io.kafkalite.KafkaliteBroker;
import io.kafkalite.Nodes;
import io.kafkalite.RequestConditions;
import io.kafkalite.Requests;
import io.kafkalite.Topics;
import io.kafkalite.Topics.RecordAnswer;
import io.kafkalite.Transactions;
import io.kafkalite.junit5.BootstrapServers;
import io.kafkalite.junit5.Kafkalite;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;

/** What a service meets in production, each in one test. */
@Kafkalite(topics = "orders:1")
class OrdersTest {
    private static final TopicPartition ORDERS = new TopicPartition("orders", 0);
    private static final Duration LIMIT = Duration.ofSeconds(20);

    @BootstrapServers private String servers;
    private Topics topics;
    private Groups groups;
    private Faults faults;
    private Explain explain;

    @Test
    void aRefusedCommitIsRetried() {
        try (Faults.Fault refusal =
                        faults.add(
                                FaultRule.on("OffsetCommit")
                                        .group("shop")
                                        .times(1)
                                        .error("COORDINATOR_LOAD_IN_PROGRESS"));
                KafkaConsumer<String, String> consumer = newConsumer(Map.of())) {
            consumer.commitSync(Map.of(ORDERS, new OffsetAndMetadata(42)));
            assertEquals(1, refusal.firings());
            assertEquals(2, refusal.matches());
        }
        assertEquals(42, groups.get("shop").committed("orders", 0).getAsLong());
    }

    @Test
    @Kafkalite(topics = "orders:1", clock = "manual")
    void offsetsOfAnEmptyGroupExpireAfterAWeek(Clock clock) {
        try (KafkaConsumer<String, String> consumer = newConsumer(Map.of())) {
            consumer.commitSync(Map.of(ORDERS, new OffsetAndMetadata(42)));
        }
        clock.advance(Duration.ofDays(7).minusHours(1));
        assertEquals(42, groups.get("shop").committed("orders", 0).getAsLong());
        clock.advance(Duration.ofMinutes(70)); // Kafka checks every ten minutes
        groups.await("shop", "Dead", 0, LIMIT);
    }

    @Test
    void aSecondProducerFencesTheFirst() {
        try (KafkaProducer<String, String> zombie = newProducer(Map.of("transactional.id", "shop"));
                KafkaProducer<String, String> other = newProducer(Map.of("transactional.id", "shop"))) {
            zombie.initTransactions();
            zombie.beginTransaction();
            zombie.send(new ProducerRecord<>("orders", "two apples"));
            zombie.flush();
            other.initTransactions();
            assertThrows(ProducerFencedException.class, zombie::commitTransaction);
        }
        assertTrue(kinds(explain.transactionalId("shop")).contains("fenced"));
        assertEquals(List.of(), topics.records("orders"));
    }

    @Test
    void aPoisonRecordGoesToTheDeadLetters() throws Exception {
        topics.produce("orders", "2", "two apples", "3");
        int apples = 0;
        try (KafkaConsumer<String, String> consumer = newConsumer(Map.of());
                KafkaProducer<String, String> producer = newProducer(Map.of())) {
            consumer.subscribe(List.of("orders"));
            for (ConsumerRecord<String, String> order : read(consumer, 3)) {
                try {
                    apples += Integer.parseInt(order.value());
                } catch (NumberFormatException poison) {
                    producer.send(new ProducerRecord<>("dead-letters", order.value())).get();
                }
            }
            consumer.commitSync();
        }
        assertEquals(5, apples);
        assertEquals(List.of("two apples"), values(topics.records("dead-letters")));
        assertEquals(0, groups.get("shop").lag("orders", 0).getAsLong());
    }

    @Test
    void theLagIsWhatTheGroupHasNotRead() {
        topics.produce("orders", "1", "2", "3", "4", "5");
        try (KafkaConsumer<String, String> consumer = newConsumer(Map.of("max.poll.records", 2))) {
            consumer.subscribe(List.of("orders"));
            read(consumer, 2);
            consumer.commitSync();
        }
        assertEquals(3, groups.get("shop").lag("orders", 0).getAsLong());
    }

    @Test
    void aGroupSurvivesAStormOfRebalances() {
        topics.produce("orders", "two apples");
        try (KafkaConsumer<String, String> consumer =
                newConsumer(Map.of("heartbeat.interval.ms", 50))) {
            consumer.subscribe(List.of("orders"));
            assertEquals("two apples", read(consumer, 1).get(0).value());
            consumer.commitSync();
            try (Faults.Fault storm =
                    faults.add(
                            FaultRule.on("Heartbeat")
                                    .group("shop")
                                    .error("REBALANCE_IN_PROGRESS"))) {
                while (groups.get("shop").epoch() < 4) {
                    consumer.poll(Duration.ofMillis(50)); // joins again after each heartbeat
                }
                assertTrue(storm.firings() >= 3);
            }
            topics.produce("orders", "a pear");
            assertEquals("a pear", read(consumer, 1).get(0).value());
            groups.await("shop", "Stable", 1, LIMIT);
        }
        assertTrue(kinds(explain.group("shop")).contains("rebalance"));
    }

    @Test
    @Kafkalite(topics = "orders:1", config = "quota.window.num=2")
    void aProducerBeyondItsQuotaIsThrottled(KafkaliteBroker broker) throws Exception {
        broker.setQuotas("reports", Map.of("producer_byte_rate", 10_000.0));
        try (KafkaProducer<String, String> producer = newProducer(Map.of("client.id", "reports"))) {
            for (int count = 0; count < 3; count++) {
                producer.send(new ProducerRecord<>("orders", "a".repeat(5_000))).get();
            }
            producer.metrics().values().stream()
                    .filter(metric -> metric.metricName().name().equals("produce-throttle-time-max"))
                    .forEach(metric -> assertTrue((double) metric.metricValue() > 0));
        }
        assertTrue(kinds(explain.topic("orders")).contains("throttled"));
    }

    @Test
    void recordsAreCompressedAndAcknowledgedByAllReplicas(Requests requests) throws Exception {
        requests.start();
        try (KafkaProducer<String, String> producer = newProducer(Map.of("compression.type", "gzip"))) {
            producer.send(new ProducerRecord<>("orders", "two apples")).get();
        }
        requests.expect(
                RequestConditions.of("Produce")
                        .topic("orders")
                        .field("acks", -1)
                        .field("compression", "gzip")
                        .times(1));
    }

    @Test
    void aTransactionSurvivesARestartOfTheBroker(Nodes nodes, Transactions transactions) {
        try (KafkaProducer<String, String> producer =
                newProducer(Map.of("transactional.id", "shop"))) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("orders", "two apples"));
            producer.flush();
            nodes.stop(1);
            nodes.start(1);
            assertEquals("Ongoing", transactions.get("shop").state());
            producer.send(new ProducerRecord<>("orders", "a pear"));
            producer.commitTransaction();
        }
        assertEquals(List.of("two apples", "a pear"), values(topics.records("orders")));
    }

    @Test
    void anOrderIsPublished() {
        try (KafkaProducer<String, String> producer = newProducer(Map.of())) {
            producer.send(new ProducerRecord<>("orders", "customer-7", "two apples"));
        }
        RecordAnswer order = topics.awaitRecords("orders", 1, LIMIT).get(0);
        assertEquals("customer-7", order.key());
        assertEquals("two apples", order.value());
    }

    private KafkaProducer<String, String> newProducer(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("bootstrap.servers", servers);
        return new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> newConsumer(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("bootstrap.servers", servers);
        all.put("group.id", "shop");
        all.put("auto.offset.reset", "earliest");
        all.put("enable.auto.commit", false);
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    private static List<ConsumerRecord<String, String>> read(
            KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        long deadline = System.nanoTime() + LIMIT.toNanos();
        while (records.size() < count && System.nanoTime() < deadline) {
            consumer.poll(Duration.ofMillis(100)).forEach(records::add);
        }
        assertEquals(count, records.size());
        return records;
    }

    private static List<String> values(List<RecordAnswer> records) {
        return records.stream().map(RecordAnswer::value).toList();
    }

    private static List<String> kinds(List<HistoryEntry> entries) {
        return entries.stream().map(HistoryEntry::kind).toList();
    }
}
