import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterShareGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DeleteShareGroupOffsetsOptions;
import org.apache.kafka.clients.admin.DeleteShareGroupsOptions;
import org.apache.kafka.clients.admin.DescribeShareGroupsOptions;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Calls about share groups. */
final class ShareCalls {
    private static final String TOPIC = "admin-shared";
    private static final String GROUP = "admin-share";
    private static final String MISSING = "admin-missing";
    private static final TopicPartition FIRST = new TopicPartition(TOPIC, 0);

    private final AdminSweep sweep;
    private final Admin admin;

    ShareCalls(AdminSweep sweep) {
        this.sweep = sweep;
        this.admin = sweep.admin;
    }

    void run() throws Exception {
        AdminSweep.get(admin.createTopics(List.of(new NewTopic(TOPIC, 2, (short) 1))).all());
        sweep.awaitPartitions(TOPIC, 2);
        sweep.produce(TOPIC, 2, 6);
        AdminSweep.get(admin.incrementalAlterConfigs(Map.of(
                new ConfigResource(ConfigResource.Type.GROUP, GROUP),
                List.of(new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"),
                        AlterConfigOp.OpType.SET)))).all());
        Properties config = new Properties();
        config.put("bootstrap.servers", sweep.bootstrap);
        config.put("group.id", GROUP);
        config.put("client.id", "share-client");
        config.put("client.rack", "rack-1");
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(
                config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(TOPIC));
            int[] records = new int[1];
            AdminSweep.await(() -> {
                records[0] += consumer.poll(Duration.ofMillis(100)).count();
                return records[0] == 6;
            });
            consumer.commitSync();
            stable();
        }
        empty();
    }

    private void stable() {
        sweep.show("listGroups for share groups", () ->
                AdminSweep.get(admin.listGroups(ListGroupsOptions.forShareGroups()).all()));
        sweep.show("describeShareGroups", () -> admin.describeShareGroups(List.of(GROUP)));
        sweep.show("describeShareGroups includeAuthorizedOperations", () ->
                admin.describeShareGroups(List.of(GROUP), AdminSweep.timed(
                        new DescribeShareGroupsOptions().includeAuthorizedOperations(true))));
        sweep.show("describeShareGroups unknown", () ->
                admin.describeShareGroups(List.of(MISSING, "admin-classic")));
        sweep.show("deleteShareGroups of a group with members", () ->
                admin.deleteShareGroups(List.of(GROUP)));
        sweep.show("alterShareGroupOffsets of a group with members", () ->
                admin.alterShareGroupOffsets(GROUP, Map.of(FIRST, 1L)));
        sweep.show("deleteShareGroupOffsets of a group with members", () ->
                admin.deleteShareGroupOffsets(GROUP, Set.of(TOPIC)));
    }

    private void empty() throws Exception {
        AdminSweep.await(() -> AdminSweep.get(admin.describeShareGroups(List.of(GROUP)).all())
                .get(GROUP).members().isEmpty());
        sweep.show("describeShareGroups empty", () -> admin.describeShareGroups(List.of(GROUP)));
        sweep.show("listShareGroupOffsets", () -> admin.listShareGroupOffsets(
                Map.of(GROUP, new ListShareGroupOffsetsSpec())).all());
        sweep.show("listShareGroupOffsets of partitions", () -> admin.listShareGroupOffsets(
                Map.of(GROUP, new ListShareGroupOffsetsSpec().topicPartitions(List.of(FIRST))),
                AdminSweep.timed(new ListShareGroupOffsetsOptions())).all());
        sweep.show("listShareGroupOffsets unknown", () -> admin.listShareGroupOffsets(
                Map.of(MISSING, new ListShareGroupOffsetsSpec())).all());
        sweep.show("alterShareGroupOffsets", () -> {
            var result = admin.alterShareGroupOffsets(GROUP,
                    Map.of(FIRST, 1L, new TopicPartition(TOPIC, 1), 0L),
                    AdminSweep.timed(new AlterShareGroupOffsetsOptions()));
            return List.of(result.all(), result.partitionResult(FIRST));
        });
        sweep.show("alterShareGroupOffsets unknown topic", () -> admin.alterShareGroupOffsets(
                GROUP, Map.of(new TopicPartition("admin-missing", 0), 1L)));
        sweep.show("alterShareGroupOffsets unknown group", () -> admin.alterShareGroupOffsets(
                MISSING, Map.of(new TopicPartition("admin-missing", 0), 1L)));
        sweep.show("listShareGroupOffsets altered", () -> admin.listShareGroupOffsets(
                Map.of(GROUP, new ListShareGroupOffsetsSpec())).all());
        sweep.show("deleteShareGroupOffsets", () -> {
            var result = admin.deleteShareGroupOffsets(GROUP, Set.of(TOPIC),
                    AdminSweep.timed(new DeleteShareGroupOffsetsOptions()));
            return List.of(result.all(), result.topicResult(TOPIC));
        });
        sweep.show("deleteShareGroupOffsets unknown", () ->
                admin.deleteShareGroupOffsets(MISSING, Set.of(TOPIC)));
        sweep.show("deleteShareGroups", () -> admin.deleteShareGroups(
                List.of(GROUP, MISSING), AdminSweep.timed(new DeleteShareGroupsOptions())));
    }
}
