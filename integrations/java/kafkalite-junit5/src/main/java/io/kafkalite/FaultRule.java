package io.kafkalite;

import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;

/**
 * A fault to add: which requests it selects, for which of them it fires, and what it does.
 *
 * <p>The methods return a changed copy: {@code FaultRule.on("Produce").topic("orders").times(1)
 * .error("NOT_ENOUGH_REPLICAS")}.
 */
public record FaultRule(
        Map<String, Object> match, Map<String, Object> trigger, Map<String, Object> action) {

    /** Returns a fault for an API, such as Produce; it needs an effect. */
    public static FaultRule on(String api) {
        return new FaultRule(Map.of("api", api), Map.of(), Map.of());
    }

    /** Returns a fault for the requests of all APIs; it needs an effect. */
    public static FaultRule onAny() {
        return new FaultRule(Map.of(), Map.of(), Map.of());
    }

    public FaultRule clientId(String clientId) {
        return matching("client_id", clientId);
    }

    public FaultRule group(String group) {
        return matching("group", group);
    }

    public FaultRule topic(String topic) {
        return matching("topic", topic);
    }

    public FaultRule partition(int partition) {
        return matching("partition", partition);
    }

    public FaultRule transactionalId(String transactionalId) {
        return matching("transactional_id", transactionalId);
    }

    public FaultRule node(int id) {
        return matching("node", id);
    }

    /** Fires at most this many times. */
    public FaultRule times(int times) {
        return triggered("times", times);
    }

    /** Skips the first requests. */
    public FaultRule after(int requests) {
        return triggered("after", requests);
    }

    /** Fires for every n-th request. */
    public FaultRule every(int n) {
        return triggered("every", n);
    }

    /** Fires for the n-th request only. */
    public FaultRule nth(int n) {
        return triggered("nth", n);
    }

    /** Fires with this probability. */
    public FaultRule probability(double probability) {
        return triggered("probability", probability);
    }

    /** Answers with this error of Kafka. */
    public FaultRule error(String name) {
        return acting("error", name);
    }

    /** Waits first, by the broker's clock. */
    public FaultRule delay(Duration delay) {
        return acting("delay_ms", delay.toMillis());
    }

    /** Closes the connection before the request is handled. */
    public FaultRule disconnectBefore() {
        return acting("disconnect", "before");
    }

    /** Closes the connection after the request is handled, so that the response is lost. */
    public FaultRule disconnectAfter() {
        return acting("disconnect", "after");
    }

    private FaultRule matching(String field, Object value) {
        return new FaultRule(with(match, field, value), trigger, action);
    }

    private FaultRule triggered(String field, Object value) {
        return new FaultRule(match, with(trigger, field, value), action);
    }

    private FaultRule acting(String field, Object value) {
        return new FaultRule(match, trigger, with(action, field, value));
    }

    static Map<String, Object> with(Map<String, Object> values, String field, Object value) {
        Map<String, Object> changed = new TreeMap<>(values);
        changed.put(field, value);
        return changed;
    }
}
