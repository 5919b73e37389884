import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A worker of the Java client; {@code drivers/worker.py} describes its orders and reports. */
public final class TransactionWorker {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final int SESSION_TIMEOUT_MS = 1_500;
    private static final int HEARTBEAT_MS = 300;
    private static final int TRANSACTION_TIMEOUT_MS = 60_000;

    private final String source;
    private final String sink;
    private final KafkaConsumer<String, String> consumer;
    private final KafkaProducer<String, String> producer;
    private final LinkedBlockingQueue<Boolean> go = new LinkedBlockingQueue<>();
    private volatile boolean isOver;
    private volatile boolean isToHold;
    private volatile boolean isToAbort;

    private TransactionWorker(JsonNode task) {
        source = task.get("source").asText();
        sink = task.get("sink").asText();
        String bootstrap = task.get("bootstrap").asText();
        Properties writing = new Properties();
        writing.put("bootstrap.servers", bootstrap);
        writing.put("transactional.id", task.get("transactional_id").asText());
        writing.put("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS);
        producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        String protocol = task.get("protocol").asText();
        Properties reading = new Properties();
        reading.put("bootstrap.servers", bootstrap);
        reading.put("group.id", task.get("group").asText());
        reading.put("group.protocol", protocol);
        reading.put("auto.offset.reset", "earliest");
        reading.put("enable.auto.commit", "false");
        reading.put("isolation.level", "read_committed");
        reading.put("max.poll.records", task.get("batch").asInt());
        if (protocol.equals("classic")) {
            reading.put("session.timeout.ms", SESSION_TIMEOUT_MS);
            reading.put("heartbeat.interval.ms", HEARTBEAT_MS);
        }
        consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(source));
    }

    public static void main(String[] arguments) {
        try {
            new TransactionWorker(new ObjectMapper().readTree(arguments[0])).work();
        } catch (ProducerFencedException | InvalidProducerEpochException fenced) {
            end("fenced", fenced);
        } catch (Exception failure) {
            end("failed", failure);
        }
    }

    private static void end(String word, Exception why) {
        why.printStackTrace();
        say(word + " " + why.getClass().getSimpleName());
        // A fenced producer may wait for its coordinator forever.
        Runtime.getRuntime().halt(1);
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private void work() throws InterruptedException {
        Thread listener = new Thread(this::listen);
        listener.setDaemon(true);
        listener.start();
        say("ready");
        while (!isOver) {
            ConsumerRecords<String, String> records = poll();
            if (!records.isEmpty()) {
                transact(records);
            }
        }
        consumer.close();
        producer.close();
    }

    /** Return the next records; a removed member joins again in the next poll. */
    private ConsumerRecords<String, String> poll() {
        try {
            return consumer.poll(POLL);
        } catch (KafkaException reason) {
            System.err.println(reason);
            return ConsumerRecords.empty();
        }
    }

    private void transact(ConsumerRecords<String, String> records) throws InterruptedException {
        try {
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (ConsumerRecord<String, String> record : records) {
                producer.send(new ProducerRecord<>(
                        sink, record.partition(), record.key(), record.value() + "!"));
                offsets.put(
                        new TopicPartition(source, record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            producer.flush();
            if (!obeyInside()) {
                producer.commitTransaction();
                say("committed " + records.count());
                return;
            }
        } catch (ProducerFencedException | InvalidProducerEpochException fenced) {
            throw fenced;
        } catch (KafkaException reason) {
            System.err.println(reason);
        }
        producer.abortTransaction();
        goBack();
        say("aborted");
    }

    /** Seek to the committed offsets; a removed member joins again first. */
    private void goBack() {
        while (true) {
            try {
                consumer.committed(consumer.assignment()).forEach(consumer::seek);
                return;
            } catch (KafkaException reason) {
                System.err.println(reason);
                poll();
            }
        }
    }

    private boolean obeyInside() throws InterruptedException {
        if (isToHold) {
            isToHold = false;
            say("held");
            go.take();
        }
        boolean isToAbortThis = isToAbort;
        isToAbort = false;
        return isToAbortThis;
    }

    private void listen() {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        try {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                switch (line) {
                    case "hold" -> isToHold = true;
                    case "abort" -> isToAbort = true;
                    case "go" -> go.add(true);
                    case "close" -> isOver = true;
                    default -> throw new IllegalArgumentException(line);
                }
            }
        } catch (IOException gone) {
            System.err.println(gone);
        }
        isOver = true;
        go.add(true);
    }
}
