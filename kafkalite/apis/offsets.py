"""OffsetCommit and OffsetDelete: offsets on their way to the coordinator and out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.apis.contract import Api, Eras
from kafkalite.apis.refusals import note_refusal
from kafkalite.groups.group import CommitClaim
from kafkalite.groups.offsets import OffsetToCommit
from kafkalite.ports.waiting import when
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.offset_commit import OffsetCommitResponse
from kafkalite.protocol.messages.offset_delete import OffsetDeleteResponse
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.apis.context import RequestContext
    from kafkalite.metadata.image import TopicImage
    from kafkalite.ports.waiting import Waiting
    from kafkalite.protocol.messages.offset_commit import OffsetCommitRequest
    from kafkalite.protocol.messages.offset_delete import OffsetDeleteRequest
    from kafkalite.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitEra:
    """What a range of OffsetCommit versions means, once its bytes are out of the way."""

    unknown_group: ErrorCode
    knows_member_epochs: bool
    unknown_topic: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    names_topic_ids: bool = False


# Clients before v9 were written when every group had a generation; to them an unknown group can
# only look like a stale one. Since v10 a topic is named by its id alone.
OFFSET_COMMIT_ERAS = Eras(
    (0, OffsetCommitEra(unknown_group=ErrorCode.ILLEGAL_GENERATION, knows_member_epochs=False)),
    (9, OffsetCommitEra(unknown_group=ErrorCode.GROUP_ID_NOT_FOUND, knows_member_epochs=True)),
    (
        10,
        OffsetCommitEra(
            unknown_group=ErrorCode.GROUP_ID_NOT_FOUND,
            knows_member_epochs=True,
            unknown_topic=ErrorCode.UNKNOWN_TOPIC_ID,
            names_topic_ids=True,
        ),
    ),
)

_UNSAID = -1
"""In the place of a retention or a timestamp: the coordinator's to choose."""

_NAMED = 5
"""So many partitions are named in a sentence."""

# What is asked for once per partition is looked up once: a member of an enum is not found for
# nothing.
_UNKNOWN_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_Answer = OffsetCommitResponse.OffsetCommitResponsePartition


# OffsetCommit


def handle_offset_commit(
    context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Waiting[OffsetCommitResponse]:
    """Commit offsets of the partitions that exist; the others are refused one by one."""
    era: OffsetCommitEra = context.era
    image = context.services.metadata.image
    response = OffsetCommitResponse(topics=[])
    wishes: list[OffsetToCommit] = []
    answers: list[_Answer] = []
    strangers: list[tuple[str, _Answer]] = []
    for topic in request.topics:
        found = (
            image.topics_by_id.get(topic.topic_id)
            if era.names_topic_ids
            else image.topics.get(topic.name)
        )
        partitions: list[_Answer] = []
        response.topics.append(
            OffsetCommitResponse.OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=partitions
            )
        )
        unknown = era.unknown_topic if found is None else _UNKNOWN_PARTITION
        count = 0 if found is None else len(found.partitions)
        for wanted in topic.partitions:
            answer = _Answer(partition_index=wanted.partition_index, error_code=unknown)
            partitions.append(answer)
            if found is not None and 0 <= wanted.partition_index < count:
                wishes.append(_wish(found, wanted))
                answers.append(answer)
            else:
                strangers.append((topic.name or uuid_to_text(topic.topic_id), answer))
    if strangers:
        named = [(topic, answer.partition_index) for topic, answer in strangers]
        code = ErrorCode(strangers[0][1].error_code)
        note_strangers(context, "OffsetCommit", request, named, code)
    if not wishes:
        return response
    return _commit(context, request, response, wishes, answers)


def note_strangers(
    context: RequestContext,
    api: str,
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    strangers: Sequence[tuple[str, int]],
    code: ErrorCode,
) -> None:
    """Tell which partitions are none, before the group is asked about the others."""
    named = [f"{topic}-{partition}" for topic, partition in strangers[:_NAMED]]
    message = f"{api} of {', '.join(named)} refused: there is no such partition"
    facts = {"rule": "partition-exists", "partitions": named, "count": len(strangers)}
    note_refusal(context, api, request.group_id, KafkaError(code, message, facts), request)


def _wish(
    topic: TopicImage, wanted: OffsetCommitRequest.OffsetCommitRequestPartition
) -> OffsetToCommit:
    timestamp_ms = wanted.commit_timestamp
    return OffsetToCommit(
        topic=topic.name,
        topic_id=topic.topic_id,
        partition=wanted.partition_index,
        offset=wanted.committed_offset,
        leader_epoch=wanted.committed_leader_epoch,
        metadata=wanted.committed_metadata,
        commit_timestamp_ms=None if timestamp_ms == _UNSAID else timestamp_ms,
    )


def _commit(
    context: RequestContext,
    request: OffsetCommitRequest,
    response: OffsetCommitResponse,
    wishes: Sequence[OffsetToCommit],
    answers: Sequence[_Answer],
) -> OffsetCommitResponse | Waiting[OffsetCommitResponse]:
    """Let the coordinator decide on what is left, and put its answers in their places."""
    era: OffsetCommitEra = context.era
    claim = CommitClaim(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        knows_member_epochs=era.knows_member_epochs,
        wishes=wishes,
    )
    retention_ms = None if request.retention_time_ms == _UNSAID else request.retention_time_ms

    def fill_in(codes: Sequence[ErrorCode]) -> OffsetCommitResponse:
        for answer, code in zip(answers, codes, strict=True):
            answer.error_code = code
        return response

    try:
        shard = context.services.groups.locate(request.group_id, context.node_id)
        # A group that is not there yet begins with its first commit, which the next must find.
        is_known = shard.machine.group(request.group_id) is not None
        put = shard.gather if context.run is not None and is_known else shard.write
        decided = put(
            lambda machine, now_ms: machine.offsets.commit(
                request.group_id,
                claim,
                wishes,
                now_ms,
                unknown_group=era.unknown_group,
                retention_ms=retention_ms,
            )
        )
    except KafkaError as refusal:
        note_refusal(context, "OffsetCommit", request.group_id, refusal, request)
        return fill_in([refusal.code] * len(answers))
    return when(decided, fill_in)


def refuse_offset_commit(
    request: OffsetCommitRequest, code: ErrorCode, message: str | None
) -> OffsetCommitResponse:
    """Say an error of every partition; there is no other field for it."""
    del message
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponse.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponse.OffsetCommitResponsePartition(
                        partition_index=wanted.partition_index, error_code=code
                    )
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


# OffsetDelete


def handle_offset_delete(
    context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Waiting[OffsetDeleteResponse]:
    """Delete offsets of partitions that exist and that nobody in the group reads."""
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    image = context.services.metadata.image
    wanted: list[tuple[str, int]] = []
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
                wanted.append((topic.name, index))
                answers.append(answer)
        response.topics.append(
            OffsetDeleteResponse.OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)
        )

    def fill_in(codes: Sequence[ErrorCode]) -> OffsetDeleteResponse:
        for answer, code in zip(answers, codes, strict=True):
            answer.error_code = code
        return response

    shard = context.services.groups.locate(request.group_id, context.node_id)
    decided = shard.write(lambda machine, _: machine.offsets.delete(request.group_id, wanted))
    return when(decided, fill_in)


def refuse_offset_delete(
    request: OffsetDeleteRequest, code: ErrorCode, message: str | None
) -> OffsetDeleteResponse:
    """Say an error of OffsetDelete; there is no field for a message."""
    del request, message
    return OffsetDeleteResponse(error_code=code, topics=[])


APIS = (
    Api(
        key=8,
        versions=Versions(1, 10),
        handler=handle_offset_commit,
        refuse=refuse_offset_commit,
        eras=OFFSET_COMMIT_ERAS,
        is_gathered=True,
    ),
    Api(
        key=47,
        versions=Versions(0, 0),
        handler=handle_offset_delete,
        refuse=refuse_offset_delete,
    ),
)
