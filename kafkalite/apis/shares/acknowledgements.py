"""Functions for both ShareFetch and ShareAcknowledge (KIP-932).

They read the session key, validate acknowledgements, and return their results by partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kafkalite.gateway.api import Eras
from kafkalite.gateway.refusals import report_refusal
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.waiting import Waiting, chain, gather
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.shares.acknowledgement import AcknowledgementBatch, AcknowledgeType
from kafkalite.shares.sessions import SessionKey, TopicPartition
from kafkalite.shares.state import ShareKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.cluster.node import Endpoint, Node
    from kafkalite.gateway.call import Call
    from kafkalite.protocol._generated.messages.share_acknowledge import (
        ShareAcknowledgeRequest,
        ShareAcknowledgeResponse,
    )
    from kafkalite.protocol._generated.messages.share_fetch import (
        ShareFetchRequest,
        ShareFetchResponse,
    )

    Request: TypeAlias = ShareFetchRequest | ShareAcknowledgeRequest
    Topic: TypeAlias = ShareFetchRequest.FetchTopic | ShareAcknowledgeRequest.AcknowledgeTopic
    Row: TypeAlias = ShareFetchResponse.PartitionData | ShareAcknowledgeResponse.PartitionData

_MAX_MEMBER_ID_LENGTH = 36
_MAX_GROUPS = 1_000
"""Maximum number of groups per connection whose share sessions end when it closes."""
_MAX_REPORTED = 10
"""Maximum number of refusals of one request that are added to the history."""
_UNKNOWN_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
ERRORS_WITH_LEADER = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareEra:
    """Traits of a range of ShareFetch and ShareAcknowledge versions."""

    knows_renewal: bool


# KIP-1222: from v2 on a member may renew its lock on a record.
SHARE_ERAS = Eras((0, ShareEra(knows_renewal=False)), (2, ShareEra(knows_renewal=True)))


class AcknowledgeResult(NamedTuple):
    """The result of the acknowledgements of one partition."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


def session_key(request: Request) -> SessionKey:
    """Return the session key of a request; raises KafkaError INVALID_REQUEST if it has none."""
    if request.group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A group id is needed.")
    if not request.member_id or len(request.member_id) > _MAX_MEMBER_ID_LENGTH:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"A member id of 1 to {_MAX_MEMBER_ID_LENGTH} characters is needed.",
        )
    return SessionKey(request.group_id, request.member_id)


def acknowledge(  # noqa: C901 - Kafka's checks in order
    call: Call,
    request: Request,
    topics: Iterable[Topic],
    share_key: SessionKey,
) -> dict[TopicPartition, AcknowledgeResult] | Waiting[dict[TopicPartition, AcknowledgeResult]]:
    """Apply the acknowledgements of a request, and return the result for each partition."""
    node = call.node
    refused: dict[TopicPartition, AcknowledgeResult] = {}
    without_batches: dict[TopicPartition, AcknowledgeResult] = {}
    acknowledged: dict[TopicPartition, Waiting[None] | Exception | None] = {}
    errors: list[KafkaError] = []
    validator = _BatchValidator(call.era, is_renewal=request.is_renew_ack)
    for partition, batches in _acknowledgements(topics).items():
        topic = node.image.topics_by_id.get(partition.topic_id)
        if topic is None:
            refused[partition] = _refuse(errors, partition, ErrorCode.UNKNOWN_TOPIC_ID)
        elif not validator.is_valid(batches):
            refused[partition] = _refuse(errors, partition, ErrorCode.INVALID_REQUEST)
        elif not call.allows(Operation.READ, Resource.TOPIC, topic.name):
            refused[partition] = _refuse(errors, partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif not 0 <= partition.index < len(topic.partitions):
            refused[partition] = _refuse(errors, partition, _UNKNOWN_PARTITION)
        elif not batches:
            without_batches[partition] = AcknowledgeResult()
        else:
            try:
                acknowledged[partition] = _acknowledge_partition(
                    node, share_key, partition, batches
                )
            except KafkaError as error:
                acknowledged[partition] = error.without_traceback()

    def finish(
        acknowledge_errors: Sequence[Exception | None],
    ) -> dict[TopicPartition, AcknowledgeResult]:
        results = {}
        for partition, error in zip(acknowledged, acknowledge_errors, strict=True):
            results[partition] = _acknowledge_result(error)
            if isinstance(error, KafkaError):
                errors.append(error)
        for each in errors[:_MAX_REPORTED]:
            report_refusal(
                call, _API_NAMES[type(request).__name__], share_key.group_id, each, request
            )
        # As in Kafka, partitions without batches are omitted if no partition has valid batches.
        return refused | results | without_batches if results else refused

    return chain(gather(tuple(acknowledged.values())), finish)


def _acknowledge_result(error: Exception | None) -> AcknowledgeResult:
    if error is None:
        return AcknowledgeResult()
    if not isinstance(error, KafkaError):
        raise error
    return AcknowledgeResult(error.code, error.message or error.code.message)


def _refuse(
    errors: list[KafkaError], partition: TopicPartition, code: ErrorCode
) -> AcknowledgeResult:
    """Return an error without a message, as Kafka does; add one with a message to `errors`."""
    if len(errors) < _MAX_REPORTED:
        named = f"{uuid_to_text(partition.topic_id)}-{partition.index}"
        text = f"{code.message.removesuffix('.')}: partition {named}"
        errors.append(KafkaError(code, text, {"topic_partition": named}))
    return AcknowledgeResult(code)


_API_NAMES = {"ShareFetchRequest": "ShareFetch", "ShareAcknowledgeRequest": "ShareAcknowledge"}


def _acknowledgements(
    topics: Iterable[Topic],
) -> Mapping[TopicPartition, Sequence[AcknowledgementBatch]]:
    """Return the batches of each partition; if a partition occurs twice, its last row counts."""
    return {
        TopicPartition(topic.topic_id, row.partition_index): [
            AcknowledgementBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in row.acknowledgement_batches
        ]
        for topic in topics
        for row in topic.partitions
    }


def _acknowledge_partition(
    node: Node,
    member: SessionKey,
    partition: TopicPartition,
    batches: Sequence[AcknowledgementBatch],
) -> Waiting[None] | None:
    table = node.share_partitions
    key = ShareKey(member.group_id, partition.topic_id, partition.index)
    share_partition = table.find(key)
    if share_partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        end = share_partition.acknowledge(member.member_id, batches)
    except KafkaError as error:
        table.drop_if_stale(key, error)
        raise

    def drop_if_stale(error: Exception) -> None:
        if isinstance(error, KafkaError):
            table.drop_if_stale(key, error)
        raise error

    return chain(end, lambda _: None, drop_if_stale)


class _BatchValidator:
    """Validates the acknowledgement batches of one partition."""

    __slots__ = ("_allowed",)

    def __init__(self, era: ShareEra, *, is_renewal: bool) -> None:
        renews = era.knows_renewal and is_renewal
        self._allowed = (
            frozenset(AcknowledgeType)
            if renews
            else frozenset(AcknowledgeType) - {AcknowledgeType.RENEW}
        )

    def is_valid(self, batches: Sequence[AcknowledgementBatch]) -> bool:
        """Return whether batches are in order, with one type for all records or one for each."""
        end = -1
        for batch in batches:
            types = batch.types
            if (
                batch.first > batch.last
                or batch.first < end
                or not types
                or (len(types) > 1 and len(types) != batch.last - batch.first + 1)
                or not self._allowed.issuperset(types)
            ):
                return False
            end = batch.last
        return True


def end_sessions_on_close(call: Call, group_id: str) -> None:
    """End the share sessions of a connection in a group when the connection closes."""
    key, context = ("share sessions", group_id), call.context
    on_close = context.on_close
    if key not in on_close and len(on_close) < _MAX_GROUPS:
        table, node_id = call.node.share_partitions, call.node.id
        on_close[key] = lambda: table.end_sessions_of(node_id, context, group_id)


def lock_duration_ms(node: Node, group_id: str) -> int:
    """Return the duration of acquisition locks in a group, in milliseconds."""
    return node.share_partitions.limits(group_id, node.id).lock_duration_ms


def fill_in_leaders(node: Node, listener: str, rows: Iterable[tuple[bytes, Row]]) -> list[Endpoint]:
    """Fill in the leaders of partitions that other nodes lead, and return their endpoints."""
    leaders = set()
    for topic_id, row in rows:
        topic = node.image.topics_by_id.get(topic_id)
        if row.error_code in ERRORS_WITH_LEADER and topic is not None:
            partition = topic.partitions[row.partition_index]
            row.current_leader.leader_id = partition.leader
            row.current_leader.leader_epoch = partition.leader_epoch
            leaders.add(partition.leader)
    if not leaders:
        return []
    return [each for each in node.known_endpoints(listener) if each.node_id in leaders]
