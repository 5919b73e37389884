package org.apache.kafka.common.test;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

import kafka.server.KafkaConfig;

/**
 * The command {@code kafkalite serve} with all nodes of a cluster.
 *
 * <p>The system property {@code kafkalite.python} is the interpreter, and
 * {@code kafkalite.directory} the directory of the data and logs.
 */
final class KafkaliteProcess {
    private static final Pattern READY = Pattern.compile("kafkalite is ready at (\\S+)");
    private static final Pattern CONTROLLERS =
        Pattern.compile("listener CONTROLLER at (\\S+)");
    private static final Pattern CONTROL = Pattern.compile("control at (http://\\S+)");
    private static final long STOP_TIMEOUT_S = 20;
    // The listener of Kafka's test kit; tests name it in their settings.
    private static final String LISTENER = "EXTERNAL";

    private final int brokers;
    private final Map<Integer, Map<String, String>> brokerProperties;
    private final Properties properties;
    private final Map<String, Short> features;
    private final String listener;
    private final List<String> options;
    private final Set<Integer> stoppedNodes = new TreeSet<>();
    private Path directory;
    private Path log;
    private Process process;
    private String bootstrapServers;
    private String bootstrapControllers;
    private String control;

    KafkaliteProcess(TestKitNodes nodes, Properties properties) {
        this(nodes.brokers(), nodes.properties(), properties, Map.of(), LISTENER, List.of());
    }

    /**
     * Settings of all brokers and of single ones by id, and levels of features.
     *
     * <p>{@code options} are further options of the command.
     */
    KafkaliteProcess(
            int brokers, Map<Integer, Map<String, String>> brokerProperties, Properties properties,
            Map<String, Short> features, String listener, List<String> options) {
        this.brokers = brokers;
        this.brokerProperties = brokerProperties;
        this.properties = properties;
        this.features = features;
        if (properties.containsKey("metric.reporters")) {
            // Kafka offers to receive the metrics of clients if a reporter does so.
            properties.setProperty("kafkalite.client.telemetry", "true");
        }
        this.listener = listener;
        this.options = options;
    }

    /** Start the process, and return when clients can connect. */
    public void start() throws IOException, InterruptedException {
        Path parent = Path.of(System.getProperty("kafkalite.directory"));
        directory = Files.createTempDirectory(parent, "cluster-");
        log = directory.resolve("kafkalite.log");
        ProcessBuilder builder = new ProcessBuilder(command());
        builder.redirectError(log.toFile());
        process = builder.start();
        Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
        readAddresses();
    }

    private List<String> command() throws IOException {
        List<String> command = new ArrayList<>(List.of(
            System.getProperty("kafkalite.python"), "-m", "kafkalite", "serve",
            "--brokers", Integer.toString(brokers),
            "--listen", listener + "://localhost:0",
            "--control", "127.0.0.1:0", "--control-tls", "off",
            "--data-dir", directory.resolve("data").toString(),
            "--config", "node.id=0"));
        command.addAll(options);
        brokerProperties.forEach((id, settings) -> settings.forEach((key, value) ->
            command.addAll(List.of("--node-config", id + ":" + key + "=" + value))));
        Path file = directory.resolve("server.properties");
        try (Writer writer = Files.newBufferedWriter(file)) {
            properties.store(writer, null);
        }
        command.addAll(List.of("--properties", file.toString()));
        if (!features.isEmpty()) {
            Path state = directory.resolve("state.json");
            Files.writeString(state, features.entrySet().stream()
                .map(feature -> String.format("\"%s\": %d", feature.getKey(), feature.getValue()))
                .collect(Collectors.joining(", ", "{\"features\": {", "}}")));
            command.addAll(List.of("--state", state.toString()));
        }
        return command;
    }

    private void readAddresses() throws IOException, InterruptedException {
        BufferedReader output = new BufferedReader(
            new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        while (control == null) {
            String line = output.readLine();
            if (line == null) {
                process.waitFor();
                throw new IOException("kafkalite did not start: " + Files.readString(log));
            }
            Matcher ready = READY.matcher(line);
            if (ready.find()) {
                bootstrapServers = ready.group(1);
            }
            Matcher controllers = CONTROLLERS.matcher(line);
            if (controllers.find()) {
                bootstrapControllers = controllers.group(1);
            }
            Matcher address = CONTROL.matcher(line);
            if (address.find()) {
                control = address.group(1);
            }
        }
    }

    /** Return the addresses of the listener of all brokers, separated by commas. */
    public String bootstrapServers() {
        return bootstrapServers;
    }

    /** Return the address for clients of the active controller; null if there is none. */
    public String bootstrapControllers() {
        if (bootstrapControllers == null) {
            return null;
        }
        // Every node has such a listener, and the first one that runs is the controller.
        String[] addresses = bootstrapControllers.split(",");
        int id = 0;
        while (id < addresses.length - 1 && stoppedNodes.contains(id)) {
            id++;
        }
        return addresses[id];
    }

    /** Return the port of the listener of a broker, or of the controller with another id. */
    int port(int id) {
        String address = id < brokers ? bootstrapServers.split(",")[id] : bootstrapControllers();
        return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    }

    /** Return the settings of a node as Kafka would read them. */
    KafkaConfig config(int id) {
        boolean isBroker = id < brokers;
        Map<String, Object> values = new HashMap<>();
        properties.stringPropertyNames().forEach(key ->
            values.put(key, properties.getProperty(key)));
        values.put("process.roles", isBroker ? "broker" : "controller");
        values.put("node.id", Integer.toString(id));
        // A node with the role of a broker alone must not be one of the voters.
        values.remove("controller.quorum.voters");
        values.put("controller.quorum.bootstrap.servers", "localhost:1");
        values.put("controller.listener.names", "CONTROLLER");
        values.put("listeners", (isBroker ? listener : "CONTROLLER") + "://localhost:0");
        values.put("inter.broker.listener.name", listener);
        values.putIfAbsent("listener.security.protocol.map",
            listener + ":PLAINTEXT,CONTROLLER:PLAINTEXT");
        values.putIfAbsent("log.dirs", directory.resolve("data").toString());
        values.putAll(brokerProperties.getOrDefault(id, Map.of()));
        return new KafkaConfig(values, false);
    }

    void startNode(int id) {
        changeNode(id, "{\"state\": \"running\"}");
        stoppedNodes.remove(id);
    }

    /** Stop a node as SIGTERM stops Kafka's broker. */
    void stopNode(int id) {
        changeNode(id, "{\"state\": \"stopped\", \"controlled\": true}");
        stoppedNodes.add(id);
    }

    boolean isRunning(int id) {
        return process != null && process.isAlive() && !stoppedNodes.contains(id);
    }

    /** Change a node over the control API, and return when it has changed. */
    private void changeNode(int id, String change) {
        try {
            URL url = URI.create(control + "/v1/nodes/" + id).toURL();
            HttpURLConnection connection = (HttpURLConnection) url.openConnection();
            connection.setRequestMethod("POST");
            connection.setRequestProperty("Content-Type", "application/json");
            // Kafka's tests fail for a thread that waits for the next request of the connection.
            connection.setRequestProperty("Connection", "close");
            connection.setDoOutput(true);
            connection.getOutputStream().write(change.getBytes(StandardCharsets.UTF_8));
            if (connection.getResponseCode() != 200) {
                String answer = new String(
                    connection.getErrorStream().readAllBytes(), StandardCharsets.UTF_8);
                throw new IllegalStateException(connection.getResponseCode() + ": " + answer);
            }
            connection.getInputStream().close();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Stop by SIGTERM; the exit status must be 0. */
    public void stop() throws InterruptedException {
        if (process == null) {
            return;
        }
        process.destroy();
        if (!process.waitFor(STOP_TIMEOUT_S, TimeUnit.SECONDS)) {
            process.destroyForcibly();
            throw new IllegalStateException("kafkalite did not stop; its log is " + log);
        }
        if (process.exitValue() != 0) {
            throw new IllegalStateException(
                "kafkalite ended with status " + process.exitValue() + "; its log is " + log);
        }
    }
}
