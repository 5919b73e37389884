"""TxnOffsetCommit: offsets that are committed with a transaction (KIP-98, 447, 890)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkalite.apis.groups.offset_commit import report_unknown_partitions
from kafkalite.apis.transactions.verification import VERIFICATION_KEY
from kafkalite.coordinator.active_shard import APPEND_ERRORS
from kafkalite.gateway.api import MAX_ELEMENTS_WITH_PARTITIONS, Api, Eras
from kafkalite.gateway.refusals import report_refusal, report_refusal_of_request
from kafkalite.groups.group import CommitClaim
from kafkalite.groups.offsets import OffsetToCommit
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.turns import in_steps
from kafkalite.ports.waiting import when
from kafkalite.protocol._generated.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.protocol.versions import Versions
from kafkalite.transactions.state import NO_PRODUCER_ID, ProducerIdAndEpoch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.coordinator.active_shard import ActiveShard
    from kafkalite.coordinator.contract import CoordinatorResult
    from kafkalite.gateway.call import Call
    from kafkalite.groups.shard import GroupShard
    from kafkalite.metadata.image import TopicImage
    from kafkalite.ports.waiting import Waiting

    Decide = Callable[[GroupShard, int], CoordinatorResult[Sequence[ErrorCode]]]

_RequestedTopic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
_Partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
_Answer = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition
_Topic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic

_API = "TxnOffsetCommit"
_UNKNOWN_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_NO_EPOCH = -1

_COORDINATOR_ERRORS = {
    **APPEND_ERRORS,
    # KIP-588: only the transaction coordinator answers PRODUCER_FENCED to a fenced producer.
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
}
_COORDINATOR_ERRORS_BEFORE_ABORTABLE = {
    **_COORDINATOR_ERRORS,
    ErrorCode.TRANSACTION_ABORTABLE: ErrorCode.INVALID_TXN_STATE,
}
_ERRORS_BEFORE_LOADING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitEra:
    """Traits of a range of TxnOffsetCommit versions."""

    adds_partitions: bool = False
    """The partition of the group's offsets is added to the transaction by the commit."""
    coordinator_errors: Mapping[ErrorCode, ErrorCode]
    """Error of the transaction coordinator → error for a client of these versions."""
    substitutes: Mapping[ErrorCode, ErrorCode]
    """Error that a client of these versions does not know → error that it gets instead."""
    unknown_group: ErrorCode = ErrorCode.ILLEGAL_GENERATION
    stale_member_epoch: ErrorCode = ErrorCode.ILLEGAL_GENERATION
    unknown_topic: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    uses_topic_ids: bool = False


# Producers before v2 do not expect a loading coordinator. The first part of KIP-890 added
# TRANSACTION_ABORTABLE; since its second part the commit itself adds the partition. Since v6
# (KIP-1319) topics have ids instead of names, and the errors are those of OffsetCommit.
_FIRST_ERA = TxnOffsetCommitEra(
    coordinator_errors=_COORDINATOR_ERRORS_BEFORE_ABORTABLE, substitutes=_ERRORS_BEFORE_LOADING
)
_ERA_OF_V5 = TxnOffsetCommitEra(
    adds_partitions=True, coordinator_errors=_COORDINATOR_ERRORS, substitutes={}
)
TXN_OFFSET_COMMIT_ERAS = Eras(
    (0, _FIRST_ERA),
    (2, replace(_FIRST_ERA, substitutes={})),
    (4, TxnOffsetCommitEra(coordinator_errors=_COORDINATOR_ERRORS, substitutes={})),
    (5, _ERA_OF_V5),
    (
        6,
        replace(
            _ERA_OF_V5,
            unknown_group=ErrorCode.GROUP_ID_NOT_FOUND,
            stale_member_epoch=ErrorCode.STALE_MEMBER_EPOCH,
            unknown_topic=ErrorCode.UNKNOWN_TOPIC_ID,
            uses_topic_ids=True,
        ),
    ),
)


class _ParsedRequest(NamedTuple):
    """A request in two parts: offsets for the group coordinator, and refused partitions."""

    offsets: list[OffsetToCommit]
    answers: list[_Answer]
    """One for each offset, in the same order."""
    accepted: list[_Topic]
    """The same answers by topic."""
    refused: dict[str | bytes, _Topic]
    """Topic name, or topic id if the request has ids → refused partitions."""


def handle_txn_offset_commit(
    call: Call, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Waiting[TxnOffsetCommitResponse]:
    """Store offsets of existing partitions until their transaction ends."""
    parsed = _parse(call, request)
    if not parsed.offsets:
        return _build_response(parsed)

    def set_error_codes(codes: Sequence[ErrorCode]) -> TxnOffsetCommitResponse:
        for answer, code in zip(parsed.answers, codes, strict=True):
            answer.error_code = code
        return _build_response(parsed)

    try:
        shard = _locate(call, request.group_id)
        producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        _verify_or_add_partition(call, request, shard, producer)
        return when(_commit(call, request, shard, producer, parsed.offsets), set_error_codes)
    except KafkaError as refusal:
        return set_error_codes([refusal.code] * len(parsed.answers))


def _parse(call: Call, request: TxnOffsetCommitRequest) -> _ParsedRequest:
    era: TxnOffsetCommitEra = call.era
    image = call.node.image
    parsed = _ParsedRequest([], [], [], {})
    unknown_partitions: list[tuple[str, int]] = []
    codes: list[ErrorCode] = []
    has_partition_epochs = call.node.config.uses_partition_epochs
    for topic in request.topics:
        found = (
            image.topics_by_id.get(topic.topic_id)
            if era.uses_topic_ids
            else image.topics.get(topic.name)
        )
        unknown_code = era.unknown_topic if found is None else _UNKNOWN_PARTITION
        known: list[_Answer] = []
        unknown: list[_Answer] = []
        count = 0 if found is None else len(found.partitions)
        for requested in topic.partitions:
            index = requested.partition_index
            if found is not None and 0 <= index < count:
                known.append(_Answer(partition_index=index))
                offset = _offset_to_commit(found, requested)
                if has_partition_epochs:
                    offset.incarnation_epoch = max(_NO_EPOCH, requested.incarnation_epoch)
                parsed.offsets.append(offset)
            else:
                unknown.append(_Answer(partition_index=index, error_code=unknown_code))
                unknown_partitions.append((topic.name or uuid_to_text(topic.topic_id), index))
                codes.append(unknown_code)
        parsed.answers.extend(known)
        if known:
            parsed.accepted.append(_new_topic(topic, known))
        if unknown or found is None:
            refused = parsed.refused.setdefault(_topic_key(topic), _new_topic(topic, []))
            refused.partitions.extend(unknown)
    if unknown_partitions:
        report_unknown_partitions(call, _API, request, unknown_partitions, codes[0])
    return parsed


def _new_topic(topic: _RequestedTopic, partitions: list[_Answer]) -> _Topic:
    return _Topic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _topic_key(topic: _RequestedTopic | _Topic) -> str | bytes:
    return topic.name or topic.topic_id


def _offset_to_commit(topic: TopicImage, requested: _Partition) -> OffsetToCommit:
    return OffsetToCommit(
        topic=topic.name,
        topic_id=topic.topic_id,
        partition=requested.partition_index,
        offset=requested.committed_offset,
        leader_epoch=requested.committed_leader_epoch,
        metadata=requested.committed_metadata,
    )


def _build_response(parsed: _ParsedRequest) -> TxnOffsetCommitResponse:
    """Return both kinds of answers in Kafka's order: refused partitions first.

    Topics that occur twice in the request are merged only if there are refused partitions.
    """
    if not parsed.refused:
        return TxnOffsetCommitResponse(topics=parsed.accepted)
    merged = dict(parsed.refused)
    for topic in parsed.accepted:
        existing = merged.setdefault(_topic_key(topic), topic)
        if existing is not topic:
            existing.partitions.extend(topic.partitions)
    return TxnOffsetCommitResponse(topics=list(merged.values()))


def _locate(call: Call, group_id: str) -> ActiveShard[GroupShard]:
    """Return the shard of a group; raises KafkaError if this node has none."""
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    if OFFSETS_TOPIC not in call.node.image.topics:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return call.node.groups.locate(group_id, call.node.id)


def _verify_or_add_partition(
    call: Call,
    request: TxnOffsetCommitRequest,
    shard: ActiveShard[GroupShard],
    producer: ProducerIdAndEpoch,
) -> None:
    """Raise KafkaError unless the transaction may write to the partition of the group's offsets.

    The transaction coordinator is asked only if the transaction is not yet open on this partition.
    """
    era: TxnOffsetCommitEra = call.era
    node = call.node
    if not (era.adds_partitions or node.config.bool(VERIFICATION_KEY)):
        return
    try:
        if shard.is_in_transaction(producer):
            return
    except KafkaError as fenced:
        report_refusal_of_request(call, _API, fenced, request)
        raise
    offsets_partition = (OFFSETS_TOPIC, shard.partition)
    codes = node.transactions.verify_or_add_partitions(
        request.transactional_id, producer, (offsets_partition,), adds_missing=era.adds_partitions
    )
    code = codes[offsets_partition]
    if code is not ErrorCode.NONE:
        refusal = _verification_error(
            request, shard.partition, era.coordinator_errors.get(code, code), code
        )
        report_refusal(call, _API, request.group_id, refusal, request)
        if code is ErrorCode.TRANSACTION_ABORTABLE:
            # The transaction coordinator has reported all other errors itself.
            name = request.transactional_id
            report_refusal(call, _API, name, refusal, request, kind=Entity.TRANSACTIONAL_ID)
        raise refusal


def _verification_error(
    request: TxnOffsetCommitRequest, partition: int, client_code: ErrorCode, code: ErrorCode
) -> KafkaError:
    return KafkaError(
        client_code,
        f"offset commit of producer {request.producer_id} at epoch {request.producer_epoch} "
        f"refused: {OFFSETS_TOPIC}-{partition} is not in the transaction of "
        f"{request.transactional_id}, whose coordinator answers {code.name}",
        {"rule": "transaction", "coordinator_error": code.name},
    )


def _commit(
    call: Call,
    request: TxnOffsetCommitRequest,
    shard: ActiveShard[GroupShard],
    producer: ProducerIdAndEpoch,
    offsets: Sequence[OffsetToCommit],
) -> Sequence[ErrorCode] | Waiting[Sequence[ErrorCode]]:
    """Commit offsets in the group; raises KafkaError if the group or the log refuses them."""
    era: TxnOffsetCommitEra = call.era
    claim = CommitClaim(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        is_transactional=True,
        stale_member_epoch_code=era.stale_member_epoch,
        offsets=offsets,
    )

    def decide(machine: GroupShard, now_ms: int) -> CoordinatorResult[Sequence[ErrorCode]]:
        return machine.offsets.commit(
            request.group_id,
            claim,
            offsets,
            now_ms,
            unknown_group=era.unknown_group,
            retention_ms=None,
        )

    try:
        if producer.producer_id <= NO_PRODUCER_ID:
            # This happens only without verification. Records without a producer are in no
            # transaction.
            return shard.write(decide)
        return shard.write_transactional(producer, decide)
    except KafkaError as refusal:
        report_refusal_of_request(call, _API, refusal, request)
        raise


def lower_txn_offset_commit(
    response: TxnOffsetCommitResponse, version: int
) -> TxnOffsetCommitResponse:
    """Return the response with error codes that this version knows."""
    substitutes = TXN_OFFSET_COMMIT_ERAS.at(version).substitutes
    for topic in response.topics if substitutes else ():
        for answer in in_steps(topic.partitions):
            code = ErrorCode(answer.error_code)
            answer.error_code = substitutes.get(code, code)
    return response


APIS = (
    Api(
        key=ApiKey.TXN_OFFSET_COMMIT,
        max_elements=MAX_ELEMENTS_WITH_PARTITIONS,
        versions=Versions(0, 6),
        handler=handle_txn_offset_commit,
        eras=TXN_OFFSET_COMMIT_ERAS,
        lower=lower_txn_offset_commit,
    ),
)
