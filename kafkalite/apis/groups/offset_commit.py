"""OffsetCommit and OffsetDelete: commit and delete offsets of groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kafkalite.gateway.api import MAX_ELEMENTS_AT_ONCE, MAX_ELEMENTS_WITH_PARTITIONS, Api, Eras
from kafkalite.gateway.overdue_calls import sees_ended_sessions
from kafkalite.gateway.refusals import report_refusal
from kafkalite.groups.group import CommitClaim
from kafkalite.groups.offsets import OffsetToCommit
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitResponse
from kafkalite.protocol._generated.messages.offset_delete import OffsetDeleteResponse
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.gateway.call import Call
    from kafkalite.metadata.image import TopicImage
    from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
    from kafkalite.protocol._generated.messages.offset_delete import OffsetDeleteRequest
    from kafkalite.protocol._generated.messages.txn_offset_commit import TxnOffsetCommitRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitEra:
    """Traits of a range of OffsetCommit versions."""

    unknown_group: ErrorCode
    supports_member_epochs: bool
    unknown_topic: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    uses_topic_ids: bool = False
    stores_in_zookeeper: bool = False
    """Whether offsets were stored in ZooKeeper, which a cluster with KRaft does not have."""


# Clients before v9 know only generations, so the error of an unknown group is ILLEGAL_GENERATION.
# Since v10 requests have topic ids instead of topic names.
OFFSET_COMMIT_ERAS = Eras(
    (
        0,
        OffsetCommitEra(
            unknown_group=ErrorCode.ILLEGAL_GENERATION,
            supports_member_epochs=False,
            stores_in_zookeeper=True,
        ),
    ),
    (1, OffsetCommitEra(unknown_group=ErrorCode.ILLEGAL_GENERATION, supports_member_epochs=False)),
    (9, OffsetCommitEra(unknown_group=ErrorCode.GROUP_ID_NOT_FOUND, supports_member_epochs=True)),
    (
        10,
        OffsetCommitEra(
            unknown_group=ErrorCode.GROUP_ID_NOT_FOUND,
            supports_member_epochs=True,
            unknown_topic=ErrorCode.UNKNOWN_TOPIC_ID,
            uses_topic_ids=True,
        ),
    ),
)

_NO_EPOCH = -1
_UNSPECIFIED = -1
"""Value of a retention or timestamp for which the coordinator uses its default."""

_MAX_PARTITIONS_IN_MESSAGE = 5
"""The maximum number of partitions that an error message lists."""

# Bound once: enum attribute access is slow in a per-partition loop.
_UNKNOWN_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_Answer = OffsetCommitResponse.OffsetCommitResponsePartition
_Coded = _Answer | OffsetDeleteResponse.OffsetDeleteResponsePartition
R = TypeVar("R", OffsetCommitResponse, OffsetDeleteResponse)


# OffsetCommit


def handle_offset_commit(
    call: Call, request: OffsetCommitRequest
) -> OffsetCommitResponse | Waiting[OffsetCommitResponse]:
    """Commit the offsets of existing partitions; each other partition gets an error code.

    Raises KafkaError UNSUPPORTED_VERSION for offsets that were stored in ZooKeeper.
    """
    era: OffsetCommitEra = call.era
    if era.stores_in_zookeeper:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    image = call.node.image
    response = OffsetCommitResponse(topics=[])
    offsets: list[OffsetToCommit] = []
    answers: list[_Answer] = []
    unknown_partitions: list[tuple[str, _Answer]] = []
    has_partition_epochs = call.node.config.uses_partition_epochs
    for topic in request.topics:
        topic_image = (
            image.topics_by_id.get(topic.topic_id)
            if era.uses_topic_ids
            else image.topics.get(topic.name)
        )
        partitions: list[_Answer] = []
        response.topics.append(
            OffsetCommitResponse.OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=partitions
            )
        )
        unknown_partition_code = era.unknown_topic if topic_image is None else _UNKNOWN_PARTITION
        count = 0 if topic_image is None else len(topic_image.partitions)
        for requested in topic.partitions:
            answer = _Answer(
                partition_index=requested.partition_index, error_code=unknown_partition_code
            )
            partitions.append(answer)
            if topic_image is not None and 0 <= requested.partition_index < count:
                offset = _offset_to_commit(topic_image, requested)
                if has_partition_epochs:
                    offset.incarnation_epoch = max(_NO_EPOCH, requested.incarnation_epoch)
                offsets.append(offset)
                answers.append(answer)
            else:
                unknown_partitions.append((topic.name or uuid_to_text(topic.topic_id), answer))
    if unknown_partitions:
        partition_names = [(topic, answer.partition_index) for topic, answer in unknown_partitions]
        code = ErrorCode(unknown_partitions[0][1].error_code)
        report_unknown_partitions(call, "OffsetCommit", request, partition_names, code)
    if not offsets:
        return response
    return _commit(call, request, response, offsets, answers)


def report_unknown_partitions(
    call: Call,
    api: str,
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    partitions: Sequence[tuple[str, int]],
    code: ErrorCode,
) -> None:
    """Add the refusal of a commit to unknown partitions to the history."""
    partition_names = [
        f"{topic}-{partition}" for topic, partition in partitions[:_MAX_PARTITIONS_IN_MESSAGE]
    ]
    message = f"{api} of {', '.join(partition_names)} refused: the partition does not exist"
    facts = {"rule": "partition-exists", "partitions": partition_names, "count": len(partitions)}
    report_refusal(call, api, request.group_id, KafkaError(code, message, facts), request)


def _offset_to_commit(
    topic: TopicImage, requested: OffsetCommitRequest.OffsetCommitRequestPartition
) -> OffsetToCommit:
    timestamp_ms = requested.commit_timestamp
    return OffsetToCommit(
        topic=topic.name,
        topic_id=topic.topic_id,
        partition=requested.partition_index,
        offset=requested.committed_offset,
        leader_epoch=requested.committed_leader_epoch,
        metadata=requested.committed_metadata,
        commit_timestamp_ms=None if timestamp_ms == _UNSPECIFIED else timestamp_ms,
    )


def _commit(
    call: Call,
    request: OffsetCommitRequest,
    response: OffsetCommitResponse,
    offsets: Sequence[OffsetToCommit],
    answers: Sequence[_Answer],
) -> OffsetCommitResponse | Waiting[OffsetCommitResponse]:
    """Commit offsets of existing partitions, and fill in their error codes."""
    era: OffsetCommitEra = call.era
    claim = CommitClaim(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        supports_member_epochs=era.supports_member_epochs,
        offsets=offsets,
    )
    retention_ms = None if request.retention_time_ms == _UNSPECIFIED else request.retention_time_ms

    try:
        node = call.node
        shard = node.groups.locate(request.group_id, node.id)
        result = shard.write(
            lambda machine, now_ms: machine.offsets.commit(
                request.group_id,
                claim,
                offsets,
                now_ms,
                unknown_group=era.unknown_group,
                retention_ms=retention_ms,
            )
        )
    except KafkaError as refusal:
        report_refusal(call, "OffsetCommit", request.group_id, refusal, request)
        return _with_codes(response, answers, [refusal.code] * len(answers))
    return _answer(result, response, answers)


def _answer(
    codes: Sequence[ErrorCode] | Waiting[Sequence[ErrorCode]],
    response: R,
    answers: Sequence[_Coded],
) -> R | Waiting[R]:
    """Return the response with the error codes of a decision, which may have to be waited for."""
    if isinstance(codes, Waiting):
        return codes.map(partial(_with_codes, response, answers))
    return _with_codes(response, answers, codes)


def _with_codes(response: R, answers: Sequence[_Coded], codes: Sequence[ErrorCode]) -> R:
    """Set the error codes of partitions in a response, and return it."""
    for answer, code in zip(answers, codes, strict=True):
        answer.error_code = code
    return response


# OffsetDelete


@sees_ended_sessions
def handle_offset_delete(
    call: Call, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Waiting[OffsetDeleteResponse]:
    """Delete offsets of existing partitions of topics that no member subscribes to."""
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    image = call.node.image
    requested: list[tuple[str, int]] = []
    answers: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = []
    response = OffsetDeleteResponse(topics=[])
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            index = partition.partition_index
            answer = OffsetDeleteResponse.OffsetDeleteResponsePartition(
                partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            partitions.append(answer)
            if image.partition(topic.name, index) is not None:
                requested.append((topic.name, index))
                answers.append(answer)
        response.topics.append(
            OffsetDeleteResponse.OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)
        )

    node = call.node
    shard = node.groups.locate(request.group_id, node.id)
    result = shard.write(lambda machine, _: machine.offsets.delete(request.group_id, requested))
    return _answer(result, response, answers)


APIS = (
    Api(
        key=ApiKey.OFFSET_COMMIT,
        max_elements=MAX_ELEMENTS_WITH_PARTITIONS,
        versions=Versions(1, 10),
        handler=handle_offset_commit,
        inline_bytes=8 * 1024,
        eras=OFFSET_COMMIT_ERAS,
        is_batched=True,
    ),
    Api(
        key=ApiKey.OFFSET_DELETE,
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(0, 0),
        handler=handle_offset_delete,
    ),
)
