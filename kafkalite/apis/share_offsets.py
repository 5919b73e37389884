"""Describe-, Alter- and DeleteShareGroupOffsets: where share groups read, and moving that.

A group knows which of its partitions have share state; where each stands is kept by the share
coordinator. So each of these asks both.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, cast

from kafkalite.apis.contract import Api
from kafkalite.apis.descriptions import MOST_NOTED
from kafkalite.apis.refusals import note_refusal
from kafkalite.apis.repeats import Repeats
from kafkalite.apis.share_deletion import delete_share_states
from kafkalite.apis.share_groups import check_share_groups_enabled
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from kafkalite.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from kafkalite.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.apis.context import RequestContext, Services
    from kafkalite.groups.share.intents import ShareStart
    from kafkalite.groups.share.offsets import Doomed

DescribedGroup = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
DescribedTopic = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic
DescribedPartition = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition
AlteredTopic = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic
AlteredPartition = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition
DeletedTopic = DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic

_NAMED_AT_MOST = 10
"""How many topics an explanation names."""

_UNKNOWN = -1
"""In the place of an offset, a count or a lag that nobody knows."""


# DescribeShareGroupOffsets


def handle_describe_share_group_offsets(
    context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    """Say where groups read: the partitions asked for, or all that have share state."""
    check_share_groups_enabled(context.services)
    repeats = Repeats()
    return DescribeShareGroupOffsetsResponse(
        groups=[
            _describe(context, group.group_id, group.topics, repeats, is_noted=index < MOST_NOTED)
            for index, group in enumerate(request.groups)
        ]
    )


def _describe(
    context: RequestContext,
    group_id: str,
    topics: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None,
    repeats: Repeats,
    *,
    is_noted: bool,
) -> DescribedGroup:
    services = context.services
    image = services.metadata.image
    if topics is not None:
        if any(t.topic_name in image.topics and not (group_id and t.partitions) for t in topics):
            # What cannot be asked of a share coordinator fails in Kafka, the group as a whole.
            fault = ErrorCode.UNKNOWN_SERVER_ERROR
            return DescribedGroup(group_id=group_id, error_code=fault, error_message=fault.message)
        rows = [_describe_topic(services, group_id, t.topic_name, t.partitions) for t in topics]
        return DescribedGroup(group_id=group_id, topics=rows)
    try:
        repeats.check(group_id)
        shard = services.groups.locate(group_id, context.node_id)
    except KafkaError as error:
        if is_noted:
            note_refusal(context, "DescribeShareGroupOffsets", group_id, error)
        return DescribedGroup(
            group_id=group_id, error_code=error.code, error_message=error.code.message
        )
    initialized = shard.machine.share.initialized(group_id)
    return DescribedGroup(
        group_id=group_id,
        topics=[
            _describe_topic(services, group_id, topic.name, partitions)
            for topic_id, partitions in initialized.items()
            if (topic := image.topics_by_id.get(topic_id)) is not None
        ],
    )


def _describe_topic(
    services: Services, group_id: str, name: str, partitions: Iterable[int]
) -> DescribedTopic:
    topic = services.metadata.image.topics.get(name)
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
            _describe_partition(services, group_id, name, topic.topic_id, index)
            for index in partitions
        ],
    )


def _describe_partition(
    services: Services, group_id: str, topic_name: str, topic_id: bytes, index: int
) -> DescribedPartition:
    """Say where one share partition stands; one without share state stands nowhere."""
    row = DescribedPartition(partition_index=index, start_offset=_UNKNOWN, lag=_UNKNOWN)
    try:
        summary = services.shares.summary(group_id, topic_id, index)
    except KafkaError:
        return row
    row.start_offset = summary.start_offset
    row.leader_epoch = summary.leader_epoch
    if _UNKNOWN in (summary.start_offset, summary.delivery_complete_count):
        return row
    topic = services.partitions.topic(topic_name)
    partition = None if topic is None else topic.partition(index)
    if partition is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DescribedPartition(
            partition_index=index, error_code=code, error_message=code.message
        )
    done = summary.start_offset + summary.delivery_complete_count
    row.lag = partition.limit_offset(committed=False) - done
    return row


def refuse_describe_share_group_offsets(
    request: DescribeShareGroupOffsetsRequest, code: ErrorCode, message: str | None
) -> DescribeShareGroupOffsetsResponse:
    """Say the same error of every group asked for."""
    return DescribeShareGroupOffsetsResponse(
        groups=[
            DescribedGroup(group_id=group.group_id, error_code=code, error_message=message)
            for group in request.groups
        ]
    )


# AlterShareGroupOffsets


def handle_alter_share_group_offsets(
    context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    """Let a group without members read from other offsets; one that does not exist begins."""
    services, group_id = context.services, request.group_id
    check_share_groups_enabled(services)
    _check_group_id(group_id)
    wanted = _wanted_offsets(services, request)
    shard = services.groups.locate(group_id, context.node_id)
    starts = cast(
        "tuple[ShareStart, ...]",
        shard.write(lambda machine, _: machine.share.alter_offsets(group_id, wanted)),
    )
    refused: Mapping[tuple[bytes, int], KafkaError] = {}
    if starts:
        services.shares.have_topic()
        refused = _start(services, group_id, starts)
        for error in islice(refused.values(), 1):
            note_refusal(context, "AlterShareGroupOffsets", group_id, error)
        if not refused:
            shard.write(lambda machine, _: machine.share.offsets_initialized(group_id, starts))
    return AlterShareGroupOffsetsResponse(
        responses=[_altered_topic(services, topic, refused) for topic in request.topics]
    )


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)


def _wanted_offsets(
    services: Services, request: AlterShareGroupOffsetsRequest
) -> dict[bytes, dict[int, int]]:
    """Return the offsets wanted of partitions that exist: topic id → partition → offset.

    KafkaError(UNKNOWN_SERVER_ERROR) for an index below zero: in Kafka it is a fault, found late.
    """
    topics = services.metadata.image.topics
    wanted: dict[bytes, dict[int, int]] = {}
    for topic in request.topics:
        found = topics.get(topic.topic_name)
        if found is None:
            continue
        offsets = wanted.setdefault(found.topic_id, {})
        for partition in topic.partitions:
            index = partition.partition_index
            if index < 0:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{index} is no partition.")
            if index < len(found.partitions):
                offsets[index] = partition.start_offset
    return wanted


def _start(
    services: Services, group_id: str, starts: Iterable[ShareStart]
) -> dict[tuple[bytes, int], KafkaError]:
    """Begin share state at these offsets; return what went wrong, partition by partition."""
    refused: dict[tuple[bytes, int], KafkaError] = {}
    for start in starts:
        try:
            services.shares.initialize_state(
                group_id,
                start.topic_id,
                start.partition,
                state_epoch=start.state_epoch,
                start_offset=start.start_offset,
            )
        except KafkaError as error:
            refused[start.topic_id, start.partition] = error
    return refused


def _altered_topic(
    services: Services,
    topic: AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic,
    refused: Mapping[tuple[bytes, int], KafkaError],
) -> AlteredTopic:
    found = services.metadata.image.topics.get(topic.topic_name)
    topic_id = ZERO_UUID if found is None else found.topic_id
    count = 0 if found is None else len(found.partitions)
    rows = []
    for partition in topic.partitions:
        index = partition.partition_index
        row = AlteredPartition(partition_index=index)
        if index >= count:
            row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            row.error_message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message
        elif (error := refused.get((topic_id, index))) is not None:
            row.error_code = error.code
            row.error_message = error.message or error.code.message
        rows.append(row)
    return AlteredTopic(topic_name=topic.topic_name, topic_id=topic_id, partitions=rows)


def refuse_alter_share_group_offsets(
    request: AlterShareGroupOffsetsRequest,  # noqa: ARG001 - every refusal has this shape
    code: ErrorCode,
    message: str | None,
) -> AlterShareGroupOffsetsResponse:
    """Say an error of the request as a whole."""
    return AlterShareGroupOffsetsResponse(error_code=code, error_message=message or code.message)


# DeleteShareGroupOffsets


def handle_delete_share_group_offsets(
    context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    """Let a group without members forget where it reads some topics."""
    services, group_id = context.services, request.group_id
    check_share_groups_enabled(services)
    _check_group_id(group_id)
    names = [topic.topic_name for topic in request.topics]
    shard = services.groups.locate(group_id, context.node_id)
    doomed = cast(
        "Doomed",
        shard.write(lambda machine, _: machine.share.begin_deleting_offsets(group_id, names)),
    )
    rows = _delete(context, group_id, doomed)
    _note_refused(context, group_id, doomed)
    done = [row.topic_id for row in rows if row.error_code == ErrorCode.NONE]
    if done:
        shard.write(lambda machine, _: machine.share.offsets_deleted(group_id, done))
    for name, (code, message) in doomed.refused.items():
        rows.append(DeletedTopic(topic_name=name, error_code=code, error_message=message))
    return DeleteShareGroupOffsetsResponse(responses=rows)


def _note_refused(context: RequestContext, group_id: str, doomed: Doomed) -> None:
    """Note once for all topics that there was nothing to delete."""
    if not doomed.refused:
        return
    names = sorted(doomed.refused)[:_NAMED_AT_MOST]
    refusal = KafkaError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"offsets of {len(doomed.refused)} topics were not deleted: the group has none",
        {"rule": "share-state", "topics": names},
    )
    note_refusal(context, "DeleteShareGroupOffsets", group_id, refusal)


def _delete(context: RequestContext, group_id: str, doomed: Doomed) -> list[DeletedTopic]:
    services = context.services
    if not doomed.partitions:
        return []
    services.shares.have_topic()
    refused = delete_share_states(services, group_id, doomed.partitions)
    for first in islice(refused.values(), 1):
        note_refusal(context, "DeleteShareGroupOffsets", group_id, first)
    rows = []
    for topic_id in doomed.partitions:
        row = DeletedTopic(
            topic_id=topic_id, topic_name=services.metadata.image.topics_by_id[topic_id].name
        )
        if (error := refused.get(topic_id)) is not None:
            row.error_code, row.error_message = error.code, error.code.message
        rows.append(row)
    return rows


def refuse_delete_share_group_offsets(
    request: DeleteShareGroupOffsetsRequest,  # noqa: ARG001 - every refusal has this shape
    code: ErrorCode,
    message: str | None,
) -> DeleteShareGroupOffsetsResponse:
    """Say an error of the request as a whole."""
    return DeleteShareGroupOffsetsResponse(error_code=code, error_message=message or code.message)


APIS = (
    Api(
        key=DescribeShareGroupOffsetsRequest.API_KEY,
        versions=Versions(0, 1),
        handler=handle_describe_share_group_offsets,
        refuse=refuse_describe_share_group_offsets,
    ),
    Api(
        key=AlterShareGroupOffsetsRequest.API_KEY,
        versions=Versions(0, 0),
        handler=handle_alter_share_group_offsets,
        refuse=refuse_alter_share_group_offsets,
    ),
    Api(
        key=DeleteShareGroupOffsetsRequest.API_KEY,
        versions=Versions(0, 0),
        handler=handle_delete_share_group_offsets,
        refuse=refuse_delete_share_group_offsets,
    ),
)
