import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Writes one record in a transaction and leaves the transaction open.
 *
 * <p>Arguments: bootstrap address, transactional id, topic.
 */
public final class OpenTransaction {
    private OpenTransaction() {}

    public static void main(String[] arguments) throws InterruptedException {
        Map<String, Object> config =
                Map.of("bootstrap.servers", arguments[0], "transactional.id", arguments[1]);
        CountDownLatch closed = new CountDownLatch(1);
        Exit.addShutdownHook("producer", closed::countDown);
        StringSerializer serializer = new StringSerializer();
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(config, serializer, serializer);
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(arguments[2], "undecided"));
        producer.flush();
        System.out.println("open");
        closed.await();
        producer.close();
    }
}
