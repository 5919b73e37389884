import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.AbortTransactionOptions;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.AlterConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DeleteConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.DeleteConsumerGroupsOptions;
import org.apache.kafka.clients.admin.DeleteRecordsOptions;
import org.apache.kafka.clients.admin.DeleteTopicsOptions;
import org.apache.kafka.clients.admin.DescribeClassicGroupsOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.DescribeProducersOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.DescribeTransactionsOptions;
import org.apache.kafka.clients.admin.FenceProducersOptions;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListConsumerGroupsOptions;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.TerminateTransactionOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** Calls with the remaining options and overloads, about topics, configurations and groups. */
final class OptionCalls {
    private static final String TOPIC = "admin-options";
    private static final String GROUP = "admin-option-group";
    private static final String MISSING = "admin-missing";
    private static final TopicPartition FIRST = new TopicPartition(TOPIC, 0);

    private final AdminSweep sweep;
    private final Admin admin;

    OptionCalls(AdminSweep sweep) {
        this.sweep = sweep;
        this.admin = sweep.admin;
    }

    void run() throws Exception {
        topics();
        configs();
        groups();
        transactions();
        sweep.show("deleteTopics options", () -> admin.deleteTopics(List.of(TOPIC),
                AdminSweep.timed(new DeleteTopicsOptions().retryOnQuotaViolation(false))));
        sweep.show("deleteTopics of a collection", () -> admin.deleteTopics(
                TopicCollection.ofTopicNames(List.of(MISSING)),
                AdminSweep.timed(new DeleteTopicsOptions().retryOnQuotaViolation(false))));
    }

    private void topics() throws Exception {
        NewTopic topic = new NewTopic(TOPIC, 1, (short) 1);
        sweep.show("createTopics options", () -> admin.createTopics(List.of(topic),
                AdminSweep.timed(new CreateTopicsOptions().retryOnQuotaViolation(false))).values());
        sweep.awaitPartitions(TOPIC, 1);
        sweep.show("createPartitions options", () -> admin.createPartitions(
                Map.of(TOPIC, NewPartitions.increaseTo(2)), AdminSweep.timed(
                        new CreatePartitionsOptions().retryOnQuotaViolation(false))).values());
        sweep.show("createPartitions refused", () -> admin.createPartitions(Map.of(
                TOPIC, NewPartitions.increaseTo(3, List.of(List.of(9))),
                "__consumer_offsets", NewPartitions.increaseTo(1))).values());
        sweep.awaitPartitions(TOPIC, 2);
        sweep.call("listTopics timeoutMs", () -> AdminSweep.get(admin.listTopics(
                AdminSweep.timed(new ListTopicsOptions().listInternal(true))).names())
                .contains(TOPIC));
        sweep.show("describeTopics timeoutMs", () -> admin.describeTopics(List.of(TOPIC),
                AdminSweep.timed(new DescribeTopicsOptions())).topicNameValues());
        sweep.show("describeTopics of a collection", () -> admin.describeTopics(
                TopicCollection.ofTopicNames(List.of(TOPIC)), AdminSweep.timed(
                        new DescribeTopicsOptions().includeAuthorizedOperations(true)
                                .partitionSizeLimitPerResponse(1))).topicNameValues());
        sweep.show("deleteRecords timeoutMs", () -> admin.deleteRecords(
                Map.of(FIRST, RecordsToDelete.beforeOffset(0)),
                AdminSweep.timed(new DeleteRecordsOptions())));
        sweep.show("deleteRecords unknown", () -> admin.deleteRecords(
                Map.of(new TopicPartition(MISSING, 0), RecordsToDelete.beforeOffset(0)),
                new DeleteRecordsOptions().timeoutMs(1000)));
        sweep.show("listOffsets read committed", () -> admin.listOffsets(
                Map.of(FIRST, OffsetSpec.latest()),
                AdminSweep.timed(new ListOffsetsOptions(IsolationLevel.READ_COMMITTED))).all());
        sweep.show("listOffsets unknown", () -> admin.listOffsets(
                Map.of(new TopicPartition(MISSING, 0), OffsetSpec.latest()),
                new ListOffsetsOptions().timeoutMs(1000)).all());
    }

    private void configs() {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, TOPIC);
        sweep.show("describeConfigs without options", () ->
                admin.describeConfigs(List.of(resource)));
        sweep.show("describeConfigs timeoutMs", () -> admin.describeConfigs(
                List.of(new ConfigResource(ConfigResource.Type.GROUP, GROUP),
                        new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "admin-metrics")),
                AdminSweep.timed(new DescribeConfigsOptions())));
        sweep.show("describeConfigs refused", () -> admin.describeConfigs(List.of(
                new ConfigResource(ConfigResource.Type.TOPIC, "bad name"),
                new ConfigResource(ConfigResource.Type.GROUP, ""))));
        sweep.show("incrementalAlterConfigs timeoutMs", () -> admin.incrementalAlterConfigs(
                Map.of(resource, List.of(new AlterConfigOp(
                        new ConfigEntry("segment.bytes", "1048576"), AlterConfigOp.OpType.SET))),
                AdminSweep.timed(new AlterConfigsOptions())));
        ConfigResource metrics =
                new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "admin-metrics");
        sweep.show("incrementalAlterConfigs of client metrics", () ->
                admin.incrementalAlterConfigs(Map.of(metrics, List.of(
                        new AlterConfigOp(new ConfigEntry("interval.ms", "60000"),
                                AlterConfigOp.OpType.SET)))));
        sweep.show("incrementalAlterConfigs of client metrics refused", () ->
                admin.incrementalAlterConfigs(Map.of(metrics, List.of(
                        new AlterConfigOp(new ConfigEntry("interval.ms", "1"),
                                AlterConfigOp.OpType.SET)))));
        sweep.call("listConfigResources without types", () -> AdminSweep.get(
                admin.listConfigResources().all()).contains(resource));
        sweep.call("listConfigResources timeoutMs", () -> AdminSweep.get(
                admin.listConfigResources(Set.of(ConfigResource.Type.TOPIC),
                        AdminSweep.timed(new ListConfigResourcesOptions())).all())
                .contains(resource));
    }

    private void groups() throws Exception {
        sweep.show("alterConsumerGroupOffsets timeoutMs", () -> admin.alterConsumerGroupOffsets(
                GROUP, Map.of(FIRST, new OffsetAndMetadata(0, "set")),
                AdminSweep.timed(new AlterConsumerGroupOffsetsOptions())).all());
        sweep.show("listConsumerGroupOffsets of a group", () ->
                admin.listConsumerGroupOffsets(GROUP));
        sweep.show("listConsumerGroupOffsets of a group, requireStable", () ->
                admin.listConsumerGroupOffsets(GROUP, AdminSweep.timed(
                        new ListConsumerGroupOffsetsOptions().requireStable(true))));
        sweep.show("listConsumerGroupOffsets of partitions", () -> admin.listConsumerGroupOffsets(
                Map.of(GROUP, new ListConsumerGroupOffsetsSpec().topicPartitions(
                        List.of(FIRST, new TopicPartition(MISSING, 0)))),
                AdminSweep.timed(new ListConsumerGroupOffsetsOptions().requireStable(true))).all());
        listings();
        sweep.show("describeConsumerGroups timeoutMs", () -> admin.describeConsumerGroups(
                List.of(GROUP), AdminSweep.timed(new DescribeConsumerGroupsOptions())));
        sweep.show("describeClassicGroups unknown", () ->
                admin.describeClassicGroups(List.of(MISSING)));
        sweep.show("describeClassicGroups includeAuthorizedOperations", () ->
                admin.describeClassicGroups(List.of(GROUP), AdminSweep.timed(
                        new DescribeClassicGroupsOptions().includeAuthorizedOperations(true))));
        RemoveMembersFromConsumerGroupOptions removal =
                new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("static-9")));
        removal.reason("to test");
        sweep.show("removeMembersFromConsumerGroup reason", () ->
                admin.removeMembersFromConsumerGroup(GROUP, AdminSweep.timed(removal)).all());
        sweep.show("removeMembersFromConsumerGroup unknown group", () ->
                admin.removeMembersFromConsumerGroup(
                        MISSING, new RemoveMembersFromConsumerGroupOptions()).all());
        sweep.show("deleteConsumerGroupOffsets timeoutMs", () -> admin.deleteConsumerGroupOffsets(
                GROUP, Set.of(FIRST),
                AdminSweep.timed(new DeleteConsumerGroupOffsetsOptions())).all());
        sweep.show("deleteConsumerGroupOffsets unknown", () -> admin.deleteConsumerGroupOffsets(
                MISSING, Set.of(FIRST)).all());
        sweep.show("deleteConsumerGroups timeoutMs", () -> admin.deleteConsumerGroups(
                List.of(GROUP, ""), AdminSweep.timed(new DeleteConsumerGroupsOptions())));
    }

    @SuppressWarnings("removal")
    private void listings() {
        sweep.call("listGroups without options", () -> AdminSweep.get(admin.listGroups().all())
                .stream().anyMatch(group -> group.groupId().equals(GROUP)));
        sweep.show("listGroups withProtocolTypes", () -> admin.listGroups(AdminSweep.timed(
                new ListGroupsOptions().withProtocolTypes(Set.of("connect")))).all());
        sweep.show("listConsumerGroups inGroupStates, withTypes", () ->
                admin.listConsumerGroups(AdminSweep.timed(new ListConsumerGroupsOptions()
                        .inGroupStates(Set.of(GroupState.EMPTY))
                        .withTypes(Set.of(GroupType.CLASSIC)))).all());
    }

    private void transactions() {
        sweep.show("fenceProducers timeoutMs", () -> List.of(admin.fenceProducers(
                List.of("admin-fenced"), AdminSweep.timed(new FenceProducersOptions())).all()));
        sweep.show("describeTransactions timeoutMs", () -> admin.describeTransactions(
                List.of(MISSING), AdminSweep.timed(new DescribeTransactionsOptions()))
                .description(MISSING));
        sweep.show("listTransactions timeoutMs", () -> admin.listTransactions(AdminSweep.timed(
                new ListTransactionsOptions().filterOnTransactionalIdPattern("admin-none"))).all());
        sweep.show("describeProducers without options", () ->
                admin.describeProducers(List.of(FIRST)).all());
        sweep.show("describeProducers unknown", () -> admin.describeProducers(
                List.of(new TopicPartition(TOPIC, 7)),
                new DescribeProducersOptions().brokerId(1).timeoutMs(1000)).all());
        sweep.show("abortTransaction unknown", () -> admin.abortTransaction(
                new AbortTransactionSpec(FIRST, 123_456, (short) 0, 0),
                AdminSweep.timed(new AbortTransactionOptions())).all());
        sweep.show("forceTerminateTransaction unknown", () -> admin.forceTerminateTransaction(
                "admin-not-open", AdminSweep.timed(new TerminateTransactionOptions())).result());
    }
}
