package io.kafkalite.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kafkalite.Groups;
import io.kafkalite.KafkaliteBroker;
import io.kafkalite.Topics.RecordAnswer;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.context.TestConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.messaging.handler.annotation.SendTo;

/** An application whose tests have a broker as a bean. */
@SpringBootTest(properties = "spring.kafka.consumer.auto-offset-reset=earliest")
class BrokerBeanTest {
    private static final Duration LIMIT = Duration.ofSeconds(20);

    @SpringBootApplication
    static class Shop {
        @KafkaListener(topics = "orders", groupId = "shop")
        @SendTo("bills")
        String bill(String order) {
            return "bill for " + order;
        }
    }

    @TestConfiguration(proxyBeanMethods = false)
    static class Kafka {
        @Bean
        KafkaliteBroker kafka() {
            return KafkaliteBroker.start("--topic", "orders:1", "--topic", "bills:1");
        }
    }

    @Autowired private KafkaTemplate<String, String> template;
    @Autowired private KafkaliteBroker broker;

    @Test
    void theApplicationIsConnectedToTheBroker() {
        template.send("orders", "two apples").join();
        RecordAnswer bill = broker.topics().awaitRecords("bills", 1, LIMIT).get(0);
        assertEquals("bill for two apples", bill.value());
        Groups.GroupStatus shop = broker.groups().await("shop", "Stable", 1, LIMIT);
        assertEquals("orders", shop.members().get(0).assignment().get(0).topic());
    }
}
