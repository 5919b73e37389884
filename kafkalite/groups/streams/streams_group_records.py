"""Records of streams groups: encoding from state and decoding of values.

They are Kafka's record types 17 and 19 to 23 of `__consumer_offsets`. Sets are written as sorted
lists, so that the same state always gives the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.groups.modern.offset_commit_fencing import revocation_of
from kafkalite.groups.modern.record_types import RecordTypes
from kafkalite.groups.streams.member import CurrentTasks, Endpoint, MemberMetadata, MemberState
from kafkalite.groups.streams.tasks import OwnedTasks, Tasks, to_structs
from kafkalite.protocol._generated.records.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
)
from kafkalite.protocol._generated.records.streams_group_member_metadata import (
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
)
from kafkalite.protocol._generated.records.streams_group_metadata import (
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
)
from kafkalite.protocol._generated.records.streams_group_target_assignment_member import (
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
)
from kafkalite.protocol._generated.records.streams_group_target_assignment_metadata import (
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
)
from kafkalite.protocol._generated.records.streams_group_topology import (
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.groups.group import GroupId, MemberId, Record
    from kafkalite.groups.streams.descriptions import DescriptionEpochs
    from kafkalite.groups.streams.tasks import TaskEpochs, TaskIds
    from kafkalite.groups.streams.topology import InternalTopic, SubtopologySpec, Topology

_CurrentTaskIds = StreamsGroupCurrentMemberAssignmentValue.TaskIds
_TargetTaskIds = StreamsGroupTargetAssignmentMemberValue.TaskIds


TYPES = RecordTypes(
    group_key=StreamsGroupMetadataKey,
    member_key=StreamsGroupMemberMetadataKey,
    target_epoch_key=StreamsGroupTargetAssignmentMetadataKey,
    target_epoch_value=StreamsGroupTargetAssignmentMetadataValue,
    target_member_key=StreamsGroupTargetAssignmentMemberKey,
    current_key=StreamsGroupCurrentMemberAssignmentKey,
)
member_tombstones = TYPES.member_tombstones
target_epoch_record = TYPES.target_epoch_record


def group_metadata_record(
    group_id: GroupId,
    epoch: int,
    metadata_hash: int,
    validated_topology_epoch: int,
    assignment_configs: Mapping[str, str],
    *,
    descriptions: DescriptionEpochs,
) -> Record:
    """Return the record of the group epoch, with the metadata of this epoch."""
    return CoordinatorRecord(
        StreamsGroupMetadataKey(group_id=group_id),
        StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated_topology_epoch,
            last_assignment_configs=[
                StreamsGroupMetadataValue.LastAssignmentConfig(key=key, value=value)
                for key, value in sorted(assignment_configs.items())
            ],
            stored_description_topology_epoch=descriptions.stored,
            failed_description_topology_epoch=descriptions.failed,
        ),
    )


def topology_record(group_id: GroupId, topology: Topology) -> Record:
    """Return the record of the topology."""
    return CoordinatorRecord(
        StreamsGroupTopologyKey(group_id=group_id),
        StreamsGroupTopologyValue(
            epoch=topology.epoch,
            subtopologies=[_subtopology(each) for each in topology.subtopologies.values()],
        ),
    )


def _subtopology(subtopology: SubtopologySpec) -> StreamsGroupTopologyValue.Subtopology:
    return StreamsGroupTopologyValue.Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=list(subtopology.source_topics),
        source_topic_regex=list(subtopology.source_topic_regexes),
        state_changelog_topics=[_topic_info(topic) for topic in subtopology.changelogs],
        repartition_sink_topics=list(subtopology.repartition_sinks),
        repartition_source_topics=[_topic_info(topic) for topic in subtopology.repartition_sources],
        copartition_groups=[
            StreamsGroupTopologyValue.CopartitionGroup(
                source_topics=list(group.source_topics),
                source_topic_regex=list(group.source_topic_regexes),
                repartition_source_topics=list(group.repartition_sources),
            )
            for group in subtopology.copartition_groups
        ],
    )


def _topic_info(topic: InternalTopic) -> StreamsGroupTopologyValue.TopicInfo:
    return StreamsGroupTopologyValue.TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[
            StreamsGroupTopologyValue.TopicConfig(key=key, value=value)
            for key, value in topic.configs
        ],
    )


def topology_tombstone(group_id: GroupId) -> Record:
    """Return the tombstone of the topology."""
    return CoordinatorRecord(StreamsGroupTopologyKey(group_id=group_id), None)


def member_metadata_record(
    group_id: GroupId, member_id: MemberId, metadata: MemberMetadata
) -> Record:
    """Return the record of a member's metadata."""
    endpoint = metadata.user_endpoint
    return CoordinatorRecord(
        StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id),
        StreamsGroupMemberMetadataValue(
            instance_id=metadata.instance_id,
            rack_id=metadata.rack_id,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
            rebalance_timeout_ms=metadata.rebalance_timeout_ms,
            topology_epoch=metadata.topology_epoch,
            process_id=metadata.process_id,
            user_endpoint=None
            if endpoint is None
            else StreamsGroupMemberMetadataValue.Endpoint(host=endpoint.host, port=endpoint.port),
            client_tags=[
                StreamsGroupMemberMetadataValue.KeyValue(key=key, value=value)
                for key, value in sorted(metadata.client_tags.items())
            ],
        ),
    )


def member_metadata_of(value: StreamsGroupMemberMetadataValue) -> MemberMetadata:
    """Return the member metadata of a record value."""
    endpoint = value.user_endpoint
    return MemberMetadata(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        user_endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags={tag.key: tag.value for tag in value.client_tags},
    )


def target_tasks_record(group_id: GroupId, member_id: MemberId, target: Tasks) -> Record:
    """Return the record of a member's target tasks."""
    return CoordinatorRecord(
        StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        StreamsGroupTargetAssignmentMemberValue(
            active_tasks=to_structs(_TargetTaskIds, target.active),
            standby_tasks=to_structs(_TargetTaskIds, target.standby),
            warmup_tasks=to_structs(_TargetTaskIds, target.warmup),
        ),
    )


def target_tasks_of(value: StreamsGroupTargetAssignmentMemberValue) -> Tasks:
    """Return the target tasks of a record value."""
    return Tasks(
        active=_tasks_of(value.active_tasks),
        standby=_tasks_of(value.standby_tasks),
        warmup=_tasks_of(value.warmup_tasks),
    )


def _tasks_of(tasks: Iterable[_CurrentTaskIds | _TargetTaskIds]) -> TaskIds:
    return {each.subtopology_id: frozenset(each.partitions) for each in tasks if each.partitions}


def current_tasks_record(group_id: GroupId, member_id: MemberId, current: CurrentTasks) -> Record:
    """Return the record of a member's current tasks."""
    assigned, pending = current.assigned, current.pending_revocation
    return CoordinatorRecord(
        StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
        StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=current.member_epoch,
            previous_member_epoch=current.previous_member_epoch,
            state=int(current.state),
            active_tasks=_current_task_ids_with_epochs(assigned.active),
            standby_tasks=to_structs(_CurrentTaskIds, assigned.standby),
            warmup_tasks=to_structs(_CurrentTaskIds, assigned.warmup),
            active_tasks_pending_revocation=_current_task_ids_with_epochs(pending.active),
            standby_tasks_pending_revocation=to_structs(_CurrentTaskIds, pending.standby),
            warmup_tasks_pending_revocation=to_structs(_CurrentTaskIds, pending.warmup),
            active_task_revocation_epoch=current.revocation.epoch,
            is_active_task_revocation_under_way=current.revocation.is_under_way,
        ),
    )


def _current_task_ids_with_epochs(tasks: TaskEpochs) -> list[_CurrentTaskIds]:
    return [
        _CurrentTaskIds(
            subtopology_id=name,
            partitions=sorted(epochs),
            assignment_epochs=[epochs[partition] for partition in sorted(epochs)],
        )
        for name, epochs in sorted(tasks.items())
    ]


def current_tasks_of(value: StreamsGroupCurrentMemberAssignmentValue) -> CurrentTasks:
    """Return the current tasks of a record value."""
    epoch = value.member_epoch
    return CurrentTasks(
        member_epoch=epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=OwnedTasks(
            active=_epochs_of(value.active_tasks, epoch),
            standby=_tasks_of(value.standby_tasks),
            warmup=_tasks_of(value.warmup_tasks),
        ),
        pending_revocation=OwnedTasks(
            active=_epochs_of(value.active_tasks_pending_revocation, epoch),
            standby=_tasks_of(value.standby_tasks_pending_revocation),
            warmup=_tasks_of(value.warmup_tasks_pending_revocation),
        ),
        revocation=revocation_of(
            value.active_task_revocation_epoch,
            is_under_way=value.is_active_task_revocation_under_way,
        ),
    )


def _epochs_of(tasks: Iterable[_CurrentTaskIds], default_epoch: int) -> TaskEpochs:
    """Return the epoch of each task; records of early Kafka 4.1 have none: use `default_epoch`."""
    epochs_by_subtopology: dict[str, dict[int, int]] = {}
    for each in tasks:
        epochs = each.assignment_epochs or []
        if len(epochs) != len(each.partitions):
            epochs = [default_epoch] * len(each.partitions)
        if each.partitions:
            epochs_by_subtopology[each.subtopology_id] = dict(
                zip(each.partitions, epochs, strict=True)
            )
    return epochs_by_subtopology
