package io.kafkalite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.PropertyNamingStrategies.SnakeCaseStrategy;
import java.io.IOException;
import java.lang.reflect.RecordComponent;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Every path, parameter and field of this library is in the OpenAPI document of the broker. */
class OpenApiTest {
    private static JsonNode document;

    @BeforeAll
    static void readDocument() throws IOException {
        Path root = Path.of("").toAbsolutePath().getParent().getParent().getParent();
        Path file = root.resolve("docs/reference/openapi.json");
        document = ControlClient.JSON.readTree(file.toFile());
    }

    @ParameterizedTest
    @EnumSource
    void routeIsInTheDocument(Route route) {
        JsonNode operation = document.path("paths").path(route.path).path(lower(route.method));
        assertFalse(operation.isMissingNode());
        Set<String> parameters = new HashSet<>();
        for (JsonNode parameter : operation.path("parameters")) {
            if (parameter.path("in").asText().equals("query")) {
                parameters.add(parameter.path("name").asText());
            }
        }
        assertTrue(parameters.containsAll(route.parameters), parameters::toString);
    }

    static Stream<Class<?>> answers() {
        return Stream.of(
                        Clock.class,
                        Faults.class,
                        Topics.class,
                        Groups.class,
                        Transactions.class,
                        Nodes.class,
                        Explain.class,
                        Requests.class,
                        KafkaliteBroker.class)
                .flatMap(type -> Arrays.stream(type.getDeclaredClasses()))
                .filter(type -> type.isRecord() && !type.getSimpleName().equals("ProduceRecords"));
    }

    @ParameterizedTest
    @MethodSource("answers")
    void answerHasTheFieldsOfTheSchemaOfItsName(Class<?> answer) {
        assertFields(document.path("components").path("schemas").path(answer.getSimpleName()),
                Arrays.stream(answer.getRecordComponents()).map(RecordComponent::getName).toList());
    }

    @Test
    void writtenRecordsHaveTheFieldsOfTheBody() {
        assertFields(bodyOf(Route.PRODUCE), List.of("records", "partition"));
    }

    @Test
    void faultHasTheFieldsOfTheBody() {
        FaultRule rule =
                FaultRule.on("a").clientId("a").group("a").topic("a").partition(0)
                        .transactionalId("a").node(1)
                        .times(1).after(1).every(1).nth(1).probability(1)
                        .error("a").delay(Duration.ZERO).disconnectAfter();
        JsonNode schemas = document.path("components").path("schemas");
        assertFields(bodyOf(Route.ADD_FAULT), List.of("match", "trigger", "action"));
        assertFields(schemas.path("Match"), rule.match().keySet());
        assertFields(schemas.path("Trigger"), rule.trigger().keySet());
        assertFields(schemas.path("Action"), rule.action().keySet());
        assertEquals(15, rule.match().size() + rule.trigger().size() + rule.action().size());
    }

    @Test
    void conditionsForRequestsHaveTheFieldsOfTheBody() {
        Map<String, Object> conditions =
                RequestConditions.of("a").clientId("a").group("a").topic("a").transactionalId("a")
                        .error("a").node(1).since(1).field("a", 1)
                        .times(1).atLeast(1).never().within(Duration.ZERO)
                        .conditions();
        assertFields(bodyOf(Route.EXPECT_REQUESTS), conditions.keySet());
        assertEquals(13, conditions.size());
    }

    @Test
    void changesHaveTheFieldsOfTheBody() {
        assertFields(bodyOf(Route.CHANGE_CLOCK), List.of("advance_ms", "now_ms", "mode"));
        assertFields(bodyOf(Route.SET_QUOTAS), List.of("client_id", "quotas"));
        assertFields(bodyOf(Route.CHANGE_NODE), List.of("state"));
        assertFields(bodyOf(Route.CREATE_TOPIC), List.of("name", "partitions", "config"));
    }

    private static JsonNode bodyOf(Route route) {
        JsonNode operation = document.path("paths").path(route.path).path(lower(route.method));
        return operation.at("/requestBody/content/application~1json/schema");
    }

    private static void assertFields(JsonNode schema, Iterable<String> names) {
        SnakeCaseStrategy naming = new SnakeCaseStrategy();
        for (String name : names) {
            String field = naming.translate(name);
            assertTrue(schema.path("properties").has(field), field + " in " + schema);
        }
    }

    private static String lower(String method) {
        return method.toLowerCase(Locale.ROOT);
    }
}
