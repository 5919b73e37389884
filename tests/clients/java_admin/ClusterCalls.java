import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.AddRaftVoterOptions;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterPartitionReassignmentsOptions;
import org.apache.kafka.clients.admin.AlterReplicaLogDirsOptions;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeFeaturesOptions;
import org.apache.kafka.clients.admin.DescribeLogDirsOptions;
import org.apache.kafka.clients.admin.DescribeMetadataQuorumOptions;
import org.apache.kafka.clients.admin.DescribeReplicaLogDirsOptions;
import org.apache.kafka.clients.admin.ElectLeadersOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ListClientMetricsResourcesOptions;
import org.apache.kafka.clients.admin.ListPartitionReassignmentsOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RaftVoterEndpoint;
import org.apache.kafka.clients.admin.RemoveRaftVoterOptions;
import org.apache.kafka.clients.admin.UnregisterBrokerOptions;
import org.apache.kafka.clients.admin.UnregisterControllerOptions;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.utils.Time;

/** Calls about brokers, controllers, features, placement of replicas, and the client itself. */
final class ClusterCalls {
    private static final String TOPIC = "admin-placed-topic";
    private static final TopicPartition FIRST = new TopicPartition(TOPIC, 0);
    private static final TopicPartition UNKNOWN = new TopicPartition("admin-missing", 0);
    private static final Uuid DIRECTORY = new Uuid(7, 7);

    private final AdminSweep sweep;
    private final Admin admin;

    ClusterCalls(AdminSweep sweep) {
        this.sweep = sweep;
        this.admin = sweep.admin;
    }

    void run() throws Exception {
        AdminSweep.get(admin.createTopics(List.of(new NewTopic(TOPIC, 1, (short) 1))).all());
        sweep.awaitPartitions(TOPIC, 1);
        reassignments();
        logDirectories();
        brokers();
        features();
        quorum();
        client();
    }

    private void reassignments() {
        Map<TopicPartition, Optional<NewPartitionReassignment>> same =
                Map.of(FIRST, Optional.of(new NewPartitionReassignment(List.of(1))));
        sweep.show("alterPartitionReassignments", () -> admin.alterPartitionReassignments(same));
        sweep.show("alterPartitionReassignments options", () -> admin.alterPartitionReassignments(
                same, AdminSweep.timed(new AlterPartitionReassignmentsOptions()
                        .allowReplicationFactorChange(false))));
        sweep.show("alterPartitionReassignments refused", () -> admin.alterPartitionReassignments(
                Map.of(FIRST, Optional.of(new NewPartitionReassignment(List.of(1, 9))),
                        UNKNOWN, Optional.of(new NewPartitionReassignment(List.of(1))))));
        sweep.show("alterPartitionReassignments cancellation", () ->
                admin.alterPartitionReassignments(Map.of(FIRST, Optional.empty())));
        sweep.show("listPartitionReassignments", () -> admin.listPartitionReassignments());
        sweep.show("listPartitionReassignments timeoutMs", () -> admin.listPartitionReassignments(
                AdminSweep.timed(new ListPartitionReassignmentsOptions())));
        sweep.show("listPartitionReassignments of partitions", () ->
                admin.listPartitionReassignments(Set.of(FIRST)));
        sweep.show("listPartitionReassignments of an unknown partition", () ->
                admin.listPartitionReassignments(
                        Set.of(UNKNOWN),
                        AdminSweep.timed(new ListPartitionReassignmentsOptions())));
        sweep.show("listPartitionReassignments of no partitions", () ->
                admin.listPartitionReassignments(
                        Optional.of(Set.of()),
                        AdminSweep.timed(new ListPartitionReassignmentsOptions())));
        sweep.show("electLeaders of all partitions", () -> admin.electLeaders(
                ElectionType.PREFERRED, null, AdminSweep.timed(new ElectLeadersOptions())));
        sweep.show("electLeaders unknown", () ->
                admin.electLeaders(ElectionType.PREFERRED, Set.of(UNKNOWN)));
    }

    private void logDirectories() throws Exception {
        String directory = AdminSweep.get(admin.describeLogDirs(List.of(1)).allDescriptions())
                .get(1).keySet().iterator().next();
        TopicPartitionReplica replica = new TopicPartitionReplica(TOPIC, 0, 1);
        TopicPartitionReplica elsewhere = new TopicPartitionReplica("admin-missing", 0, 1);
        sweep.show("alterReplicaLogDirs", () ->
                admin.alterReplicaLogDirs(Map.of(replica, directory)));
        sweep.show("alterReplicaLogDirs refused", () -> admin.alterReplicaLogDirs(
                Map.of(replica, "/no/such/directory"),
                AdminSweep.timed(new AlterReplicaLogDirsOptions())));
        sweep.show("alterReplicaLogDirs unknown", () ->
                admin.alterReplicaLogDirs(Map.of(elsewhere, directory)));
        sweep.show("describeReplicaLogDirs unknown", () -> {
            var found = AdminSweep.get(admin.describeReplicaLogDirs(List.of(elsewhere),
                    AdminSweep.timed(new DescribeReplicaLogDirsOptions())).all()).get(elsewhere);
            return List.of(String.valueOf(found.getCurrentReplicaLogDir()),
                    found.getCurrentReplicaOffsetLag());
        });
        sweep.show("describeLogDirs timeoutMs", () -> AdminSweep.get(admin.describeLogDirs(
                List.of(1), AdminSweep.timed(new DescribeLogDirsOptions())).allDescriptions())
                .get(1).size());
        sweep.show("describeLogDirs of an unknown broker", () -> admin.describeLogDirs(
                List.of(9), new DescribeLogDirsOptions().timeoutMs(1000)));
    }

    private void brokers() {
        sweep.show("describeCluster plain", () -> admin.describeCluster().nodes());
        sweep.show("describeCluster timeoutMs", () -> admin.describeCluster(
                AdminSweep.timed(new DescribeClusterOptions())).controller());
        sweep.show("unregisterBroker unknown", () -> admin.unregisterBroker(9));
        sweep.show("unregisterBroker timeoutMs", () -> admin.unregisterBroker(
                -2, AdminSweep.timed(new UnregisterBrokerOptions())));
        sweep.show("unregisterController unknown", () -> admin.unregisterController(9));
        sweep.show("unregisterController timeoutMs", () -> admin.unregisterController(
                -2, AdminSweep.timed(new UnregisterControllerOptions())));
        sweep.show("unregisterController of a voter", () -> admin.unregisterController(1));
    }

    private static FeatureUpdate level(int level, FeatureUpdate.UpgradeType type) {
        return new FeatureUpdate((short) level, type);
    }

    private void features() {
        sweep.call("describeFeatures of a node", () -> !AdminSweep.get(admin.describeFeatures(
                AdminSweep.timed(new DescribeFeaturesOptions().nodeId(1))).featureMetadata())
                .finalizedFeatures().isEmpty());
        sweep.show("updateFeatures", () -> admin.updateFeatures(
                Map.of("group.version", level(1, FeatureUpdate.UpgradeType.UPGRADE))));
        sweep.show("updateFeatures validateOnly", () -> admin.updateFeatures(
                Map.of("group.version", level(0, FeatureUpdate.UpgradeType.UNSAFE_DOWNGRADE)),
                AdminSweep.timed(new UpdateFeaturesOptions().validateOnly(true))));
        sweep.show("updateFeatures unknown", () -> admin.updateFeatures(
                Map.of("no.such.version", level(1, FeatureUpdate.UpgradeType.UPGRADE))));
        sweep.show("updateFeatures too high", () -> admin.updateFeatures(
                Map.of("group.version", level(99, FeatureUpdate.UpgradeType.UPGRADE))));
        sweep.show("updateFeatures downgrade", () -> admin.updateFeatures(
                Map.of("transaction.version", level(1, FeatureUpdate.UpgradeType.UPGRADE))));
    }

    private void quorum() {
        Set<RaftVoterEndpoint> endpoints =
                Set.of(new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 9));
        sweep.show("describeMetadataQuorum", () -> admin.describeMetadataQuorum());
        sweep.show("describeMetadataQuorum timeoutMs", () -> admin.describeMetadataQuorum(
                AdminSweep.timed(new DescribeMetadataQuorumOptions())));
        sweep.show("addRaftVoter of a voter", () ->
                admin.addRaftVoter(1, DIRECTORY, endpoints));
        sweep.show("addRaftVoter setClusterId", () -> admin.addRaftVoter(9, DIRECTORY, endpoints,
                AdminSweep.timed(new AddRaftVoterOptions().setClusterId(Optional.of("other")))));
        sweep.show("removeRaftVoter unknown", () -> admin.removeRaftVoter(9, DIRECTORY));
        sweep.show("removeRaftVoter setClusterId", () -> admin.removeRaftVoter(9, DIRECTORY,
                AdminSweep.timed(new RemoveRaftVoterOptions().setClusterId(Optional.of("other")))));
    }

    private void client() {
        sweep.show("listClientMetricsResources", () -> admin.listClientMetricsResources().all());
        sweep.show("listClientMetricsResources timeoutMs", () -> admin.listClientMetricsResources(
                AdminSweep.timed(new ListClientMetricsResourcesOptions())).all());
        sweep.show("clientInstanceId", () -> admin.clientInstanceId(Duration.ofSeconds(3)));
        sweep.show("clientInstanceId with metrics", () -> {
            try (Admin pushing = sweep.client(Map.of(
                    "bootstrap.servers", sweep.bootstrap, "enable.metrics.push", "true"))) {
                return pushing.clientInstanceId(Duration.ofSeconds(3));
            }
        });
        KafkaMetric metric = new KafkaMetric(new Object(),
                new MetricName("own", "own", "", Map.of()),
                (Gauge<Integer>) (config, now) -> 1, new MetricConfig(), Time.SYSTEM);
        sweep.call("registerMetricForSubscription", () -> {
            admin.registerMetricForSubscription(metric);
            return null;
        });
        sweep.call("unregisterMetricFromSubscription", () -> {
            admin.unregisterMetricFromSubscription(metric);
            return null;
        });
        sweep.call("create with a map, and close", () -> {
            Admin created = sweep.recorder.recording(
                    Admin.create(Map.of("bootstrap.servers", sweep.bootstrap)));
            sweep.recorder.record("create(Map)");
            int nodes = AdminSweep.get(created.describeCluster().nodes()).size();
            created.close();
            return nodes;
        });
        sweep.call("create with properties, and close within a time", () -> {
            Properties config = new Properties();
            config.put("bootstrap.servers", sweep.bootstrap);
            Admin created = sweep.recorder.recording(Admin.create(config));
            sweep.recorder.record("create(Properties)");
            created.close(Duration.ofSeconds(AdminSweep.TIMEOUT_S));
            return AdminSweep.get(created.describeCluster().nodes());
        });
        sweep.show("create without servers", () -> {
            sweep.recorder.record("create(Map)");
            return Admin.create(Map.<String, Object>of());
        });
    }
}
