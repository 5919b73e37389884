package org.apache.kafka.common.test;

/** Faults inside of Kafka's broker, of which kafkalite reports none here. */
public final class MockFaultHandler {
    /** Accept the choice of the tests: an error inside of kafkalite is in its log. */
    public void setIgnore(boolean ignore) {
    }
}
