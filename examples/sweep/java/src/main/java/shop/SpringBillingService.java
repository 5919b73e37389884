package shop;

import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ContainerProperties.AckMode;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.util.backoff.FixedBackOff;

/**
 * A service that writes a bill for each order, with Spring Kafka.
 *
 * <p>It ends when its listener has handled the last order. With the argument {@code --no-wait} it
 * has a fault: the listener returns before the bill is acknowledged, so the offset of the order is
 * committed although the bill may be refused. Spring's own code had this fault:
 * https://github.com/spring-attic/spring-cloud-stream-binder-kafka/issues/1046
 */
public final class SpringBillingService {
    private static final String SERVERS = System.getenv("KAFKA_BOOTSTRAP_SERVERS");
    private static final String LAST_ORDER = "order-3";
    private static final int LIMIT_S = 50;
    private static boolean waits;

    private SpringBillingService() {}

    /** Runs the service until the last order is handled. */
    public static void main(String[] arguments) throws InterruptedException {
        waits = !List.of(arguments).contains("--no-wait");
        boolean isDone;
        try (AnnotationConfigApplicationContext context =
                new AnnotationConfigApplicationContext(Settings.class)) {
            isDone = context.getBean(Billing.class).done.await(LIMIT_S, TimeUnit.SECONDS);
        }
        if (!isDone) {
            System.out.println("the service gives up");
            System.exit(1);
        }
    }

    /** The listener. */
    static final class Billing {
        final CountDownLatch done = new CountDownLatch(1);
        private final KafkaTemplate<String, String> template;

        Billing(KafkaTemplate<String, String> template) {
            this.template = template;
        }

        @KafkaListener(topics = "orders", groupId = "billing")
        void bill(String order) {
            CompletableFuture<?> bill = template.send("bills", "bill of " + order);
            if (waits) {
                bill.join();
            }
            if (order.equals(LAST_ORDER)) {
                done.countDown();
            }
        }
    }

    /** The beans. */
    @Configuration
    @EnableKafka
    static class Settings {
        @Bean
        KafkaTemplate<String, String> template() {
            // The producer does not send a bill again by itself: the listener gets the order again.
            Map<String, Object> settings =
                    Map.of(
                            "bootstrap.servers", SERVERS,
                            "enable.idempotence", false,
                            "retries", 0,
                            "request.timeout.ms", 5_000,
                            "delivery.timeout.ms", 10_000);
            return new KafkaTemplate<>(
                    new DefaultKafkaProducerFactory<>(
                            settings, new StringSerializer(), new StringSerializer()));
        }

        @Bean
        Billing billing(KafkaTemplate<String, String> template) {
            return new Billing(template);
        }

        @Bean
        ConcurrentKafkaListenerContainerFactory<String, String> kafkaListenerContainerFactory() {
            Map<String, Object> settings =
                    Map.of(
                            "bootstrap.servers", SERVERS,
                            "auto.offset.reset", "earliest",
                            "enable.auto.commit", false,
                            "session.timeout.ms", 6_000,
                            "heartbeat.interval.ms", 500,
                            "request.timeout.ms", 10_000);
            ConcurrentKafkaListenerContainerFactory<String, String> factory =
                    new ConcurrentKafkaListenerContainerFactory<>();
            factory.setConsumerFactory(
                    new DefaultKafkaConsumerFactory<>(
                            settings, new StringDeserializer(), new StringDeserializer()));
            factory.getContainerProperties().setAckMode(AckMode.RECORD);
            // By default, an order is skipped after ten attempts.
            factory.setCommonErrorHandler(
                    new DefaultErrorHandler(new FixedBackOff(100, FixedBackOff.UNLIMITED_ATTEMPTS)));
            return factory;
        }
    }
}
