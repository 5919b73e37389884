package org.apache.kafka.common.test;

import java.io.IOException;
import java.util.Collections;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;

import kafka.server.BrokerServer;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;

/** A cluster of kafkalite, with the methods of Kafka's test kit that its integration tests call. */
public final class KafkaClusterTestKit implements AutoCloseable {
    private final KafkaliteProcess process;
    private final KafkaliteServers servers;
    private final Map<Integer, BrokerServer> brokers = new TreeMap<>();
    private final MockFaultHandler faultHandler = new MockFaultHandler();

    private KafkaClusterTestKit(TestKitNodes nodes, Properties properties) {
        process = new KafkaliteProcess(nodes, properties);
        servers = new KafkaliteServers(process, () -> Admin.create(
            Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrapServers())));
        for (int id = 0; id < nodes.brokers(); id++) {
            brokers.put(id, servers.broker(id));
        }
    }

    /** Do nothing: a new data directory is formatted at the start. */
    public void format() {
    }

    /** Start all nodes, and return when clients can connect. */
    public void startup() throws IOException, InterruptedException {
        process.start();
    }

    /** Return at once: {@link #startup} returns when the nodes are ready. */
    public void waitForReadyBrokers() {
    }

    public String bootstrapServers() {
        return process.bootstrapServers();
    }

    public Map<Integer, BrokerServer> brokers() {
        return Collections.unmodifiableMap(brokers);
    }

    public MockFaultHandler nonFatalFaultHandler() {
        return faultHandler;
    }

    @Override
    public void close() throws InterruptedException {
        servers.close();
        process.stop();
    }

    /** The methods of Kafka's builder that its integration tests call. */
    public static final class Builder {
        private final TestKitNodes nodes;
        private final Properties properties = new Properties();

        public Builder(TestKitNodes nodes) {
            this.nodes = nodes;
        }

        public Builder setConfigProp(String key, Object value) {
            properties.setProperty(key, value.toString());
            return this;
        }

        public KafkaClusterTestKit build() {
            return new KafkaClusterTestKit(nodes, properties);
        }
    }
}
