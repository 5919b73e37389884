package io.kafkalite;

import java.util.List;
import java.util.Map;

/** The history of groups, transactional ids, topics and clients, with reasons. */
public final class Explain {
    private final ControlClient control;

    Explain(ControlClient control) {
        this.control = control;
    }

    /** An event and its reason; {@code times} counts events with the same text. */
    public record HistoryEntry(String kind, String text, int times, String atIso) {
        @Override
        public String toString() {
            return atIso + " " + kind + ": " + text + (times > 1 ? " (" + times + " times)" : "");
        }
    }

    /** The latest entries, oldest first. */
    record Explanation(List<HistoryEntry> entries) {}

    /** Returns the latest entries of a group, oldest first. */
    public List<HistoryEntry> group(String id) {
        return entries("group", id);
    }

    /** Returns the latest entries of a transactional id, oldest first. */
    public List<HistoryEntry> transactionalId(String id) {
        return entries("transactional_id", id);
    }

    /** Returns the latest entries of a topic, oldest first. */
    public List<HistoryEntry> topic(String name) {
        return entries("topic", name);
    }

    /** Returns the latest entries of all clients at an address, oldest first. */
    public List<HistoryEntry> client(String address) {
        return entries("client", address);
    }

    /** Returns the latest entries, oldest first. */
    public List<HistoryEntry> all() {
        return entries("limit", 1000);
    }

    private List<HistoryEntry> entries(String parameter, Object value) {
        Map<String, Object> parameters = Map.of(parameter, value);
        return control.send(Route.EXPLAIN, "", parameters, null, Explanation.class).entries();
    }
}
