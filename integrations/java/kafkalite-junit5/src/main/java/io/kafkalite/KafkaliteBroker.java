package io.kafkalite;

import java.io.BufferedReader;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A broker in a process or container of its own, which ends when it is closed.
 *
 * <p>The options are those of {@code kafkalite serve}, such as {@code "--topic", "orders:3"}. The
 * command is that of the system property {@code kafkalite.command}, by default {@code kafkalite}.
 * With the property {@code kafkalite.image}, the broker runs in a container of that image.
 */
public final class KafkaliteBroker implements AutoCloseable {
    private static final String READY = "kafkalite is ready at ";
    private static final String CONTROL = "  control at ";
    private static final long STOP_SECONDS = 10;

    private final Process process;
    private final Thread stopAtExit;
    private final String bootstrapServers;
    private final ControlClient control;

    private KafkaliteBroker(Process process, String bootstrapServers, ControlClient control) {
        this.process = process;
        this.bootstrapServers = bootstrapServers;
        this.control = control;
        this.stopAtExit = process == null ? null : new Thread(process::destroy);
        if (stopAtExit != null) {
            Runtime.getRuntime().addShutdownHook(stopAtExit);
        }
    }

    /** Starts a broker with options of {@code kafkalite serve}, and waits until it serves. */
    public static KafkaliteBroker start(String... options) {
        String image = System.getProperty("kafkalite.image", "");
        if (!image.isEmpty()) {
            return startImage(image, options);
        }
        String command = System.getProperty("kafkalite.command", "kafkalite");
        return startCommand(List.of(command.split(" ")), options);
    }

    /** Starts a broker by a command, such as {@code python3 -m kafkalite}. */
    public static KafkaliteBroker startCommand(List<String> command, String... options) {
        return start(Launch.process(command, List.of(options)));
    }

    /** Starts a broker in a container; the system property {@code kafkalite.docker} names docker. */
    public static KafkaliteBroker startImage(String image, String... options) {
        String docker = System.getProperty("kafkalite.docker", "docker");
        return start(Launch.container(docker, image, List.of(options)));
    }

    /** Returns clients of a broker that runs already; closing them does not stop it. */
    public static KafkaliteBroker connect(String bootstrapServers, String controlUrl, String token) {
        return new KafkaliteBroker(null, bootstrapServers, new ControlClient(controlUrl, token));
    }

    private static KafkaliteBroker start(Launch launch) {
        try {
            Process process = new ProcessBuilder(launch.command()).redirectErrorStream(true).start();
            process.getOutputStream().close();
            try {
                return started(process, launch);
            } catch (IOException | RuntimeException error) {
                process.destroyForcibly();
                throw error;
            }
        } catch (IOException error) {
            throw new IllegalStateException(
                    error.getMessage()
                            + "; install kafkalite, or set the system property kafkalite.command"
                            + " or kafkalite.image",
                    error);
        }
    }

    private static KafkaliteBroker started(Process process, Launch launch) throws IOException {
        BufferedReader output = process.inputReader();
        List<String> printed = new ArrayList<>();
        String servers = null;
        for (String line; (line = output.readLine()) != null; ) {
            printed.add(line);
            if (line.startsWith(READY)) {
                servers = line.substring(READY.length());
            } else if (line.startsWith(CONTROL)) {
                String words = line.substring(CONTROL.length());
                String url = launch.controlUrl() == null ? words.split("[ ,]")[0] : launch.controlUrl();
                Thread reader = new Thread(() -> output.lines().forEach(each -> {}), "kafkalite");
                reader.setDaemon(true); // a process stops when the pipe of its output is full
                reader.start();
                return new KafkaliteBroker(process, servers, new ControlClient(url, launch.token()));
            }
        }
        throw new IllegalStateException(
                "the broker did not start: " + String.join("\n", printed));
    }

    /** Returns the addresses for {@code bootstrap.servers}. */
    public String bootstrapServers() {
        return bootstrapServers;
    }

    /** Returns the address of the control API. */
    public String controlUrl() {
        return control.url();
    }

    public Clock clock() {
        return new Clock(control);
    }

    public Faults faults() {
        return new Faults(control);
    }

    public Requests requests() {
        return new Requests(control);
    }

    public Groups groups() {
        return new Groups(control);
    }

    public Topics topics() {
        return new Topics(control);
    }

    public Transactions transactions() {
        return new Transactions(control);
    }

    public Nodes nodes() {
        return new Nodes(control);
    }

    public Explain explain() {
        return new Explain(control);
    }

    /** Sets quotas of a client id, such as {@code producer_byte_rate}. */
    public void setQuotas(String clientId, Map<String, Double> quotas) {
        Map<String, Object> body = Map.of("client_id", clientId, "quotas", quotas);
        control.send(Route.SET_QUOTAS, "", Map.of(), body, QuotasOfEntity.class);
    }

    /** Resets the broker to the state after its start, while clients stay connected. */
    public void reset() {
        control.send(Route.RESET, "", Map.of(), Map.of(), ResetAnswer.class);
    }

    /** Returns what the broker saw, for people: requests, the history with reasons, and hints. */
    public String report() {
        Report report = control.send(Route.REPORT, "", Report.class);
        return Stream.of(report.requests(), report.history(), report.hints())
                .flatMap(List::stream)
                .collect(Collectors.joining("\n"));
    }

    /** What a broker saw, as lines. */
    record Report(List<String> requests, List<String> history, List<String> hints) {}

    /** Quotas that were set. */
    record QuotasOfEntity(Map<String, Double> quotas) {}

    /** What a reset has deleted. */
    record ResetAnswer(List<String> deletedTopics, List<String> deletedGroups) {}

    /** Stops the broker, and deletes its data unless {@code --data-dir} was given. */
    @Override
    public void close() {
        if (process == null) {
            return;
        }
        process.destroy();
        try {
            if (!process.waitFor(STOP_SECONDS, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException error) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
        try {
            Runtime.getRuntime().removeShutdownHook(stopAtExit);
        } catch (IllegalStateException ending) {
            return; // the virtual machine ends, and its hooks run
        }
    }
}
