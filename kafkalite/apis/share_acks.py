"""What members of share groups say of records, whichever request carries it (KIP-932).

ShareFetch and ShareAcknowledge share these parts: who may ask, what form an acknowledgement must
have, and what it comes to, partition by partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kafkalite.apis.contract import Eras
from kafkalite.apis.refusals import note_refusal
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.shares.sessions import SessionKey, TopicPartition
from kafkalite.shares.settling import AckBatch, AckType
from kafkalite.shares.state import ShareKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.apis.context import Endpoint, RequestContext, Services
    from kafkalite.protocol.messages.share_acknowledge import (
        ShareAcknowledgeRequest,
        ShareAcknowledgeResponse,
    )
    from kafkalite.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse

    Request: TypeAlias = ShareFetchRequest | ShareAcknowledgeRequest
    Topic: TypeAlias = ShareFetchRequest.FetchTopic | ShareAcknowledgeRequest.AcknowledgeTopic
    Row: TypeAlias = ShareFetchResponse.PartitionData | ShareAcknowledgeResponse.PartitionData

_MOST_MEMBER_ID = 36
_MOST_GROUPS = 1_000
"""Groups whose sessions end with one connection; of further ones they end when they say so."""
_MOST_NOTED = 10
"""Refusals of one request that are kept for whoever asks why."""
_UNKNOWN_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
POINTS_AT_LEADER = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareEra:
    """What a range of ShareFetch and ShareAcknowledge versions means."""

    knows_renewal: bool


# KIP-1222: from v2 on a member may keep its lock on a record for longer.
SHARE_ERAS = Eras((0, ShareEra(knows_renewal=False)), (2, ShareEra(knows_renewal=True)))


class Outcome(NamedTuple):
    """What an acknowledgement of one partition came to."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


def session_key(request: Request) -> SessionKey:
    """Return whose session a request is of; KafkaError INVALID_REQUEST for nobody's."""
    if request.group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A group id is needed.")
    if not request.member_id or len(request.member_id) > _MOST_MEMBER_ID:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"A member id of 1 to {_MOST_MEMBER_ID} characters is needed.",
        )
    return SessionKey(request.group_id, request.member_id)


def acknowledge(
    context: RequestContext,
    request: Request,
    topics: Iterable[Topic],
    share_key: SessionKey,
) -> dict[TopicPartition, Outcome]:
    """Settle what a request says of records, and return what that came to by partition."""
    services = context.services
    refused: dict[TopicPartition, Outcome] = {}
    silent: dict[TopicPartition, Outcome] = {}
    settled: dict[TopicPartition, Outcome] = {}
    errors: list[KafkaError] = []
    check = _Check(context.era, is_renewal=request.is_renew_ack)
    for partition, batches in _said(topics).items():
        topic = services.metadata.image.topics_by_id.get(partition.topic_id)
        if topic is None:
            refused[partition] = _refused(errors, partition, ErrorCode.UNKNOWN_TOPIC_ID)
        elif not check.passes(batches):
            refused[partition] = _refused(errors, partition, ErrorCode.INVALID_REQUEST)
        elif not 0 <= partition.index < len(topic.partitions):
            refused[partition] = _refused(errors, partition, _UNKNOWN_PARTITION)
        elif not batches:
            silent[partition] = Outcome()
        else:
            try:
                _settle(services, share_key, partition, batches)
                settled[partition] = Outcome()
            except KafkaError as error:
                settled[partition] = Outcome(error.code, error.message or error.code.message)
                errors.append(error)
    for each in errors[:_MOST_NOTED]:
        note_refusal(context, _API[type(request).__name__], share_key.group_id, each, request)
    # As in Kafka, partitions of which nothing is said are not told when that is true of all.
    return refused | settled | silent if settled else refused


def _refused(errors: list[KafkaError], partition: TopicPartition, code: ErrorCode) -> Outcome:
    """Refuse what is said of a partition without a message, as Kafka does; who asks why has one."""
    if len(errors) < _MOST_NOTED:
        named = f"{uuid_to_text(partition.topic_id)}-{partition.index}"
        why = f"{code.message.removesuffix('.')}: partition {named}"
        errors.append(KafkaError(code, why, {"topic_partition": named}))
    return Outcome(code)


_API = {"ShareFetchRequest": "ShareFetch", "ShareAcknowledgeRequest": "ShareAcknowledge"}


def _said(topics: Iterable[Topic]) -> Mapping[TopicPartition, Sequence[AckBatch]]:
    """Return what is said of each partition; of one that is named twice, what was said last."""
    return {
        TopicPartition(topic.topic_id, row.partition_index): [
            AckBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in row.acknowledgement_batches
        ]
        for topic in topics
        for row in topic.partitions
    }


def _settle(
    services: Services,
    member: SessionKey,
    partition: TopicPartition,
    batches: Sequence[AckBatch],
) -> None:
    table = services.share_partitions
    key = ShareKey(member.group_id, partition.topic_id, partition.index)
    share_partition = table.find(key)
    if share_partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        share_partition.acknowledge(member.member_id, batches)
    except KafkaError as error:
        table.drop_after(key, error)
        raise


class _Check:
    """The form that acknowledgements must have."""

    __slots__ = ("_allowed",)

    def __init__(self, era: ShareEra, *, is_renewal: bool) -> None:
        renews = era.knows_renewal and is_renewal
        self._allowed = frozenset(AckType) if renews else frozenset(AckType) - {AckType.RENEW}

    def passes(self, batches: Sequence[AckBatch]) -> bool:
        """Whether batches are in order, and say one word for all records or one for each."""
        end = -1
        for batch in batches:
            words = batch.types
            if (
                batch.first > batch.last
                or batch.first < end
                or not words
                or (len(words) > 1 and len(words) != batch.last - batch.first + 1)
                or not self._allowed.issuperset(words)
            ):
                return False
            end = batch.last
        return True


def hear_of_end(context: RequestContext, group_id: str) -> None:
    """See to it that what a connection has of a group ends with it, also if nothing is left."""
    key = ("share sessions", group_id)
    if key not in context.on_close and len(context.on_close) < _MOST_GROUPS:
        table, node_id = context.services.share_partitions, context.node_id
        context.on_close[key] = lambda: table.end_sessions_of(node_id, context, group_id)


def lock_ms(services: Services, group_id: str) -> int:
    """Return how long members of a group have a record to themselves."""
    return services.share_partitions.limits(group_id).lock_ms


def tell_leaders(
    services: Services, listener: str, rows: Iterable[tuple[bytes, Row]]
) -> list[Endpoint]:
    """Name the leader of partitions that are led elsewhere; returns where these leaders are."""
    leaders = set()
    for topic_id, row in rows:
        topic = services.metadata.image.topics_by_id.get(topic_id)
        if row.error_code in POINTS_AT_LEADER and topic is not None:
            led = topic.partitions[row.partition_index]
            row.current_leader.leader_id = led.leader
            row.current_leader.leader_epoch = led.leader_epoch
            leaders.add(led.leader)
    if not leaders:
        return []
    return [each for each in services.endpoints(listener) if each.node_id in leaders]
