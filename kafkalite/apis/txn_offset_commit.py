"""TxnOffsetCommit: offsets that count once the transaction is committed (KIP-98, 447, 890)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.apis.contract import Api, Eras
from kafkalite.apis.offsets import note_strangers
from kafkalite.apis.refusals import note_refusal, note_refusals
from kafkalite.coordinator.active import APPEND_ERRORS
from kafkalite.coordinator.contract import SubjectKind
from kafkalite.groups.group import CommitClaim
from kafkalite.groups.offsets import OffsetToCommit
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.ports.waiting import when
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafkalite.protocol.versions import Versions
from kafkalite.transactions.state import NO_PRODUCER_ID, Producer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.apis.context import RequestContext
    from kafkalite.coordinator.active import ActiveShard
    from kafkalite.coordinator.contract import CoordinatorResult
    from kafkalite.groups.shard import GroupShard
    from kafkalite.metadata.image import TopicImage
    from kafkalite.ports.waiting import Waiting

    Decide = Callable[[GroupShard, int], CoordinatorResult[Sequence[ErrorCode]]]

_Partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
_Answer = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition
_Topic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic

_API = "TxnOffsetCommit"

_EVERY_CLIENT = {
    **APPEND_ERRORS,
    # A producer is told by others than its coordinator that it is fenced (KIP-588).
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
}
_WITHOUT_ABORTABLE = {
    **_EVERY_CLIENT,
    ErrorCode.TRANSACTION_ABORTABLE: ErrorCode.INVALID_TXN_STATE,
}
_WITHOUT_LOADING = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE}


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitEra:
    """What a range of TxnOffsetCommit versions means, once its bytes are out of the way."""

    adds_partitions: bool = False
    """The groups' partition joins the transaction by being committed to."""
    admission: Mapping[ErrorCode, ErrorCode]
    """The transaction coordinator's errors → what such a client is told instead."""
    unknown_words: Mapping[ErrorCode, ErrorCode]
    """Errors that such a client does not know → what it is told instead."""


# Producers before v2 could trip over a coordinator that loads. TRANSACTION_ABORTABLE came with the
# first part of KIP-890, and joining by writing with its second.
_FIRST_ERA = TxnOffsetCommitEra(admission=_WITHOUT_ABORTABLE, unknown_words=_WITHOUT_LOADING)
TXN_OFFSET_COMMIT_ERAS = Eras(
    (0, _FIRST_ERA),
    (2, replace(_FIRST_ERA, unknown_words={})),
    (4, TxnOffsetCommitEra(admission=_EVERY_CLIENT, unknown_words={})),
    (5, TxnOffsetCommitEra(adds_partitions=True, admission=_EVERY_CLIENT, unknown_words={})),
)


class _Asked(NamedTuple):
    """A request, taken apart: what goes to the coordinator, and what is refused before."""

    wishes: list[OffsetToCommit]
    answers: list[_Answer]
    """One for each wish, in its order."""
    accepted: list[_Topic]
    """The same answers by topics."""
    refused: dict[str, _Topic]


def handle_txn_offset_commit(
    context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Waiting[TxnOffsetCommitResponse]:
    """Keep offsets of the partitions that exist until their transaction ends."""
    asked = _take_apart(context, request)
    if not asked.wishes:
        return _merged(asked)

    def fill_in(codes: Sequence[ErrorCode]) -> TxnOffsetCommitResponse:
        for answer, code in zip(asked.answers, codes, strict=True):
            answer.error_code = code
        return _merged(asked)

    try:
        shard = _locate(context, request.group_id)
        producer = Producer(request.producer_id, request.producer_epoch)
        _admit(context, request, shard, producer)
        return when(_commit(context, request, shard, producer, asked.wishes), fill_in)
    except KafkaError as refusal:
        return fill_in([refusal.code] * len(asked.answers))


def _take_apart(context: RequestContext, request: TxnOffsetCommitRequest) -> _Asked:
    image = context.services.metadata.image
    asked = _Asked([], [], [], {})
    strangers: list[tuple[str, int]] = []
    for topic in request.topics:
        found = image.topics.get(topic.name)
        known: list[_Answer] = []
        unknown: list[_Answer] = []
        count = 0 if found is None else len(found.partitions)
        for wanted in topic.partitions:
            index = wanted.partition_index
            if found is not None and 0 <= index < count:
                known.append(_Answer(partition_index=index))
                asked.wishes.append(_wish(found, wanted))
            else:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                unknown.append(_Answer(partition_index=index, error_code=code))
                strangers.append((topic.name, index))
        asked.answers.extend(known)
        if known:
            asked.accepted.append(_Topic(name=topic.name, partitions=known))
        if unknown or found is None:
            refused = asked.refused.setdefault(topic.name, _Topic(name=topic.name, partitions=[]))
            refused.partitions.extend(unknown)
    if strangers:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        note_strangers(context, _API, request, strangers, code)
    return asked


def _wish(topic: TopicImage, wanted: _Partition) -> OffsetToCommit:
    return OffsetToCommit(
        topic=topic.name,
        topic_id=topic.topic_id,
        partition=wanted.partition_index,
        offset=wanted.committed_offset,
        leader_epoch=wanted.committed_leader_epoch,
        metadata=wanted.committed_metadata,
    )


def _merged(asked: _Asked) -> TxnOffsetCommitResponse:
    """Return both kinds of answers as Kafka puts them together: what it refused itself goes first.

    Only where there is such a thing, a topic that was named twice is answered in one place.
    """
    if not asked.refused:
        return TxnOffsetCommitResponse(topics=asked.accepted)
    merged = dict(asked.refused)
    for topic in asked.accepted:
        there = merged.setdefault(topic.name, topic)
        if there is not topic:
            there.partitions.extend(topic.partitions)
    return TxnOffsetCommitResponse(topics=list(merged.values()))


def _locate(context: RequestContext, group_id: str) -> ActiveShard[GroupShard]:
    """Return the shard of a group; KafkaError when it has none here."""
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    if OFFSETS_TOPIC not in context.services.metadata.image.topics:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return context.services.groups.locate(group_id, context.node_id)


def _admit(
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    shard: ActiveShard[GroupShard],
    producer: Producer,
) -> None:
    """Raise KafkaError unless the producer may write in its transaction to the group's partition.

    The transaction coordinator is asked only where the transaction is not open here yet.
    """
    era: TxnOffsetCommitEra = context.era
    services = context.services
    is_verified = services.config.bool("transaction.partition.verification.enable")
    if not (era.adds_partitions or is_verified):
        return
    try:
        if shard.is_in_transaction(producer):
            return
    except KafkaError as fenced:
        note_refusals(context, _API, fenced, request)
        raise
    place = (OFFSETS_TOPIC, shard.partition)
    codes = services.transactions.admit(
        request.transactional_id, producer, (place,), adds=era.adds_partitions
    )
    code = codes[place]
    if code is not ErrorCode.NONE:
        refusal = _not_admitted(request, shard.partition, era.admission.get(code, code), code)
        note_refusal(context, _API, request.group_id, refusal, request)
        if code is ErrorCode.TRANSACTION_ABORTABLE:
            # All else the transaction coordinator has noted itself.
            name = request.transactional_id
            note_refusal(context, _API, name, refusal, request, of=SubjectKind.TRANSACTIONAL_ID)
        raise refusal


def _not_admitted(
    request: TxnOffsetCommitRequest, partition: int, told: ErrorCode, code: ErrorCode
) -> KafkaError:
    return KafkaError(
        told,
        f"offset commit of producer {request.producer_id} at epoch {request.producer_epoch} "
        f"refused: {OFFSETS_TOPIC}-{partition} is not in the transaction of "
        f"{request.transactional_id}, whose coordinator says {code.name}",
        {"rule": "transaction", "coordinator_error": code.name},
    )


def _commit(
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    shard: ActiveShard[GroupShard],
    producer: Producer,
    wishes: Sequence[OffsetToCommit],
) -> Sequence[ErrorCode] | Waiting[Sequence[ErrorCode]]:
    """Let the group decide; KafkaError when it refuses, or when the log does."""
    claim = CommitClaim(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation_id_or_member_epoch=request.generation_id,
        is_transactional=True,
        # To producers of today as of old a member epoch is a generation.
        stale_member_epoch=ErrorCode.ILLEGAL_GENERATION,
        wishes=wishes,
    )

    def decide(machine: GroupShard, now_ms: int) -> CoordinatorResult[Sequence[ErrorCode]]:
        return machine.offsets.commit(
            request.group_id,
            claim,
            wishes,
            now_ms,
            unknown_group=ErrorCode.ILLEGAL_GENERATION,
            retention_ms=None,
        )

    try:
        if producer.producer_id <= NO_PRODUCER_ID:
            # Only where nothing is verified does it come to this; then it is nobody's transaction.
            return shard.write(decide)
        return shard.write_transactional(producer, decide)
    except KafkaError as refusal:
        note_refusals(context, _API, refusal, request)
        raise


def refuse_txn_offset_commit(
    request: TxnOffsetCommitRequest, code: ErrorCode, message: str | None
) -> TxnOffsetCommitResponse:
    """Say an error of every partition; there is no other field for it."""
    del message
    return TxnOffsetCommitResponse(
        topics=[
            _Topic(
                name=topic.name,
                partitions=[
                    _Answer(partition_index=wanted.partition_index, error_code=code)
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def lower_txn_offset_commit(
    response: TxnOffsetCommitResponse, version: int
) -> TxnOffsetCommitResponse:
    """Return the response in words this version knows."""
    substitutes = TXN_OFFSET_COMMIT_ERAS.at(version).unknown_words
    for topic in response.topics if substitutes else ():
        for answer in topic.partitions:
            code = ErrorCode(answer.error_code)
            answer.error_code = substitutes.get(code, code)
    return response


APIS = (
    Api(
        key=28,
        versions=Versions(0, 5),
        handler=handle_txn_offset_commit,
        refuse=refuse_txn_offset_commit,
        eras=TXN_OFFSET_COMMIT_ERAS,
        lower=lower_txn_offset_commit,
    ),
)
