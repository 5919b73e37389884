package io.kafkalite;

import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;

/**
 * Conditions for logged requests, and how many of them are expected.
 *
 * <p>The methods return a changed copy: {@code RequestConditions.of("Produce").topic("orders")
 * .field("acks", -1).times(3)}.
 */
public record RequestConditions(Map<String, Object> conditions) {

    /** Returns the condition that requests are of an API, such as OffsetCommit. */
    public static RequestConditions of(String api) {
        return new RequestConditions(Map.of("api", api));
    }

    /** Returns conditions that all requests meet. */
    public static RequestConditions any() {
        return new RequestConditions(Map.of());
    }

    public RequestConditions clientId(String clientId) {
        return with("client_id", clientId);
    }

    public RequestConditions group(String group) {
        return with("group", group);
    }

    public RequestConditions topic(String topic) {
        return with("topic", topic);
    }

    public RequestConditions transactionalId(String transactionalId) {
        return with("transactional_id", transactionalId);
    }

    /** The answer has this error, such as NOT_COORDINATOR. */
    public RequestConditions error(String error) {
        return with("error", error);
    }

    public RequestConditions node(int id) {
        return with("node", id);
    }

    /** Only requests after the one with this number. */
    public RequestConditions since(long number) {
        return with("since", number);
    }

    /** A field of the request has this value; the names are Kafka's, such as {@code acks}. */
    public RequestConditions field(String name, Object value) {
        Map<String, Object> fields = new TreeMap<>();
        if (conditions.get("fields") instanceof Map<?, ?> earlier) {
            earlier.forEach((field, expected) -> fields.put(field.toString(), expected));
        }
        fields.put(name, value);
        return with("fields", fields);
    }

    /** Exactly this many requests are expected. */
    public RequestConditions times(int times) {
        return with("times", times);
    }

    /** This many requests are expected, or more. */
    public RequestConditions atLeast(int times) {
        return with("at_least", times);
    }

    /** No request is expected. */
    public RequestConditions never() {
        return with("never", true);
    }

    /** The time limit, in real time. */
    public RequestConditions within(Duration limit) {
        return with("within_ms", limit.toMillis());
    }

    private RequestConditions with(String field, Object value) {
        return new RequestConditions(FaultRule.with(conditions, field, value));
    }
}
