package io.kafkalite;

import java.util.List;
import java.util.Map;

/** The nodes of the cluster. */
public final class Nodes {
    private final ControlClient control;

    Nodes(ControlClient control) {
        this.control = control;
    }

    /** A node: {@code running}, {@code isolated} or {@code stopped}. */
    public record NodeStatus(int id, String state, String rack) {}

    /** All nodes. */
    record NodeList(List<NodeStatus> nodes) {}

    /** Returns all nodes. */
    public List<NodeStatus> list() {
        return control.send(Route.NODES, "", NodeList.class).nodes();
    }

    /** Stops a node as if its process was killed. */
    public void stop(int id) {
        change(id, "stopped");
    }

    /** Starts a node, or connects it to the other nodes. */
    public void start(int id) {
        change(id, "running");
    }

    /** Cuts a node off from the other nodes; clients still reach it. */
    public void isolate(int id) {
        change(id, "isolated");
    }

    private void change(int id, String state) {
        Map<String, String> body = Map.of("state", state);
        control.send(Route.CHANGE_NODE, String.valueOf(id), Map.of(), body, NodeStatus.class);
    }
}
