package kafka.server;

import org.apache.kafka.common.test.KafkaliteProcess;
import org.apache.kafka.metadata.BrokerState;

/** A node of kafkalite, with the methods of Kafka's broker that its integration tests call. */
public final class BrokerServer {
    private final KafkaliteProcess process;
    private final int id;
    private volatile BrokerState state = BrokerState.NOT_RUNNING;

    public BrokerServer(KafkaliteProcess process, int id) {
        this.process = process;
        this.id = id;
    }

    /** Start the node after {@link #shutdown}. */
    public void startup() {
        process.changeNode(id, "{\"state\": \"running\"}");
        state = BrokerState.RUNNING;
    }

    /** Stop the node as SIGTERM stops Kafka's broker. */
    public void shutdown() {
        process.changeNode(id, "{\"state\": \"stopped\", \"controlled\": true}");
        state = BrokerState.NOT_RUNNING;
    }

    /** Return at once: {@link #shutdown} returns when the node is stopped. */
    public void awaitShutdown() {
    }

    public BrokerState brokerState() {
        return state;
    }

    /** The process of all nodes has started this one. */
    public void started() {
        state = BrokerState.RUNNING;
    }
}
