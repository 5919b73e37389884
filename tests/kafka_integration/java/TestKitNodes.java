package org.apache.kafka.common.test;

import java.util.Map;

/** The nodes of a cluster and the settings of single nodes, by index. */
public final class TestKitNodes {
    private final int brokers;
    private final Map<Integer, Map<String, String>> properties;

    private TestKitNodes(int brokers, Map<Integer, Map<String, String>> properties) {
        this.brokers = brokers;
        this.properties = properties;
    }

    int brokers() {
        return brokers;
    }

    Map<Integer, Map<String, String>> properties() {
        return properties;
    }

    /** The methods of Kafka's builder that its integration tests call. */
    public static final class Builder {
        private int brokers = 1;
        private Map<Integer, Map<String, String>> properties = Map.of();

        /** Each node of kafkalite is a broker; one of them is the controller, too. */
        public Builder setCombined(boolean combined) {
            return this;
        }

        /** kafkalite has one active controller for any number of voters. */
        public Builder setNumControllerNodes(int controllers) {
            return this;
        }

        public Builder setNumBrokerNodes(int brokers) {
            this.brokers = brokers;
            return this;
        }

        public Builder setPerServerProperties(Map<Integer, Map<String, String>> properties) {
            this.properties = properties;
            return this;
        }

        public TestKitNodes build() {
            return new TestKitNodes(brokers, properties);
        }
    }
}
