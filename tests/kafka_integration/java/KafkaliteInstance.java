package org.apache.kafka.common.test;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.TestKitDefaults;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.apache.kafka.test.TestUtils;

/** A cluster of kafkalite for tests with {@code @ClusterTest}. */
public final class KafkaliteInstance implements ClusterInstance {
    // The tests know the settings, APIs and features of their own release.
    private static final String RELEASE = "4.3";
    private static final String JAAS =
        "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"plain-admin\""
        + " password=\"plain-admin-secret\" user_plain-admin=\"plain-admin-secret\""
        + " user_plain-user1=\"plain-user1-secret\";";

    private final ClusterConfig config;
    private final boolean isCombined;
    private KafkaliteProcess process;
    private KafkaliteServers servers;
    private boolean isStopped;

    public KafkaliteInstance(ClusterConfig config, boolean isCombined) {
        this.config = config;
        this.isCombined = isCombined;
    }

    private KafkaliteProcess newProcess() {
        Properties properties = new Properties();
        config.serverProperties().forEach(properties::setProperty);
        // Kafka's test kit does so, too.
        properties.putIfAbsent("unstable.feature.versions.enable", "true");
        properties.putIfAbsent("unstable.api.versions.enable", "true");
        if (!config.standalone()) {
            // With fixed voters, Kafka's quorum is at level 0 of kraft.version.
            int voter = controllerIds().iterator().next();
            properties.setProperty("controller.quorum.voters", voter + "@localhost:1");
        }
        if (config.numDisksPerBroker() > 1) {
            properties.setProperty("log.dirs", IntStream.range(0, config.numDisksPerBroker())
                .mapToObj(disk -> "/logs/data" + disk).collect(Collectors.joining(",")));
        }
        Map<String, Short> features = new TreeMap<>();
        config.features().forEach((feature, level) -> features.put(feature.featureName(), level));
        if (config.metadataVersion() != MetadataVersion.latestTesting()) {
            features.put(MetadataVersion.FEATURE_NAME, config.metadataVersion().featureLevel());
        }
        List<String> options = new ArrayList<>(List.of(
            "--as-version", RELEASE, "--defaults", "kafka", "--controller-listen", "localhost:0"));
        if (!isCombined) {
            options.addAll(List.of(
                "--controller-id", Integer.toString(TestKitDefaults.CONTROLLER_ID_OFFSET)));
        }
        String listener = clientListener().value();
        properties.setProperty("listener.security.protocol.map",
            listener + ":" + config.brokerSecurityProtocol() + ",CONTROLLER:PLAINTEXT");
        if (config.brokerSecurityProtocol().name.startsWith("SASL")) {
            String prefix = "listener.name." + listener.toLowerCase(java.util.Locale.ROOT);
            properties.putIfAbsent("sasl.enabled.mechanisms", "PLAIN");
            properties.putIfAbsent(prefix + ".plain.sasl.jaas.config", JAAS);
            properties.putIfAbsent("authorizer.class.name",
                "org.apache.kafka.metadata.authorizer.StandardAuthorizer");
            properties.putIfAbsent("allow.everyone.if.no.acl.found", "false");
            properties.putIfAbsent("super.users", "User:plain-admin");
        }
        // A controller that is no broker has no settings of its own here.
        Map<Integer, Map<String, String>> ofBrokers =
            new TreeMap<>(config.perServerOverrideProperties());
        ofBrokers.keySet().removeIf(id -> id >= config.numBrokers());
        return new KafkaliteProcess(
            config.numBrokers(), ofBrokers, properties, features, listener, options);
    }

    @Override
    public void start() {
        if (process != null) {
            return;
        }
        process = newProcess();
        servers = new KafkaliteServers(process, this::admin);
        try {
            process.start();
        } catch (Exception error) {
            throw new IllegalStateException("kafkalite did not start", error);
        }
    }

    @Override
    public boolean started() {
        return process != null;
    }

    @Override
    public void stop() {
        if (process == null || isStopped) {
            return;
        }
        isStopped = true;
        servers.close();
        try {
            process.stop();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public boolean stopped() {
        return isStopped;
    }

    @Override
    public void shutdownBroker(int id) {
        process.stopNode(id);
    }

    @Override
    public void startBroker(int id) {
        process.startNode(id);
    }

    @Override
    public void waitForReadyBrokers() {
    }

    @Override
    public Type type() {
        return isCombined ? Type.CO_KRAFT : Type.KRAFT;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public String bootstrapServers() {
        return process.bootstrapServers();
    }

    @Override
    public String bootstrapControllers() {
        return process.bootstrapControllers();
    }

    @Override
    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    @Override
    public ListenerName controllerListenerName() {
        return config.controllerListenerName();
    }

    @Override
    public Set<Integer> controllerIds() {
        return Set.of(isCombined ? 0 : TestKitDefaults.CONTROLLER_ID_OFFSET);
    }

    @Override
    public String clusterId() {
        try (Admin admin = admin()) {
            return admin.describeCluster().clusterId().get();
        } catch (InterruptedException | ExecutionException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        Map<Integer, KafkaBroker> brokers = new TreeMap<>();
        for (int id = 0; id < config.numBrokers(); id++) {
            brokers.put(id, servers.broker(id));
        }
        return brokers;
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        return controllerIds().stream().collect(Collectors.toMap(id -> id, servers::controller));
    }

    @Override
    public List<Integer> controllerBoundPorts() {
        return portsOf(bootstrapControllers());
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        return portsOf(bootstrapServers());
    }

    private static List<Integer> portsOf(String addresses) {
        return List.of(addresses.split(",")).stream()
            .map(address -> Integer.valueOf(address.substring(address.lastIndexOf(':') + 1)))
            .toList();
    }

    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        String protocols = config.serverProperties().getOrDefault(
            "group.coordinator.rebalance.protocols", "classic,consumer,streams");
        return protocols.contains("consumer")
            ? Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER)
            : Set.of(GroupProtocol.CLASSIC);
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        return Optional.empty();
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }

    private int partitionsOf(Admin admin, String topic) {
        try {
            return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic)
                .partitions().size();
        } catch (ExecutionException error) {
            if (error.getCause() instanceof UnknownTopicOrPartitionException) {
                return 0;
            }
            throw new IllegalStateException(error);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        try (Admin admin = admin()) {
            TestUtils.waitForCondition(() -> partitionsOf(admin, topic) == partitions,
                60_000L, topic + " does not have " + partitions + " partitions");
        }
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        waitTopicCreation(topic, 0);
    }

    /** Return at once: all nodes know a change when it is answered. */
    @Override
    public void ensureConsistentMetadata() {
    }

    @Override
    public void ensureConsistentMetadata(
        Collection<KafkaBroker> brokers, Collection<ControllerServer> controllers) {
    }

    @Override
    public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> entries)
            throws InterruptedException {
        try (Admin admin = admin()) {
            TestUtils.waitForCondition(() -> {
                List<AccessControlEntry> found = admin.describeAcls(filter).values().get()
                    .stream().map(binding -> binding.entry()).toList();
                return found.containsAll(entries) && entries.containsAll(found);
            }, "the access control entries are not " + entries);
        }
    }
}
