package io.kafkalite.spring;

import io.kafkalite.KafkaliteBroker;
import java.util.List;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.kafka.autoconfigure.KafkaAutoConfiguration;
import org.springframework.boot.kafka.autoconfigure.KafkaConnectionDetails;
import org.springframework.context.annotation.Bean;

/** Connects the application to the {@link KafkaliteBroker} that is a bean of its tests. */
@AutoConfiguration(before = KafkaAutoConfiguration.class)
public class KafkaliteAutoConfiguration {
    /** Returns the address of the broker, in place of {@code spring.kafka.bootstrap-servers}. */
    @Bean
    @ConditionalOnBean(KafkaliteBroker.class)
    @ConditionalOnMissingBean(KafkaConnectionDetails.class)
    KafkaConnectionDetails kafkaliteConnectionDetails(KafkaliteBroker broker) {
        return () -> List.of(broker.bootstrapServers().split(","));
    }
}
