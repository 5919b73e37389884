import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ClassicGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;

/** Calls about groups: members, offsets, deletion. */
final class GroupCalls {
    private static final String TOPIC = "admin-grouped";
    private static final String CLASSIC = "admin-classic";
    private static final String CONSUMER = "admin-consumer";
    private static final String SIMPLE = "admin-simple";
    private static final List<String> OURS = List.of(CLASSIC, CONSUMER, SIMPLE);

    private final AdminSweep sweep;
    private final Admin admin;

    GroupCalls(AdminSweep sweep) {
        this.sweep = sweep;
        this.admin = sweep.admin;
    }

    void run() throws Exception {
        AdminSweep.get(admin.createTopics(List.of(new NewTopic(TOPIC, 3, (short) 1))).all());
        sweep.awaitPartitions(TOPIC, 3);
        sweep.produce(TOPIC, 3, 6);
        Map<String, String> classic = Map.of("group.id", CLASSIC, "group.instance.id", "static-1",
                "client.id", "classic-client");
        Map<String, String> consumer = Map.of("group.id", CONSUMER, "group.protocol", "consumer",
                "client.id", "consumer-client", "client.rack", "rack-1");
        try (KafkaConsumer<String, String> one = sweep.joined(TOPIC, classic);
                KafkaConsumer<String, String> two = sweep.joined(TOPIC, consumer)) {
            commit(one);
            commit(two);
            stable();
            sweep.call("deleteConsumerGroups of a group with members", () -> AdminSweep.each(
                    admin.deleteConsumerGroups(List.of(CLASSIC, CONSUMER)).deletedGroups()));
            sweep.call("alterConsumerGroupOffsets of a group with members", () -> AdminSweep.get(
                    admin.alterConsumerGroupOffsets(CLASSIC,
                            Map.of(new TopicPartition(TOPIC, 0), new OffsetAndMetadata(1))).all()));
            sweep.call("deleteConsumerGroupOffsets of a subscribed topic", () -> AdminSweep.get(
                    admin.deleteConsumerGroupOffsets(CLASSIC, Set.of(new TopicPartition(TOPIC, 0)))
                            .all()));
            sweep.call("removeMembersFromConsumerGroup unknown", () -> AdminSweep.get(
                    admin.removeMembersFromConsumerGroup(CLASSIC,
                            new RemoveMembersFromConsumerGroupOptions(
                                    Set.of(new MemberToRemove("static-9")))).all()));
            sweep.call("removeMembersFromConsumerGroup", () -> AdminSweep.get(
                    admin.removeMembersFromConsumerGroup(CLASSIC,
                            new RemoveMembersFromConsumerGroupOptions(
                                    Set.of(new MemberToRemove("static-1")))).all()));
            sweep.call("removeMembersFromConsumerGroup all", () -> AdminSweep.get(
                    admin.removeMembersFromConsumerGroup(CONSUMER,
                            new RemoveMembersFromConsumerGroupOptions()).all()));
        }
        offsets();
        delete();
    }

    private void commit(KafkaConsumer<String, String> consumer) {
        consumer.commitSync(Map.of(
                new TopicPartition(TOPIC, 0), new OffsetAndMetadata(1, "note"),
                new TopicPartition(TOPIC, 1), new OffsetAndMetadata(2)));
    }

    private void stable() {
        sweep.call("listGroups", () -> listed(new ListGroupsOptions()));
        sweep.call("listGroups classic", () ->
                listed(new ListGroupsOptions().withTypes(Set.of(GroupType.CLASSIC))));
        sweep.call("listGroups stable", () ->
                listed(new ListGroupsOptions().inGroupStates(Set.of(GroupState.STABLE))));
        sweep.call("listGroups empty", () ->
                listed(new ListGroupsOptions().inGroupStates(Set.of(GroupState.EMPTY))));
        sweep.call("listGroups for consumers", () ->
                listed(ListGroupsOptions.forConsumerGroups()));
        sweep.call("listConsumerGroups", this::listedConsumerGroups);
        sweep.call("describeConsumerGroups", () -> {
            Map<String, Object> found = new TreeMap<>();
            for (String group : List.of(CLASSIC, CONSUMER)) {
                found.put(group, described(AdminSweep.get(admin.describeConsumerGroups(
                        List.of(group), new DescribeConsumerGroupsOptions()
                                .includeAuthorizedOperations(true)).all()).get(group)));
            }
            return found;
        });
        sweep.call("describeConsumerGroups unknown", () -> AdminSweep.get(
                admin.describeConsumerGroups(List.of("admin-missing")).all()));
        sweep.call("describeClassicGroups", () -> described(AdminSweep.get(
                admin.describeClassicGroups(List.of(CLASSIC)).all()).get(CLASSIC)));
        sweep.call("listConsumerGroupOffsets", () -> offsets(CLASSIC, CONSUMER));
    }

    private Object listed(ListGroupsOptions options) throws Exception {
        return AdminSweep.get(admin.listGroups(options).all()).stream()
                .filter(group -> OURS.contains(group.groupId()))
                .map(group -> List.of(group.groupId(), group.protocol(),
                        String.valueOf(group.type()), String.valueOf(group.groupState())))
                .sorted((left, right) -> left.get(0).compareTo(right.get(0)))
                .toList();
    }

    @SuppressWarnings("removal")
    private Object listedConsumerGroups() throws Exception {
        return AdminSweep.get(admin.listConsumerGroups().all()).stream()
                .filter(group -> OURS.contains(group.groupId()))
                .map(group -> group.groupId() + " " + group.isSimpleConsumerGroup() + " "
                        + group.groupState() + " " + group.type())
                .sorted()
                .toList();
    }

    private static Object described(ConsumerGroupDescription group) {
        Map<String, Object> found = new TreeMap<>();
        found.put("simple", group.isSimpleConsumerGroup());
        found.put("assignor", group.partitionAssignor());
        found.put("type", group.type());
        found.put("state", group.groupState());
        found.put("coordinator", group.coordinator().id());
        found.put("operations", AdminSweep.names(group.authorizedOperations()));
        found.put("epoch", String.valueOf(group.groupEpoch()));
        found.put("assignmentEpoch", String.valueOf(group.targetAssignmentEpoch()));
        found.put("members", group.members().stream().map(GroupCalls::described).toList());
        return found;
    }

    private static Object described(ClassicGroupDescription group) {
        Map<String, Object> found = new TreeMap<>();
        found.put("protocol", group.protocol());
        found.put("data", group.protocolData());
        found.put("simple", group.isSimpleConsumerGroup());
        found.put("state", group.state());
        found.put("coordinator", group.coordinator().id());
        found.put("members", group.members().stream().map(GroupCalls::described).toList());
        return found;
    }

    private static Object described(MemberDescription member) {
        Map<String, Object> found = new TreeMap<>();
        found.put("hasId", !member.consumerId().isEmpty());
        found.put("instance", String.valueOf(member.groupInstanceId()));
        found.put("rack", String.valueOf(member.rackId()));
        found.put("client", member.clientId());
        found.put("host", member.host());
        found.put("partitions", AdminSweep.names(member.assignment().topicPartitions()));
        found.put("target", String.valueOf(member.targetAssignment().map(
                target -> AdminSweep.names(target.topicPartitions()))));
        found.put("epoch", String.valueOf(member.memberEpoch()));
        found.put("upgraded", String.valueOf(member.upgraded()));
        return found;
    }

    private Object offsets(String... groups) throws Exception {
        Map<String, ListConsumerGroupOffsetsSpec> asked = List.of(groups).stream().collect(
                Collectors.toMap(group -> group, group -> new ListConsumerGroupOffsetsSpec()));
        Map<String, Object> found = new TreeMap<>();
        AdminSweep.get(admin.listConsumerGroupOffsets(asked).all())
                .forEach((group, offsets) -> found.put(group, new TreeMap<>(
                        offsets.entrySet().stream().collect(Collectors.toMap(
                                entry -> entry.getKey().toString(),
                                entry -> String.valueOf(entry.getValue()))))));
        return found;
    }

    private void offsets() {
        TopicPartition first = new TopicPartition(TOPIC, 0);
        sweep.call("describeConsumerGroups empty", () -> {
            ConsumerGroupDescription group = AdminSweep.get(
                    admin.describeConsumerGroups(List.of(CLASSIC)).all()).get(CLASSIC);
            return List.of(String.valueOf(group.groupState()), group.members().size());
        });
        sweep.call("alterConsumerGroupOffsets", () -> AdminSweep.get(
                admin.alterConsumerGroupOffsets(CLASSIC,
                        Map.of(first, new OffsetAndMetadata(0, "moved"))).all()));
        sweep.call("alterConsumerGroupOffsets simple", () -> AdminSweep.get(
                admin.alterConsumerGroupOffsets(SIMPLE,
                        Map.of(first, new OffsetAndMetadata(2))).all()));
        sweep.call("alterConsumerGroupOffsets unknown topic", () -> AdminSweep.get(
                admin.alterConsumerGroupOffsets(SIMPLE, Map.of(
                        new TopicPartition("admin-missing", 0), new OffsetAndMetadata(2))).all()));
        sweep.call("deleteConsumerGroupOffsets", () -> AdminSweep.get(
                admin.deleteConsumerGroupOffsets(CONSUMER, Set.of(first)).all()));
        sweep.call("listConsumerGroupOffsets altered", () -> offsets(CLASSIC, CONSUMER, SIMPLE));
        sweep.call("listConsumerGroupOffsets unknown", () -> offsets("admin-missing"));
        sweep.call("listConsumerGroups with a simple one", this::listedConsumerGroups);
    }

    private void delete() {
        sweep.call("deleteConsumerGroups", () -> AdminSweep.each(admin.deleteConsumerGroups(
                List.of(CLASSIC, CONSUMER, SIMPLE, "admin-missing")).deletedGroups()));
        sweep.call("listGroups after deleteConsumerGroups", () -> listed(new ListGroupsOptions()));
        sweep.call("deleteTopics grouped", () -> AdminSweep.get(
                admin.deleteTopics(List.of(TOPIC)).all()));
    }
}
