package io.kafkalite;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.function.Function;

/** Groups with their members, committed offsets and lag. */
public final class Groups {
    private final ControlClient control;

    Groups(ControlClient control) {
        this.control = control;
    }

    /** A group in a list. */
    public record ListedGroup(String groupId, String type, String state, int members) {}

    /** All groups. */
    record GroupList(List<ListedGroup> groups) {}

    /** A group that was deleted. */
    record DeletedGroup(String groupId) {}

    /** A group with its members, its committed offsets and its lag. */
    public record GroupStatus(
            String groupId,
            String type,
            String protocol,
            String state,
            int epoch,
            List<GroupMember> members,
            List<GroupOffset> offsets) {

        /** Returns the committed offset of a partition, if there is one. */
        public OptionalLong committed(String topic, int partition) {
            return find(topic, partition, GroupOffset::offset);
        }

        /** Returns the number of records that the group has not consumed, if it is known. */
        public OptionalLong lag(String topic, int partition) {
            return find(topic, partition, GroupOffset::lag);
        }

        private OptionalLong find(String topic, int partition, Function<GroupOffset, Long> value) {
            return offsets.stream()
                    .filter(each -> each.topic().equals(topic) && each.partition() == partition)
                    .filter(each -> value.apply(each) != null)
                    .mapToLong(value::apply)
                    .findFirst();
        }
    }

    /** A member of a group. */
    public record GroupMember(
            String memberId,
            String instanceId,
            String clientId,
            String host,
            int epoch,
            List<String> subscription,
            List<TopicPartitions> assignment) {}

    /** Partitions of a topic. */
    public record TopicPartitions(String topic, List<Integer> partitions) {}

    /** The committed offset of a group in a partition, and its lag; null if it is not known. */
    public record GroupOffset(
            String topic, int partition, Long offset, Long endOffset, Long lag, String memberId) {}

    /** Returns the groups of all types. */
    public List<ListedGroup> list() {
        return control.send(Route.GROUPS, "", GroupList.class).groups();
    }

    /** Returns a group. */
    public GroupStatus get(String group) {
        return control.send(Route.GROUP, group, GroupStatus.class);
    }

    /** Returns a group when it has this state and this many members; else AssertionError. */
    public GroupStatus await(String group, String state, int members, Duration limit) {
        Map<String, Object> parameters =
                Map.of("state", state, "members", members, "wait_ms", limit.toMillis());
        GroupStatus found =
                control.send(Route.GROUP, group, parameters, null, GroupStatus.class);
        if (!found.state().equals(state) || found.members().size() != members) {
            throw new AssertionError(
                    "expected group " + group + " to be " + state + " with " + members
                            + " members within " + limit + ": " + found);
        }
        return found;
    }

    /** Deletes a group without members. */
    public void delete(String group) {
        control.send(Route.DELETE_GROUP, group, DeletedGroup.class);
    }
}
