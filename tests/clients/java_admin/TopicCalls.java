import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.FeatureMetadata;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;

/** Calls about topics, partitions, records and the cluster. */
final class TopicCalls {
    private static final String TOPIC = "admin-topic";
    private static final String BY_ID = "admin-by-id";

    private final AdminSweep sweep;
    private final Admin admin;

    TopicCalls(AdminSweep sweep) {
        this.sweep = sweep;
        this.admin = sweep.admin;
    }

    void run() throws Exception {
        create();
        sweep.awaitPartitions(TOPIC, 3);
        describe();
        records();
        cluster();
        delete();
    }

    private void create() throws Exception {
        NewTopic topic = new NewTopic(TOPIC, 2, (short) 1)
                .configs(Map.of("retention.ms", "3600000", "cleanup.policy", "delete"));
        NewTopic byId = new NewTopic(BY_ID, Optional.empty(), Optional.empty());
        CreateTopicsOptions validateOnly = new CreateTopicsOptions().validateOnly(true);
        sweep.call("createTopics validateOnly", () ->
                created(admin.createTopics(List.of(topic), validateOnly), TOPIC));
        sweep.call("createTopics", () -> created(admin.createTopics(List.of(topic)), TOPIC));
        sweep.call("createTopics defaults", () ->
                created(admin.createTopics(List.of(byId)), BY_ID));
        sweep.awaitPartitions(BY_ID, 6);
        sweep.call("createTopics refused", () -> AdminSweep.each(admin.createTopics(List.of(
                topic,
                new NewTopic("bad name", 1, (short) 1),
                new NewTopic("admin-wide", 1, (short) 9),
                new NewTopic("admin-none", 0, (short) 1),
                new NewTopic("admin-config", 1, (short) 1).configs(Map.of("no.such", "1")),
                new NewTopic("admin-value", 1, (short) 1).configs(Map.of("retention.ms", "x")),
                new NewTopic("admin-placed", Map.of(0, List.of(1), 2, List.of(1)))))
                .values()));
        sweep.call("createPartitions", () -> AdminSweep.each(admin.createPartitions(Map.of(
                TOPIC, NewPartitions.increaseTo(3),
                BY_ID, NewPartitions.increaseTo(1),
                "admin-missing", NewPartitions.increaseTo(2))).values()));
        sweep.call("createPartitions validateOnly", () -> AdminSweep.each(admin.createPartitions(
                Map.of(TOPIC, NewPartitions.increaseTo(9)),
                new CreatePartitionsOptions().validateOnly(true)).values()));
    }

    private Object created(CreateTopicsResult result, String topic) throws Exception {
        return Map.of(
                "hasId", !AdminSweep.get(result.topicId(topic)).equals(Uuid.ZERO_UUID),
                "partitions", AdminSweep.get(result.numPartitions(topic)),
                "replicationFactor", AdminSweep.get(result.replicationFactor(topic)),
                "config", AdminSweep.describe(AdminSweep.get(result.config(topic))));
    }

    private void describe() {
        DescribeTopicsOptions authorized =
                new DescribeTopicsOptions().includeAuthorizedOperations(true);
        sweep.call("listTopics", () -> Map.of(
                "has", AdminSweep.get(admin.listTopics().names()).contains(TOPIC),
                "internal", AdminSweep.get(admin.listTopics(
                        new ListTopicsOptions().listInternal(true)).listings()).stream()
                        .filter(listing -> listing.name().equals(TOPIC))
                        .map(listing -> listing.isInternal() + " "
                                + listing.topicId().equals(Uuid.ZERO_UUID))
                        .collect(Collectors.toList())));
        sweep.call("describeTopics", () -> described(AdminSweep.get(
                admin.describeTopics(List.of(TOPIC), authorized).allTopicNames()).values()));
        sweep.call("describeTopics by id", () -> described(AdminSweep.get(
                admin.describeTopics(TopicCollection.ofTopicIds(List.of(id(TOPIC))))
                        .allTopicIds()).values()));
        sweep.call("describeTopics in pages", () -> described(AdminSweep.get(
                admin.describeTopics(List.of(TOPIC, BY_ID),
                        new DescribeTopicsOptions().partitionSizeLimitPerResponse(2))
                        .allTopicNames()).values()));
        sweep.call("describeTopics unknown", () -> AdminSweep.each(
                admin.describeTopics(List.of("admin-missing", "bad name")).topicNameValues()));
        sweep.call("describeTopics unknown id", () -> AdminSweep.get(admin.describeTopics(
                TopicCollection.ofTopicIds(List.of(new Uuid(7, 7)))).allTopicIds()));
    }

    private Uuid id(String topic) throws Exception {
        return AdminSweep.get(admin.describeTopics(List.of(topic)).allTopicNames())
                .get(topic).topicId();
    }

    private Object described(Collection<TopicDescription> topics) {
        Map<String, Object> found = new TreeMap<>();
        topics.forEach(topic -> found.put(topic.name(), Map.of(
                "internal", topic.isInternal(),
                "partitions", topic.partitions().stream().map(AdminSweep::describe).toList(),
                "operations", AdminSweep.names(topic.authorizedOperations()))));
        return found;
    }

    private void records() {
        sweep.call("produce", () -> {
            sweep.produce(TOPIC, 3, 12);
            return null;
        });
        offsets("earliest", OffsetSpec.earliest());
        offsets("latest", OffsetSpec.latest());
        offsets("forTimestamp", OffsetSpec.forTimestamp(1_699_999_996_000L));
        offsets("forTimestamp never", OffsetSpec.forTimestamp(1_800_000_000_000L));
        offsets("maxTimestamp", OffsetSpec.maxTimestamp());
        offsets("earliestLocal", OffsetSpec.earliestLocal());
        offsets("latestTiered", OffsetSpec.latestTiered());
        offsets("earliestPendingUpload", OffsetSpec.earliestPendingUpload());
        sweep.call("deleteRecords", () -> {
            Map<String, Object> found = new TreeMap<>();
            var futures = admin.deleteRecords(Map.of(
                    new TopicPartition(TOPIC, 0), RecordsToDelete.beforeOffset(2),
                    new TopicPartition(TOPIC, 1), RecordsToDelete.beforeOffset(-1))).lowWatermarks();
            for (var entry : futures.entrySet()) {
                found.put(entry.getKey().toString(),
                        AdminSweep.get(entry.getValue()).lowWatermark());
            }
            return found;
        });
        sweep.call("deleteRecords too far", () -> AdminSweep.get(admin.deleteRecords(Map.of(
                new TopicPartition(TOPIC, 0), RecordsToDelete.beforeOffset(999))).all()));
        offsets("earliest after deleteRecords", OffsetSpec.earliest());
        sweep.call("electLeaders preferred", () -> elected(ElectionType.PREFERRED));
        sweep.call("electLeaders unclean", () -> elected(ElectionType.UNCLEAN));
    }

    private void offsets(String name, OffsetSpec spec) {
        sweep.call("listOffsets " + name, () -> {
            Map<String, Object> found = new TreeMap<>();
            Map<TopicPartition, OffsetSpec> asked = AdminSweep.partitions(TOPIC, 3).stream()
                    .collect(Collectors.toMap(partition -> partition, partition -> spec));
            for (var entry : AdminSweep.get(admin.listOffsets(asked).all()).entrySet()) {
                ListOffsetsResultInfo info = entry.getValue();
                found.put(entry.getKey().toString(), List.of(
                        info.offset(), info.timestamp(), String.valueOf(info.leaderEpoch())));
            }
            return found;
        });
    }

    private Object elected(ElectionType type) throws Exception {
        Map<String, Object> found = new TreeMap<>();
        AdminSweep.get(admin.electLeaders(type, Set.copyOf(AdminSweep.partitions(TOPIC, 1)))
                .partitions()).forEach((partition, failure) -> found.put(partition.toString(),
                        failure.map(it -> it.getClass().getSimpleName()).orElse("elected")));
        return found;
    }

    private void cluster() {
        sweep.call("describeCluster", () -> {
            DescribeClusterResult result = admin.describeCluster(
                    new DescribeClusterOptions().includeAuthorizedOperations(true));
            return Map.of(
                    "nodes", AdminSweep.get(result.nodes()).stream()
                            .map(AdminSweep::describe).toList(),
                    "controller", AdminSweep.get(result.controller()).id(),
                    "idLength", AdminSweep.get(result.clusterId()).length(),
                    "operations", AdminSweep.names(AdminSweep.get(result.authorizedOperations())));
        });
        sweep.call("describeCluster fenced", () -> AdminSweep.get(admin.describeCluster(
                new DescribeClusterOptions().includeFencedBrokers(true)).nodes()).size());
        sweep.call("describeFeatures", () -> {
            FeatureMetadata features = AdminSweep.get(admin.describeFeatures().featureMetadata());
            return Map.of(
                    "finalized", new TreeMap<>(named(features.finalizedFeatures())),
                    "supported", new TreeMap<>(named(features.supportedFeatures())),
                    "hasEpoch", features.finalizedFeaturesEpoch().isPresent());
        });
        sweep.call("describeLogDirs", () -> {
            Map<String, Object> found = new TreeMap<>();
            AdminSweep.get(admin.describeLogDirs(List.of(1)).allDescriptions())
                    .forEach((broker, directories) -> directories.values().forEach(directory ->
                            directory.replicaInfos().forEach((partition, replica) -> {
                                if (partition.topic().equals(TOPIC)) {
                                    found.put(partition.toString(), List.of(replica.size(),
                                            replica.offsetLag(), replica.isFuture(),
                                            directory.totalBytes().isPresent(),
                                            String.valueOf(directory.error())));
                                }
                            })));
            return found;
        });
        sweep.call("describeReplicaLogDirs", () -> {
            TopicPartitionReplica replica = new TopicPartitionReplica(TOPIC, 0, 1);
            var info = AdminSweep.get(admin.describeReplicaLogDirs(List.of(replica)).all())
                    .get(replica);
            return List.of(info.getCurrentReplicaLogDir() != null,
                    info.getCurrentReplicaOffsetLag(), String.valueOf(info.getFutureReplicaLogDir()));
        });
        sweep.call("metrics", () -> !admin.metrics().isEmpty());
    }

    private static Map<String, String> named(Map<String, ?> features) {
        return features.entrySet().stream().collect(
                Collectors.toMap(Map.Entry::getKey, entry -> String.valueOf(entry.getValue())));
    }

    private List<String> ours() throws Exception {
        return AdminSweep.get(admin.listTopics().names()).stream()
                .filter(List.of(TOPIC, BY_ID)::contains)
                .toList();
    }

    private void delete() {
        sweep.call("deleteTopics by id", () -> AdminSweep.get(
                admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id(BY_ID)))).all()));
        sweep.call("deleteTopics", () -> AdminSweep.each(
                admin.deleteTopics(List.of(TOPIC, "admin-missing")).topicNameValues()));
        sweep.call("deleteTopics unknown id", () -> AdminSweep.get(admin.deleteTopics(
                TopicCollection.ofTopicIds(List.of(new Uuid(7, 7)))).all()));
        sweep.call("listTopics after deleteTopics", () -> {
            AdminSweep.await(() -> ours().isEmpty());
            return ours();
        });
    }
}
