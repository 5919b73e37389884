"""ShareFetch: records for a member of a share group, now or when there are some (KIP-932).

Records are read first and handed out then: what was read but may not be handed out stays for the
next reader. A fetch that waits holds neither records nor locks, only its place among the waiters.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.apis.contract import Api
from kafkalite.apis.share_acks import (
    SHARE_ERAS,
    Outcome,
    acknowledge,
    hear_of_end,
    lock_ms,
    session_key,
    tell_leaders,
)
from kafkalite.apis.share_reading import (
    Place,
    Reading,
    SharePartitionAt,
    affordable_bytes,
    locate,
    rotated,
)
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafkalite.protocol.versions import Versions
from kafkalite.shares.acquiring import Wish
from kafkalite.shares.sessions import FINAL_EPOCH, SessionKey, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.apis.context import RequestContext, Services
    from kafkalite.ports.clock import Timer
    from kafkalite.shares.sessions import ShareContext

PartitionData = ShareFetchResponse.PartitionData
Rows = dict[TopicPartition, PartitionData]

_BATCH_OPTIMIZED, _RECORD_LIMIT = 0, 1
_ACQUIRE_MODES = frozenset((_BATCH_OPTIMIZED, _RECORD_LIMIT))


def handle_share_fetch(
    context: RequestContext, request: ShareFetchRequest
) -> ShareFetchResponse | Waiting[ShareFetchResponse]:
    """Settle what the member says of earlier records, and give it more of them.

    KafkaError for a session that is not what the member takes it for.
    """
    key = session_key(request)
    is_renewal = context.era.knows_renewal and request.is_renew_ack
    if is_renewal:
        _check_renewal(request)
    services = context.services
    topics = services.metadata.image.topics_by_id
    acknowledges = any(
        row.acknowledgement_batches for topic in request.topics for row in topic.partitions
    )
    try:
        session = services.share_partitions.sessions(context.node_id).begin_fetch(
            key,
            request.share_session_epoch,
            [
                (
                    TopicPartition(topic.topic_id, row.partition_index),
                    topics[topic.topic_id].name if topic.topic_id in topics else None,
                )
                for topic in request.topics
                for row in topic.partitions
            ],
            [
                TopicPartition(topic.topic_id, index)
                for topic in request.forgotten_topics_data
                for index in topic.partitions
            ],
            acknowledges=acknowledges,
            owner=context,
        )
    except KafkaError as refusal:
        if refusal.code is not ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            raise
        return _refused_later(services, refusal, request.max_wait_ms)
    hear_of_end(context, key.group_id)
    outcomes = acknowledge(context, request, request.topics, key) if acknowledges else {}
    answer = _Answer(context, key, session, outcomes, request.share_session_epoch == FINAL_EPOCH)
    if is_renewal:
        return answer.response({})
    return _fetch(context, request, key, session, answer)


def _check_renewal(request: ShareFetchRequest) -> None:
    """Raise KafkaError INVALID_REQUEST for one that renews locks and wants records as well."""
    if request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Nothing can be fetched while locks are renewed."
        )


def _refused_later(
    services: Services, refusal: KafkaError, wait_ms: int
) -> Waiting[ShareFetchResponse]:
    """Refuse after a while: a member that finds no room would else ask again at once."""
    clock = services.clock
    timer = clock.wait_at(clock.now_ms() + max(0, wait_ms), lambda: waiting.refuse(refusal))
    waiting: Waiting[ShareFetchResponse] = Waiting(on_abandon=timer.cancel)
    return waiting


class _Answer(NamedTuple):
    """What an answer is made from besides records; it outlives the request's context."""

    context: RequestContext
    key: SessionKey
    session: ShareContext
    outcomes: Mapping[TopicPartition, Outcome]
    ends_session: bool

    def response(self, rows: Rows) -> ShareFetchResponse:
        """Return the response that tells what the session thinks worth telling."""
        context = self.context
        services = context.services
        try:
            self.session.check()
        except KafkaError as error:
            return self._finished(ShareFetchResponse(error_code=error.code))
        told = {
            partition: row
            for partition, row in rows.items()
            if self.session.is_worth_telling(
                partition, has_records=bool(row.records), has_error=bool(row.error_code)
            )
        }
        for partition, outcome in self.outcomes.items():
            row = told.setdefault(partition, PartitionData(partition_index=partition.index))
            row.acknowledge_error_code = outcome.code
            row.acknowledge_error_message = outcome.message
        listed = [(partition.topic_id, row) for partition, row in told.items()]
        response = ShareFetchResponse(
            node_endpoints=[
                ShareFetchResponse.NodeEndpoint(
                    node_id=each.node_id, host=each.host, port=each.port, rack=each.rack
                )
                for each in tell_leaders(services, context.listener, listed)
            ]
        )
        by_topic = sorted(listed, key=lambda row: row[0])
        for topic_id, same in groupby(by_topic, key=lambda row: row[0]):
            response.responses.append(
                ShareFetchResponse.ShareFetchableTopicResponse(
                    topic_id=topic_id, partitions=[row for _, row in same]
                )
            )
        return self._finished(response)

    def _finished(self, response: ShareFetchResponse) -> ShareFetchResponse:
        services = self.context.services
        response.acquisition_lock_timeout_ms = lock_ms(services, self.key.group_id)
        if self.ends_session:
            services.share_partitions.end_session(self.context.node_id, self.key)
        return response


def _fetch(
    context: RequestContext,
    request: ShareFetchRequest,
    key: SessionKey,
    session: ShareContext,
    answer: _Answer,
) -> ShareFetchResponse | Waiting[ShareFetchResponse]:
    services = context.services
    places, refused = locate(context, session.names)
    rows: Rows = {
        partition: PartitionData(partition_index=partition.index, error_code=code)
        for partition, code in refused.items()
    }
    max_bytes = min(request.max_bytes, services.config.int("fetch.max.bytes"))
    if not places or max_bytes == 0 or request.max_records == 0:
        return answer.response(rows)
    if request.share_acquire_mode not in _ACQUIRE_MODES:
        # Kafka stumbles over a mode that it does not know, once the session is made.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    begun = _begun(context, key, places, rows)
    if max_bytes < 0:
        # Kafka stumbles over what it is to share among the partitions.
        return answer.response(rows | _refused(begun, ErrorCode.UNKNOWN_SERVER_ERROR))
    reading = Reading(
        services,
        rotated(begun, request.share_session_epoch),
        Wish(
            key.member_id,
            request.max_records,
            request.batch_size,
            is_exact=request.share_acquire_mode == _RECORD_LIMIT,
        ),
        max_bytes=affordable_bytes(services, max_bytes),
        min_bytes=min(request.min_bytes, max_bytes),
        committed=services.config.group_get(key.group_id, "share.isolation.level")
        == "read_committed",
    )
    if not reading.partitions:
        return answer.response(rows)
    read = reading.attempt()
    if read is not None:
        return answer.response(rows | read)
    if request.max_wait_ms <= 0:
        return answer.response(rows | reading.conclude())
    return _Wait(reading, answer, rows).begin(services, request.max_wait_ms)


def _refused(begun: list[SharePartitionAt], code: ErrorCode) -> Rows:
    return {
        each.partition: PartitionData(partition_index=each.partition.index, error_code=code)
        for each in begun
    }


def _begun(
    context: RequestContext, key: SessionKey, places: list[Place], rows: Rows
) -> list[SharePartitionAt]:
    """Return the share partitions of these places; those that cannot be read are refused."""
    begun = []
    for place in places:
        try:
            begun.append(place.begin(context, key.group_id))
        except KafkaError as error:
            partition = place.partition
            rows[partition] = PartitionData(partition_index=partition.index, error_code=error.code)
    return begun


class _Wait:
    """A share fetch that found too little: it looks again whenever something changes."""

    __slots__ = ("_answer", "_reading", "_rows", "_timer", "_waiting")

    def __init__(self, reading: Reading, answer: _Answer, rows: Rows) -> None:
        self._reading = reading
        self._answer = answer
        self._rows = rows
        self._timer: Timer | None = None
        self._waiting: Waiting[ShareFetchResponse] = Waiting(on_abandon=self._leave)

    def begin(self, services: Services, max_wait_ms: int) -> Waiting[ShareFetchResponse]:
        """Wait, no longer than `max_wait_ms`."""
        for each in self._reading.partitions:
            each.share.watch(self)
            each.log.watch(self)
        clock = services.clock
        self._timer = clock.wait_at(clock.now_ms() + max_wait_ms, self.on_change)
        return self._waiting

    def look_again(self) -> None:
        """Answer if there is enough now."""
        if not self._waiting.is_resolved:
            read = self._reading.attempt()
            if read is not None:
                self._end(read)

    def on_append(self, size: int) -> None:
        """Answer if that is enough."""
        del size
        self.look_again()

    def on_change(self) -> None:
        """Answer with what there is: the time is up, or a partition is not what it was."""
        if not self._waiting.is_resolved:
            self._end(self._reading.conclude())

    def _end(self, read: Rows) -> None:
        self._leave()
        self._waiting.resolve(self._answer.response(self._rows | read))

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for each in self._reading.partitions:
            each.share.unwatch(self)
            each.log.unwatch(self)


def refuse_share_fetch(
    request: ShareFetchRequest,  # noqa: ARG001 - every refusal has this shape
    code: ErrorCode,
    message: str | None,  # noqa: ARG001 - Kafka says none here
) -> ShareFetchResponse:
    """Say one error for the whole fetch."""
    return ShareFetchResponse(error_code=code)


APIS = (
    Api(
        key=ShareFetchRequest.API_KEY,
        versions=Versions(1, 2),
        handler=handle_share_fetch,
        refuse=refuse_share_fetch,
        eras=SHARE_ERAS,
    ),
)
