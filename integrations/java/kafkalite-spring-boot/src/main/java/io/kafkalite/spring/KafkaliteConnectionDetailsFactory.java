package io.kafkalite.spring;

import io.kafkalite.KafkaliteContainer;
import java.util.List;
import org.springframework.boot.kafka.autoconfigure.KafkaConnectionDetails;
import org.springframework.boot.ssl.SslBundle;
import org.springframework.boot.testcontainers.service.connection.ContainerConnectionDetailsFactory;
import org.springframework.boot.testcontainers.service.connection.ContainerConnectionSource;

/** Connects the application to a {@link KafkaliteContainer} with {@code @ServiceConnection}. */
class KafkaliteConnectionDetailsFactory
        extends ContainerConnectionDetailsFactory<KafkaliteContainer, KafkaConnectionDetails> {

    @Override
    protected KafkaConnectionDetails getContainerConnectionDetails(
            ContainerConnectionSource<KafkaliteContainer> source) {
        return new Details(source);
    }

    private static final class Details extends ContainerConnectionDetails<KafkaliteContainer>
            implements KafkaConnectionDetails {

        Details(ContainerConnectionSource<KafkaliteContainer> source) {
            super(source);
        }

        @Override
        public List<String> getBootstrapServers() {
            return List.of(getContainer().getBootstrapServers());
        }

        @Override
        public SslBundle getSslBundle() {
            return super.getSslBundle();
        }
    }
}
