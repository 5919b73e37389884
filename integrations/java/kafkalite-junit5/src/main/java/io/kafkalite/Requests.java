package io.kafkalite;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/**
 * The requests of clients with their answers. The log begins with the first call, or with the
 * option {@code --request-log}.
 */
public final class Requests {
    private final ControlClient control;

    Requests(ControlClient control) {
        this.control = control;
    }

    /** A request and its answer; the fields have Kafka's names. */
    public record RecordedRequest(
            Long number,
            String api,
            int version,
            Long latencyMs,
            int node,
            String clientId,
            String software,
            List<String> errors,
            JsonNode request,
            JsonNode response) {}

    /** The selected requests. */
    record RequestList(long lastNumber, List<RecordedRequest> requests) {}

    /** Whether requests met an expectation. */
    record Expectation(boolean met, String text, List<RecordedRequest> requests) {}

    /** The number of requests that were removed. */
    record ClearedRequests(int removed) {}

    /** Begins to log, if requests are not logged yet. */
    public void start() {
        list(RequestConditions.any());
    }

    /** Returns the latest 100 requests that meet the conditions. */
    public List<RecordedRequest> list(RequestConditions conditions) {
        return select(conditions.conditions());
    }

    /** Returns a request that meets the conditions; AssertionError after the time limit. */
    public RecordedRequest await(RequestConditions conditions, Duration limit) {
        List<RecordedRequest> found =
                select(FaultRule.with(conditions.conditions(), "wait_ms", limit.toMillis()));
        if (found.isEmpty()) {
            throw new AssertionError("no request within " + limit + ": " + conditions);
        }
        return found.get(0);
    }

    /** Returns requests that meet the conditions; AssertionError with the nearest ones if not. */
    public List<RecordedRequest> expect(RequestConditions conditions) {
        Expectation result =
                control.send(
                        Route.EXPECT_REQUESTS,
                        "",
                        Map.of(),
                        conditions.conditions(),
                        Expectation.class);
        if (!result.met()) {
            throw new AssertionError(result.text());
        }
        return result.requests();
    }

    /** Removes all requests from the log. */
    public void clear() {
        control.send(Route.CLEAR_REQUESTS, "", ClearedRequests.class);
    }

    private List<RecordedRequest> select(Map<String, Object> parameters) {
        return control.send(Route.REQUESTS, "", parameters, null, RequestList.class).requests();
    }
}
