import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterStreamsGroupOffsetsOptions;
import org.apache.kafka.clients.admin.DeleteStreamsGroupOffsetsOptions;
import org.apache.kafka.clients.admin.DeleteStreamsGroupsOptions;
import org.apache.kafka.clients.admin.DescribeStreamsGroupsOptions;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListStreamsGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListStreamsGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/** Calls about streams groups. */
final class StreamsCalls {
    private static final String SOURCE = "admin-source";
    private static final String SINK = "admin-sink";
    private static final String GROUP = "admin-streams";
    private static final String MISSING = "admin-missing";
    private static final TopicPartition FIRST = new TopicPartition(SOURCE, 0);

    private final AdminSweep sweep;
    private final Admin admin;

    StreamsCalls(AdminSweep sweep) {
        this.sweep = sweep;
        this.admin = sweep.admin;
    }

    void run() throws Exception {
        AdminSweep.get(admin.createTopics(List.of(
                new NewTopic(SOURCE, 2, (short) 1), new NewTopic(SINK, 2, (short) 1))).all());
        sweep.awaitPartitions(SINK, 2);
        sweep.produce(SOURCE, 2, 6);
        Path state = Files.createTempDirectory("admin-streams");
        try (KafkaStreams streams = application(state)) {
            streams.start();
            AdminSweep.await(() -> isStable(described()) && hasCommitted());
            stable();
            streams.close(CloseOptions.timeout(Duration.ofSeconds(AdminSweep.TIMEOUT_S))
                    .withGroupMembershipOperation(
                            CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
        } finally {
            delete(state);
        }
        AdminSweep.await(() -> described().groupState() == GroupState.EMPTY);
        empty();
    }

    private KafkaStreams application(Path state) {
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, sweep.bootstrap);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, GROUP);
        config.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        config.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "100");
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, "1");
        config.put(StreamsConfig.clientTagPrefix("zone"), "a");
        config.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(SOURCE, Consumed.with(Serdes.String(), Serdes.String()))
                .to(SINK, Produced.with(Serdes.String(), Serdes.String()));
        return new KafkaStreams(builder.build(), config);
    }

    private static void delete(Path directory) throws Exception {
        try (Stream<Path> paths = Files.walk(directory)) {
            paths.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        }
    }

    private StreamsGroupDescription described() throws Exception {
        return AdminSweep.get(admin.describeStreamsGroups(List.of(GROUP)).all()).get(GROUP);
    }

    private static boolean isStable(StreamsGroupDescription group) {
        return group.groupState() == GroupState.STABLE && group.members().stream().allMatch(
                member -> !member.assignment().activeTasks().isEmpty());
    }

    private boolean hasCommitted() throws Exception {
        return AdminSweep.get(admin.listStreamsGroupOffsets(
                Map.of(GROUP, new ListStreamsGroupOffsetsSpec())).all()).get(GROUP).values().stream()
                .filter(offset -> offset != null && offset.offset() == 3).count() == 2;
    }

    private void stable() {
        sweep.show("listGroups for streams groups", () ->
                AdminSweep.get(admin.listGroups(ListGroupsOptions.forStreamsGroups()).all()));
        sweep.show("describeStreamsGroups", () -> admin.describeStreamsGroups(List.of(GROUP)));
        sweep.show("describeStreamsGroups includeAuthorizedOperations", () ->
                admin.describeStreamsGroups(List.of(GROUP), AdminSweep.timed(
                        new DescribeStreamsGroupsOptions().includeAuthorizedOperations(true))));
        sweep.show("describeStreamsGroups includeTopologyDescription", () ->
                admin.describeStreamsGroups(List.of(GROUP),
                        new DescribeStreamsGroupsOptions().includeTopologyDescription(true)));
        sweep.show("describeStreamsGroups unknown", () ->
                admin.describeStreamsGroups(List.of(MISSING, "admin-classic")));
        sweep.show("deleteStreamsGroups of a group with members", () ->
                admin.deleteStreamsGroups(List.of(GROUP)));
        sweep.show("alterStreamsGroupOffsets of a group with members", () ->
                admin.alterStreamsGroupOffsets(GROUP, Map.of(FIRST, new OffsetAndMetadata(1))));
        sweep.show("deleteStreamsGroupOffsets of a group with members", () ->
                admin.deleteStreamsGroupOffsets(GROUP, Set.of(FIRST)));
    }

    private void empty() {
        sweep.show("describeStreamsGroups empty", () ->
                admin.describeStreamsGroups(List.of(GROUP)));
        sweep.show("alterStreamsGroupOffsets", () -> admin.alterStreamsGroupOffsets(GROUP,
                Map.of(FIRST, new OffsetAndMetadata(1, "moved")),
                AdminSweep.timed(new AlterStreamsGroupOffsetsOptions())));
        sweep.show("listStreamsGroupOffsets of partitions", () -> admin.listStreamsGroupOffsets(
                Map.of(GROUP, new ListStreamsGroupOffsetsSpec().topicPartitions(
                        List.of(FIRST, new TopicPartition(SOURCE, 7))))).all());
        sweep.show("listStreamsGroupOffsets requireStable", () -> admin.listStreamsGroupOffsets(
                Map.of(MISSING, new ListStreamsGroupOffsetsSpec()), AdminSweep.timed(
                        new ListStreamsGroupOffsetsOptions().requireStable(true))).all());
        sweep.show("deleteStreamsGroupOffsets", () -> admin.deleteStreamsGroupOffsets(
                GROUP, Set.of(FIRST), AdminSweep.timed(new DeleteStreamsGroupOffsetsOptions())));
        sweep.show("deleteStreamsGroupOffsets unknown", () ->
                admin.deleteStreamsGroupOffsets(MISSING, Set.of(FIRST)));
        sweep.show("deleteStreamsGroups", () -> admin.deleteStreamsGroups(
                List.of(GROUP, MISSING), AdminSweep.timed(new DeleteStreamsGroupsOptions())));
    }
}
