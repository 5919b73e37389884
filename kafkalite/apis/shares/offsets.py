"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets.

The group coordinator knows which partitions of a group have share state; the share coordinator
stores their offsets. So each of these requests uses both.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from kafkalite.apis.duplicates import DuplicateLimit
from kafkalite.apis.shares.deletion import delete_share_states
from kafkalite.apis.shares.groups import check_share_groups_enabled
from kafkalite.gateway.api import MAX_ELEMENTS_AT_ONCE, Api
from kafkalite.gateway.overdue_calls import sees_ended_sessions
from kafkalite.gateway.refusals import MAX_REPORTED, report_refusal
from kafkalite.ports.waiting import chain, gather
from kafkalite.protocol._generated.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from kafkalite.protocol._generated.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from kafkalite.protocol._generated.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.protocol.versions import Versions
from kafkalite.shares.state import ShareKey, ShareSummary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.cluster.node import Node
    from kafkalite.gateway.call import Call
    from kafkalite.groups.share.offsets import StateDeletion
    from kafkalite.ports.waiting import Waiting

    Summaries = Mapping[ShareKey, ShareSummary | KafkaError]

DescribedGroup = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
DescribedTopic = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic
DescribedPartition = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition
AlteredTopic = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic
AlteredPartition = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition
DeletedTopic = DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic

_MAX_TOPICS_IN_EVENT = 10
"""Maximum number of topics that an event lists."""

_UNKNOWN = -1
"""The value of an unknown offset, count or lag."""


# DescribeShareGroupOffsets


def handle_describe_share_group_offsets(
    call: Call, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse | Waiting[DescribeShareGroupOffsetsResponse]:
    """Return the start offsets of groups: of the requested partitions, or of all."""
    check_share_groups_enabled(call.node)
    duplicate_limit = DuplicateLimit()
    groups = [
        _describe(
            call,
            group.group_id,
            group.topics,
            duplicate_limit,
            is_reported=index < MAX_REPORTED,
        )
        for index, group in enumerate(request.groups)
    ]
    return chain(gather(groups), _response_with_groups)


def _response_with_groups(
    groups: Sequence[DescribedGroup | Exception],
) -> DescribeShareGroupOffsetsResponse:
    described = []
    for group in groups:
        if isinstance(group, Exception):
            raise group
        described.append(group)
    return DescribeShareGroupOffsetsResponse(groups=described)


def _describe(
    call: Call,
    group_id: str,
    topics: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None,
    duplicate_limit: DuplicateLimit,
    *,
    is_reported: bool,
) -> DescribedGroup | Waiting[DescribedGroup]:
    node = call.node
    image = node.image
    if topics is not None:
        if any(t.topic_name in image.topics and not (group_id and t.partitions) for t in topics):
            # Kafka fails with an internal exception here, for the whole group.
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            return DescribedGroup(group_id=group_id, error_code=code, error_message=code.message)
        requested = [(topic.topic_name, topic.partitions) for topic in topics]
        return _describe_topics(node, group_id, requested)
    try:
        duplicate_limit.check(group_id)
        shard = node.groups.locate(group_id, node.id)
    except KafkaError as error:
        if is_reported:
            report_refusal(call, "DescribeShareGroupOffsets", group_id, error)
        return DescribedGroup(
            group_id=group_id, error_code=error.code, error_message=error.code.message
        )
    initialized = shard.machine.share.initialized_partitions(group_id)
    requested = [
        (topic.name, list(partitions))
        for topic_id, partitions in initialized.items()
        if (topic := image.topics_by_id.get(topic_id)) is not None
    ]
    return _describe_topics(node, group_id, requested)


def _describe_topics(
    node: Node, group_id: str, requested: Sequence[tuple[str, Sequence[int]]]
) -> DescribedGroup | Waiting[DescribedGroup]:
    """Describe partitions by topic name, with the summaries of their states."""
    topics = node.image.topics
    partitions: dict[bytes, list[int]] = {}
    for name, indexes in requested:
        if name in topics:
            partitions.setdefault(topics[name].topic_id, []).extend(indexes)

    def described(summaries: Summaries) -> DescribedGroup:
        return DescribedGroup(
            group_id=group_id,
            topics=[
                _describe_topic(node, group_id, name, indexes, summaries)
                for name, indexes in requested
            ],
        )

    return chain(node.share_persister.summaries(group_id, partitions), described)


def _describe_topic(
    node: Node, group_id: str, name: str, partitions: Iterable[int], summaries: Summaries
) -> DescribedTopic:
    topic = node.image.topics.get(name)
    if topic is None:
        return DescribedTopic(
            topic_name=name,
            topic_id=ZERO_UUID,
            partitions=[
                DescribedPartition(partition_index=index, start_offset=_UNKNOWN, lag=_UNKNOWN)
                for index in partitions
            ],
        )
    return DescribedTopic(
        topic_name=name,
        topic_id=topic.topic_id,
        partitions=[
            _describe_partition(
                node, name, index, summaries.get(ShareKey(group_id, topic.topic_id, index))
            )
            for index in partitions
        ],
    )


def _describe_partition(
    node: Node, topic_name: str, index: int, summary: ShareSummary | KafkaError | None
) -> DescribedPartition:
    """Describe one share partition; without share state its offsets are unknown."""
    row = DescribedPartition(partition_index=index, start_offset=_UNKNOWN, lag=_UNKNOWN)
    if not isinstance(summary, ShareSummary):
        return row
    row.start_offset = summary.start_offset
    row.leader_epoch = summary.leader_epoch
    if _UNKNOWN in (summary.start_offset, summary.delivery_complete_count):
        return row
    topic = node.partitions.topic(topic_name)
    partition = None if topic is None else topic.partition(index)
    if partition is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DescribedPartition(
            partition_index=index, error_code=code, error_message=code.message
        )
    end_offset = summary.start_offset + summary.delivery_complete_count
    row.lag = partition.limit_offset(committed=False) - end_offset
    return row


# AlterShareGroupOffsets


@sees_ended_sessions
def handle_alter_share_group_offsets(
    call: Call, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse | Waiting[AlterShareGroupOffsetsResponse]:
    """Set the start offsets of a group without members; creates the group if it does not exist."""
    node, group_id = call.node, request.group_id
    check_share_groups_enabled(node)
    _check_group_id(group_id)
    offsets = _requested_offsets(node, request)
    shard = node.groups.locate(group_id, node.id)
    initializations = shard.write_immediately(
        lambda machine, _: machine.share.alter_offsets(group_id, offsets)
    )

    def response(errors: Mapping[ShareKey, KafkaError]) -> AlterShareGroupOffsetsResponse:
        for error in islice(errors.values(), 1):
            report_refusal(call, "AlterShareGroupOffsets", group_id, error)
        if initializations and not errors:
            shard.write(
                lambda machine, _: machine.share.record_initialized_partitions(
                    group_id, initializations
                )
            )
        return AlterShareGroupOffsetsResponse(
            responses=[_altered_topic(node, group_id, topic, errors) for topic in request.topics]
        )

    if not initializations:
        return response({})
    node.share_persister.ensure_topic()
    return chain(node.share_persister.initialize(group_id, initializations), response)


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)


def _requested_offsets(
    node: Node, request: AlterShareGroupOffsetsRequest
) -> dict[bytes, dict[int, int]]:
    """Return the requested offsets of existing partitions: topic id → partition → offset.

    Raises KafkaError UNKNOWN_SERVER_ERROR for a negative index, for which Kafka fails with an
    internal exception.
    """
    topics = node.image.topics
    requested: dict[bytes, dict[int, int]] = {}
    for topic in request.topics:
        found = topics.get(topic.topic_name)
        if found is None:
            continue
        offsets = requested.setdefault(found.topic_id, {})
        for partition in topic.partitions:
            index = partition.partition_index
            if index < 0:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{index} is not a partition.")
            if index < len(found.partitions):
                offsets[index] = partition.start_offset
    return requested


def _altered_topic(
    node: Node,
    group_id: str,
    topic: AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic,
    refused: Mapping[ShareKey, KafkaError],
) -> AlteredTopic:
    found = node.image.topics.get(topic.topic_name)
    topic_id = ZERO_UUID if found is None else found.topic_id
    count = 0 if found is None else len(found.partitions)
    rows = []
    for partition in topic.partitions:
        index = partition.partition_index
        row = AlteredPartition(partition_index=index)
        if index >= count:
            row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            row.error_message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message
        elif (error := refused.get(ShareKey(group_id, topic_id, index))) is not None:
            row.error_code = error.code
            row.error_message = error.message or error.code.message
        rows.append(row)
    return AlteredTopic(topic_name=topic.topic_name, topic_id=topic_id, partitions=rows)


# DeleteShareGroupOffsets


@sees_ended_sessions
def handle_delete_share_group_offsets(
    call: Call, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse | Waiting[DeleteShareGroupOffsetsResponse]:
    """Delete the share state of topics of a group without members."""
    node, group_id = call.node, request.group_id
    check_share_groups_enabled(node)
    _check_group_id(group_id)
    names = [topic.topic_name for topic in request.topics]
    shard = node.groups.locate(group_id, node.id)
    deletion = shard.write_immediately(
        lambda machine, _: machine.share.begin_deleting_offsets(group_id, names)
    )

    def response(errors: Mapping[bytes, KafkaError]) -> DeleteShareGroupOffsetsResponse:
        rows = _deletion_rows(call, group_id, deletion, errors)
        _report_refused(call, group_id, deletion)
        deleted_topic_ids = [row.topic_id for row in rows if row.error_code == ErrorCode.NONE]
        if deleted_topic_ids:
            shard.write(
                lambda machine, _: machine.share.record_deleted_state(group_id, deleted_topic_ids)
            )
        for name, (code, message) in deletion.refused.items():
            rows.append(DeletedTopic(topic_name=name, error_code=code, error_message=message))
        return DeleteShareGroupOffsetsResponse(responses=rows)

    if not deletion.partitions:
        return response({})
    node.share_persister.ensure_topic()
    return chain(delete_share_states(node, group_id, deletion.partitions), response)


def _report_refused(call: Call, group_id: str, deletion: StateDeletion) -> None:
    """Add one entry to the history for all topics without share state."""
    if not deletion.refused:
        return
    names = sorted(deletion.refused)[:_MAX_TOPICS_IN_EVENT]
    refusal = KafkaError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"offsets of {len(deletion.refused)} topics were not deleted: the group has none",
        {"rule": "share-state", "topics": names},
    )
    report_refusal(call, "DeleteShareGroupOffsets", group_id, refusal)


def _deletion_rows(
    call: Call, group_id: str, deletion: StateDeletion, errors: Mapping[bytes, KafkaError]
) -> list[DeletedTopic]:
    for first in islice(errors.values(), 1):
        report_refusal(call, "DeleteShareGroupOffsets", group_id, first)
    topics = call.node.image.topics_by_id
    rows = []
    for topic_id in deletion.partitions:
        row = DeletedTopic(topic_id=topic_id, topic_name=topics[topic_id].name)
        if (error := errors.get(topic_id)) is not None:
            row.error_code, row.error_message = error.code, error.code.message
        rows.append(row)
    return rows


APIS = (
    Api(
        key=DescribeShareGroupOffsetsRequest.API_KEY,
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(0, 1),
        handler=handle_describe_share_group_offsets,
        check_first=lambda call, _: check_share_groups_enabled(call.node),
    ),
    Api(
        key=AlterShareGroupOffsetsRequest.API_KEY,
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(0, 0),
        handler=handle_alter_share_group_offsets,
        check_first=lambda call, _: check_share_groups_enabled(call.node),
    ),
    Api(
        key=DeleteShareGroupOffsetsRequest.API_KEY,
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(0, 0),
        handler=handle_delete_share_group_offsets,
        check_first=lambda call, _: check_share_groups_enabled(call.node),
    ),
)
