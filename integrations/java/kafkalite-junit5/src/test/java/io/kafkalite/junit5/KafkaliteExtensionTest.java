package io.kafkalite.junit5;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import io.kafkalite.Clock;
import io.kafkalite.ControlException;
import io.kafkalite.FaultRule;
import io.kafkalite.KafkaliteBroker;
import io.kafkalite.RequestConditions;
import io.kafkalite.Topics;
import io.kafkalite.Topics.NewRecordFields;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.testkit.engine.EngineExecutionResults;
import org.junit.platform.testkit.engine.EngineTestKit;

@Kafkalite(topics = "orders:2", clock = "manual@2026-03-01", perClass = true)
class KafkaliteExtensionTest {
    private KafkaliteBroker broker;

    KafkaliteExtensionTest(KafkaliteBroker broker) {
        this.broker = broker;
    }

    @Test
    void fieldsAndParametersHaveTheBrokerOfTheClass(
            KafkaliteBroker parameter, @BootstrapServers String servers) {
        assertSame(broker, parameter);
        assertEquals(broker.bootstrapServers(), servers);
    }

    @Test
    @Kafkalite(brokers = 2, config = "num.partitions=3", asVersion = "3.9")
    void methodHasABrokerWithItsOwnSettings(KafkaliteBroker own, Topics topics) {
        assertEquals(own.controlUrl(), broker.controlUrl()); // the field has the broker of the test
        assertEquals(2, own.nodes().list().size());
        assertEquals(List.of(), topics.list());
    }

    @Nested
    class Inner {
        private Clock clock;

        @Test
        void nestedTestHasTheBrokerOfTheOuterClass() {
            assertEquals(Instant.parse("2026-03-01T00:00:00Z"), clock.now());
        }
    }

    @Test
    void recordsAreWrittenAndRead(Topics topics) {
        topics.create("keyed", 3, Map.of("cleanup.policy", "compact"));
        topics.produce("keyed", List.of(new NewRecordFields("a", "1", null)));
        assertEquals("1", topics.awaitRecords("keyed", 1, Duration.ofSeconds(5)).get(0).value());
        assertEquals("a", new String(topics.records("keyed").get(0).keyBytes(), StandardCharsets.UTF_8));
        assertEquals("compact", topics.get("keyed").config().get("cleanup.policy"));
        assertThrows(
                AssertionError.class, () -> topics.awaitRecords("keyed", 2, Duration.ofMillis(1)));
        topics.delete("keyed");
    }

    @Test
    @Kafkalite(topics = "orders:1")
    void resetRestoresTheStateAfterTheStart(KafkaliteBroker own, Topics topics) {
        topics.produce("orders", "two apples");
        topics.create("other", 1, Map.of());
        own.reset();
        assertEquals(List.of("orders"), topics.list().stream().map(Topics.ListedTopic::name).toList());
        assertEquals(List.of(), topics.records("orders"));
    }

    @Test
    void refusalOfTheBrokerIsAnException() {
        ControlException unknown =
                assertThrows(ControlException.class, () -> broker.topics().get("order"));
        assertEquals(404, unknown.status());
        assertTrue(unknown.getMessage().contains("orders"), unknown.getMessage());
        assertThrows(ControlException.class, () -> broker.faults().add(FaultRule.on("Produce")));
    }

    @Test
    void expectationThatIsNotMetIsAnAssertionError() {
        broker.requests().start();
        RequestConditions produce = RequestConditions.of("Produce");
        broker.requests().expect(produce.never());
        AssertionError error =
                assertThrows(
                        AssertionError.class,
                        () -> broker.requests().expect(produce.within(Duration.ZERO)));
        assertTrue(error.getMessage().startsWith("expected at least 1 Produce request"));
        assertThrows(
                IllegalArgumentException.class, () -> broker.requests().list(produce.times(1)));
    }

    /** The program in place of docker runs the command of the container on this machine. */
    @Test
    void imageIsStartedWithItsPortsOnTheHost(@TempDir Path directory) throws IOException {
        Path docker = directory.resolve("docker");
        String command = System.getProperty("kafkalite.command", "kafkalite");
        String script = "#!/bin/sh\nwhile [ \"$1\" != image ]; do shift; done; shift\nexec %s \"$@\"\n";
        Files.writeString(docker, script.formatted(command));
        assertTrue(docker.toFile().setExecutable(true));
        System.setProperty("kafkalite.docker", docker.toString());
        try (KafkaliteBroker own = KafkaliteBroker.startImage("image", "--brokers", "2")) {
            assertEquals(2, own.nodes().list().size());
            String[] servers = own.bootstrapServers().split(",");
            int port = Integer.parseInt(servers[0].split(":")[1]);
            assertEquals(List.of("localhost:" + port, "localhost:" + (port + 1)), List.of(servers));
            assertEquals("http://127.0.0.1:" + (port + 2), own.controlUrl());
        } finally {
            System.clearProperty("kafkalite.docker");
        }
    }

    /** Tests that {@link KafkaliteExtensionTest} runs. */
    @Tag("inner")
    @Kafkalite
    static class EachTest {
        static final List<String> CONTROL_URLS = new ArrayList<>();

        @Test
        void passes(KafkaliteBroker broker) {
            CONTROL_URLS.add(broker.controlUrl());
        }

        @Test
        void fails(KafkaliteBroker broker) {
            CONTROL_URLS.add(broker.controlUrl());
            broker.topics().create("orders", 1, Map.of());
            broker.topics().produce("orders", "two apples");
            assertEquals(1, 2);
        }
    }

    @Tag("inner")
    @Kafkalite
    static class NeedsPerClassTest {
        NeedsPerClassTest(KafkaliteBroker broker) {}

        @Test
        void passes() {}
    }

    @Tag("inner")
    @Kafkalite(options = "--no-such-option")
    static class InvalidTest {
        @Test
        void passes() {}
    }

    @Tag("inner")
    @Kafkalite(command = "kafkalite-is-not-installed")
    static class NoCommandTest {
        @Test
        void passes() {}
    }

    @Test
    void testsHaveBrokersOfTheirOwnAndAFailurePrintsWhatTheBrokerSaw() {
        PrintStream before = System.err;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setErr(new PrintStream(printed, true, StandardCharsets.UTF_8));
        try {
            results(EachTest.class)
                    .testEvents()
                    .assertStatistics(events -> events.succeeded(1).failed(1));
        } finally {
            System.setErr(before);
        }
        String text = printed.toString(StandardCharsets.UTF_8);
        assertTrue(text.contains("What the broker saw in fails("), text);
        assertTrue(!text.contains("passes("), text);
        assertNotEquals(EachTest.CONTROL_URLS.get(0), EachTest.CONTROL_URLS.get(1));
    }

    @Test
    void constructorWithoutABrokerOfTheClassIsRefused() {
        assertTrue(failure(NeedsPerClassTest.class).contains("perClass = true"));
    }

    @Test
    void outputOfABrokerThatDoesNotStartIsInTheError() {
        assertTrue(failure(InvalidTest.class).contains("--no-such-option"));
    }

    @Test
    void missingCommandIsNamedWithWhatToInstall() {
        assertTrue(failure(NoCommandTest.class).contains("kafkalite-is-not-installed"));
        assertTrue(failure(NoCommandTest.class).contains("install kafkalite"));
    }

    private static String failure(Class<?> test) {
        return results(test).testEvents().failed().stream()
                .map(event -> event.getRequiredPayload(
                        TestExecutionResult.class))
                .map(result -> result.getThrowable().orElseThrow().getMessage())
                .findFirst()
                .orElseThrow();
    }

    private static EngineExecutionResults results(Class<?> test) {
        return EngineTestKit.engine("junit-jupiter").selectors(selectClass(test)).execute();
    }
}
