package io.kafkalite.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kafkalite.KafkaliteContainer;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.kafka.autoconfigure.KafkaConnectionDetails;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.context.TestConfiguration;
import org.springframework.boot.testcontainers.service.connection.ServiceConnection;
import org.springframework.context.annotation.Bean;

/** A container with {@code @ServiceConnection}, without a container engine. */
@SpringBootTest
class ServiceConnectionTest {
    @SpringBootConfiguration
    @EnableAutoConfiguration
    static class Shop {}

    @TestConfiguration(proxyBeanMethods = false)
    static class Kafka {
        @Bean
        @ServiceConnection
        KafkaliteContainer kafka() {
            return new KafkaliteContainer("kafkalite") {
                @Override
                public void start() {}

                @Override
                public String getBootstrapServers() {
                    return "localhost:9092";
                }
            }.withTopic("orders", 3);
        }
    }

    @Autowired private KafkaConnectionDetails details;

    @Test
    void theConnectionHasTheAddressOfTheContainer() {
        assertEquals(List.of("localhost:9092"), details.getBootstrapServers());
        assertEquals(List.of("localhost:9092"), details.getProducer().getBootstrapServers());
    }
}
