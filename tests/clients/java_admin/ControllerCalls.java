import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RaftVoterEndpoint;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/** Calls of a client with `bootstrap.controllers`, which knows no broker. */
final class ControllerCalls {
    private static final Uuid DIRECTORY = new Uuid(7, 7);
    private static final ConfigResource DEFAULTS =
            new ConfigResource(ConfigResource.Type.BROKER, "");
    private static final ConfigResource NODE = new ConfigResource(ConfigResource.Type.BROKER, "1");
    private static final AclBinding ACL = new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, "controller-acl", PatternType.LITERAL),
            new AccessControlEntry(
                    "User:ann", "*", AclOperation.READ, AclPermissionType.ALLOW));

    private final AdminSweep sweep;
    private final String controller;

    ControllerCalls(AdminSweep sweep, String controller) {
        this.sweep = sweep;
        this.controller = controller;
    }

    void run() throws Exception {
        try (Admin admin = sweep.client(Map.of("bootstrap.controllers", controller))) {
            cluster(admin);
            quorum(admin);
            configs(admin);
            security(admin);
            partitions(admin);
        }
    }

    private void cluster(Admin admin) {
        sweep.show("controller: describeCluster", () -> admin.describeCluster());
        sweep.show("controller: describeCluster includeFencedBrokers", () ->
                admin.describeCluster(new DescribeClusterOptions().includeFencedBrokers(true)));
        sweep.show("controller: describeFeatures", () -> admin.describeFeatures());
        sweep.show("controller: updateFeatures validateOnly", () -> admin.updateFeatures(
                Map.of("group.version",
                        new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)),
                new UpdateFeaturesOptions().validateOnly(true)));
        sweep.show("controller: unregisterBroker unknown", () -> admin.unregisterBroker(9));
        sweep.show("controller: unregisterController unknown", () ->
                admin.unregisterController(9));
    }

    private void quorum(Admin admin) {
        Set<RaftVoterEndpoint> endpoints =
                Set.of(new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 9));
        sweep.show("controller: describeMetadataQuorum", () -> admin.describeMetadataQuorum());
        sweep.show("controller: addRaftVoter of a voter", () ->
                admin.addRaftVoter(1, DIRECTORY, endpoints));
        sweep.show("controller: removeRaftVoter unknown", () ->
                admin.removeRaftVoter(9, DIRECTORY));
    }

    private void configs(Admin admin) throws Exception {
        sweep.show("controller: incrementalAlterConfigs", () -> admin.incrementalAlterConfigs(
                Map.of(DEFAULTS, List.of(new AlterConfigOp(
                        new ConfigEntry("log.retention.ms", "900000"),
                        AlterConfigOp.OpType.SET)))));
        AdminSweep.await(() -> !AdminSweep.get(
                admin.describeConfigs(List.of(DEFAULTS)).values().get(DEFAULTS)).entries().isEmpty());
        sweep.show("controller: describeConfigs of the defaults", () ->
                AdminSweep.describe(AdminSweep.get(
                        admin.describeConfigs(List.of(DEFAULTS)).values().get(DEFAULTS))));
        sweep.show("controller: describeConfigs of a node", () ->
                AdminSweep.describe(AdminSweep.get(
                        admin.describeConfigs(List.of(NODE)).values().get(NODE))));
        sweep.show("controller: incrementalAlterConfigs of a deletion", () ->
                admin.incrementalAlterConfigs(Map.of(DEFAULTS, List.of(new AlterConfigOp(
                        new ConfigEntry("log.retention.ms", ""),
                        AlterConfigOp.OpType.DELETE)))));
    }

    private void security(Admin admin) throws Exception {
        sweep.show("controller: createAcls", () -> admin.createAcls(List.of(ACL)));
        AdminSweep.await(() -> !AdminSweep.get(
                admin.describeAcls(ACL.toFilter()).values()).isEmpty());
        sweep.show("controller: describeAcls", () -> admin.describeAcls(ACL.toFilter()));
        sweep.show("controller: deleteAcls", () -> admin.deleteAcls(List.of(ACL.toFilter())));
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of("client-id", "controller-client"));
        sweep.show("controller: alterClientQuotas", () -> admin.alterClientQuotas(List.of(
                new ClientQuotaAlteration(entity,
                        List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1024.0))))));
        sweep.show("controller: describeClientQuotas", () ->
                admin.describeClientQuotas(ClientQuotaFilter.all()).entities());
    }

    private void partitions(Admin admin) {
        TopicPartition unknown = new TopicPartition("admin-missing", 0);
        sweep.show("controller: electLeaders unknown", () ->
                admin.electLeaders(ElectionType.PREFERRED, Set.of(unknown)));
        sweep.show("controller: alterPartitionReassignments unknown", () ->
                admin.alterPartitionReassignments(Map.of(unknown,
                        Optional.of(new NewPartitionReassignment(List.of(1))))));
        sweep.show("controller: listPartitionReassignments", () ->
                admin.listPartitionReassignments());
        sweep.show("controller: createTopics", () ->
                admin.createTopics(List.of(new NewTopic("controller-topic", 1, (short) 1))));
        sweep.show("controller: listTopics", () -> admin.listTopics());
    }
}
