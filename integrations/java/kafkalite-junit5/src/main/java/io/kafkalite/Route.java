package io.kafkalite;

import java.util.Set;

/** The requests of the control API that this library sends, with their query parameters. */
enum Route {
    HEALTH("GET", "/v1/health"),
    CLOCK("GET", "/v1/clock"),
    CHANGE_CLOCK("POST", "/v1/clock"),
    FAULTS("GET", "/v1/faults"),
    ADD_FAULT("POST", "/v1/faults"),
    CLEAR_FAULTS("DELETE", "/v1/faults"),
    REMOVE_FAULT("DELETE", "/v1/faults/{fault_id}"),
    TOPICS("GET", "/v1/topics"),
    CREATE_TOPIC("POST", "/v1/topics"),
    TOPIC("GET", "/v1/topics/{topic}"),
    DELETE_TOPIC("DELETE", "/v1/topics/{topic}"),
    RECORDS("GET", "/v1/topics/{topic}/records", "isolation", "limit", "count", "wait_ms"),
    PRODUCE("POST", "/v1/topics/{topic}/records"),
    GROUPS("GET", "/v1/groups"),
    GROUP("GET", "/v1/groups/{group}", "state", "members", "wait_ms"),
    DELETE_GROUP("DELETE", "/v1/groups/{group}"),
    TRANSACTIONS("GET", "/v1/transactions"),
    NODES("GET", "/v1/nodes"),
    CHANGE_NODE("POST", "/v1/nodes/{node_id}"),
    EXPLAIN("GET", "/v1/explain", "group", "transactional_id", "topic", "client", "limit"),
    REQUESTS(
            "GET",
            "/v1/requests",
            "api",
            "client_id",
            "group",
            "topic",
            "transactional_id",
            "error",
            "node",
            "since",
            "wait_ms",
            "limit"),
    SET_QUOTAS("POST", "/v1/quotas"),
    RESET("POST", "/v1/reset"),
    REPORT("GET", "/v1/report"),
    CLEAR_REQUESTS("DELETE", "/v1/requests"),
    EXPECT_REQUESTS("POST", "/v1/requests/expect");

    final String method;
    final String path;
    final Set<String> parameters;

    Route(String method, String path, String... parameters) {
        this.method = method;
        this.path = path;
        this.parameters = Set.of(parameters);
    }
}
