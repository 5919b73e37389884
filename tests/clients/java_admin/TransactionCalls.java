import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeProducersOptions;
import org.apache.kafka.clients.admin.DescribeProducersResult.PartitionProducerState;
import org.apache.kafka.clients.admin.FenceProducersResult;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/** Calls about transactions: list and describe open ones, abort and fence them. */
final class TransactionCalls {
    private static final String TOPIC = "admin-transacted";
    private static final String OPEN = "admin-open";
    private static final String ENDED = "admin-ended";
    private static final String FRESH = "admin-fresh";
    private static final Set<String> OURS = Set.of(OPEN, ENDED, FRESH);
    private static final TopicPartition FIRST = new TopicPartition(TOPIC, 0);
    private static final TopicPartition SECOND = new TopicPartition(TOPIC, 1);

    private final AdminSweep sweep;
    private final Admin admin;

    TransactionCalls(AdminSweep sweep) {
        this.sweep = sweep;
        this.admin = sweep.admin;
    }

    void run() throws Exception {
        AdminSweep.get(admin.createTopics(List.of(new NewTopic(TOPIC, 2, (short) 1))).all());
        sweep.awaitPartitions(TOPIC, 2);
        sweep.call("fenceProducers of an unknown id", () -> fenced(FRESH));
        sweep.call("fenceProducers again", () -> fenced(FRESH));
        try (KafkaProducer<String, String> open = transactional(OPEN, 60_000);
                KafkaProducer<String, String> ended = transactional(ENDED, 50_000)) {
            begin(open, FIRST);
            open.commitTransaction();
            begin(open, FIRST);
            begin(ended, FIRST);
            begin(ended, SECOND);
            ended.commitTransaction();
            begin(ended, SECOND);
            list();
            describe();
            end(open, ended);
        }
        sweep.call("listTransactions after all", () -> listed(new ListTransactionsOptions()));
        sweep.call("deleteTopics transacted", () -> AdminSweep.get(
                admin.deleteTopics(List.of(TOPIC)).all()));
    }

    private KafkaProducer<String, String> transactional(String id, int timeoutMs) {
        Properties config = new Properties();
        config.put("bootstrap.servers", sweep.bootstrap);
        config.put("transactional.id", id);
        config.put("transaction.timeout.ms", timeoutMs);
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    /** Send one record in the open transaction, or in a new one. */
    private static void begin(KafkaProducer<String, String> producer, TopicPartition to)
            throws Exception {
        try {
            producer.beginTransaction();
        } catch (IllegalStateException isOpen) {
            // The record is added to the open transaction.
        }
        producer.send(new ProducerRecord<>(to.topic(), to.partition(), "key", "value"))
                .get(AdminSweep.TIMEOUT_S, TimeUnit.SECONDS);
    }

    private Object fenced(String id) throws Exception {
        FenceProducersResult result = admin.fenceProducers(List.of(id));
        AdminSweep.get(result.all());
        return List.of(AdminSweep.get(result.producerId(id)) >= 0,
                AdminSweep.get(result.epochId(id)));
    }

    private void list() {
        sweep.call("listTransactions", () -> listed(new ListTransactionsOptions()));
        sweep.call("listTransactions ongoing", () -> listed(
                new ListTransactionsOptions().filterStates(Set.of(TransactionState.ONGOING))));
        sweep.call("listTransactions of unknown states", () -> listed(
                new ListTransactionsOptions().filterStates(Set.of(TransactionState.UNKNOWN))));
        sweep.call("listTransactions of a producer", () -> listed(
                new ListTransactionsOptions().filterProducerIds(Set.of(describedProducer(OPEN)))));
        sweep.call("listTransactions of no producer", () -> listed(
                new ListTransactionsOptions().filterProducerIds(Set.of(987_654_321L))));
        sweep.call("listTransactions open for an hour", () -> listed(
                new ListTransactionsOptions().filterOnDuration(3_600_000)));
        sweep.call("listTransactions open for a moment", () -> {
            ListTransactionsOptions options = new ListTransactionsOptions().filterOnDuration(0);
            AdminSweep.await(() -> listed(options).size() == OURS.size());
            return listed(options);
        });
        sweep.call("listTransactions by pattern", () -> listed(
                new ListTransactionsOptions().filterOnTransactionalIdPattern("admin-.*n")));
        sweep.call("listTransactions by part of an id", () -> listed(
                new ListTransactionsOptions().filterOnTransactionalIdPattern("admin")));
        sweep.call("listTransactions by no pattern", () -> listed(
                new ListTransactionsOptions().filterOnTransactionalIdPattern("(")));
        sweep.call("listTransactions by broker", () ->
                AdminSweep.get(admin.listTransactions().allByBrokerId()).keySet());
    }

    private List<String> listed(ListTransactionsOptions options) throws Exception {
        return AdminSweep.get(admin.listTransactions(options).all()).stream()
                .filter(listing -> OURS.contains(listing.transactionalId()))
                .map(listing -> listing.transactionalId() + " " + listing.state() + " "
                        + (listing.producerId() >= 0))
                .sorted()
                .toList();
    }

    private TransactionDescription described(String id) throws Exception {
        return AdminSweep.get(admin.describeTransactions(List.of(id)).description(id));
    }

    private long describedProducer(String id) throws Exception {
        return described(id).producerId();
    }

    private void describe() {
        for (String id : List.of(OPEN, ENDED, FRESH, "admin-missing", "")) {
            sweep.call("describeTransactions '" + id + "'", () -> told(described(id)));
        }
        for (TopicPartition partition : List.of(FIRST, SECOND)) {
            sweep.call("describeProducers " + partition, () ->
                    told(producers(partition, new DescribeProducersOptions())));
        }
        sweep.call("describeProducers of a broker", () ->
                told(producers(FIRST, new DescribeProducersOptions().brokerId(1))));
    }

    private static Object told(TransactionDescription transaction) {
        Map<String, Object> found = new TreeMap<>();
        found.put("coordinator", transaction.coordinatorId());
        found.put("state", transaction.state());
        found.put("hasProducer", transaction.producerId() >= 0);
        found.put("epoch", transaction.producerEpoch());
        found.put("timeoutMs", transaction.transactionTimeoutMs());
        found.put("hasStart", transaction.transactionStartTimeMs().isPresent());
        found.put("partitions", AdminSweep.names(transaction.topicPartitions()));
        return found;
    }

    private PartitionProducerState producers(TopicPartition partition,
            DescribeProducersOptions options) throws Exception {
        return AdminSweep.get(
                admin.describeProducers(List.of(partition), options).partitionResult(partition));
    }

    private static Object told(PartitionProducerState state) {
        return state.activeProducers().stream().map(TransactionCalls::told).sorted().toList();
    }

    private static String told(ProducerState producer) {
        return "epoch " + producer.producerEpoch() + ", last sequence " + producer.lastSequence()
                + ", coordinator " + producer.coordinatorEpoch() + ", open since "
                + producer.currentTransactionStartOffset() + ", "
                + (producer.producerId() >= 0 && producer.lastTimestamp() > 0);
    }

    private void end(KafkaProducer<String, String> open, KafkaProducer<String, String> ended)
            throws Exception {
        ProducerState state = producers(FIRST, new DescribeProducersOptions()).activeProducers()
                .stream()
                .filter(producer -> producer.currentTransactionStartOffset().isPresent())
                .findFirst()
                .orElseThrow();
        int epoch = state.producerEpoch();
        abort("abortTransaction at an older epoch", state.producerId(), epoch - 1);
        abort("abortTransaction", state.producerId(), epoch);
        abort("abortTransaction again", state.producerId(), epoch);
        sweep.call("describeProducers after abortTransaction", () ->
                told(producers(FIRST, new DescribeProducersOptions())));
        sweep.call("describeTransactions after abortTransaction", () -> told(described(OPEN)));
        sweep.call("fenceProducers of an open transaction", () -> fenced(OPEN));
        sweep.call("commit after fenceProducers", () -> committed(open));
        sweep.call("describeTransactions after fenceProducers", () -> told(described(OPEN)));
        sweep.call("forceTerminateTransaction", () ->
                AdminSweep.get(admin.forceTerminateTransaction(ENDED).result()));
        sweep.call("send after forceTerminateTransaction", () -> {
            begin(ended, SECOND);
            return "sent";
        });
        sweep.call("describeTransactions after forceTerminateTransaction", () ->
                told(described(ENDED)));
        sweep.call("describeProducers after all", () ->
                told(producers(SECOND, new DescribeProducersOptions())));
    }

    private void abort(String name, long producerId, int epoch) {
        sweep.call(name, () -> AdminSweep.get(admin.abortTransaction(
                new AbortTransactionSpec(FIRST, producerId, (short) epoch, 0)).all()));
    }

    private static String committed(KafkaProducer<String, String> producer)
            throws Exception {
        producer.commitTransaction();
        return "committed";
    }
}
