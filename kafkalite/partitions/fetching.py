"""Fetching: reads batches of partitions for a Fetch request (KIP-74, 227, 320, 392).

`Fetch.respond` reads, and waits for `min_bytes`. Batches are read when the answer is sent: a
waiting fetch holds no records, only a `LongPoll`. The bytes of batches are sent exactly as they are
on disk.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kafkalite.config.broker import RACK_AWARE_SELECTOR
from kafkalite.partitions.fetch_sessions import NO_SESSION, RequestedPartition
from kafkalite.partitions.long_poll import LongPoll
from kafkalite.partitions.replica_selection import NO_REPLICA, preferred_read_replica
from kafkalite.partitions.replicas import NO_EPOCH, ReplicaView
from kafkalite.ports.turns import in_steps, without_pauses
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol._generated.messages.fetch import FetchResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.partitions.fetch_sessions import PartitionKey
    from kafkalite.partitions.incarnations import IncarnationCheck
    from kafkalite.partitions.partition import Partition
    from kafkalite.partitions.request_context import RequestContext
    from kafkalite.partitions.table import HostedTopic
    from kafkalite.protocol._generated.messages.fetch import FetchRequest

_NO_OFFSET = -1
_READ_COMMITTED = 1
_CONSUMER = -1
_MAX_UNREAD_BYTES = 256 * 1024 * 1024
"""The maximum size of the unread answers of all clients; new answers must fit into the rest."""

_MIN_ANSWER_BYTES = 1024 * 1024

_ERRORS_WITH_LEADER = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH))

PartitionAnswer = tuple[RequestedPartition, FetchResponse.PartitionData]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchEra:
    """Traits of a range of Fetch versions."""

    knows_storage_errors: bool = True
    reads_from_followers: bool = True
    uses_topic_ids: bool = True
    reports_leaders: bool = True
    knows_zstd: bool = True
    """Whether the client can read batches that are compressed with zstd (KIP-110)."""
    message_format: int | None = None
    """The format of messages that the client reads; None for batches of format 2."""
    has_hard_limit: bool = False
    """Whether the first batch is left out too if it is too large, as before KIP-74."""


class ReadAccess(Protocol):
    """The topics that a client may read, by ACLs."""

    def allows(self, topic: HostedTopic | None, requested: str | bytes) -> bool:
        """Return whether the client may read a topic, or the topic is unknown by this id."""

    def report_refusal(self, topic: HostedTopic | None, requested: str | bytes) -> None:
        """Report that the client may not read a topic."""


class Fetch:
    """The processing of one request, which may wait."""

    __slots__ = (
        "_access",
        "_era",
        "_incarnations",
        "_is_read_committed",
        "_leader_only",
        "_leaders",
        "_listener",
        "_max_bytes",
        "_max_wait_ms",
        "_may_pause",
        "_may_wait",
        "_min_bytes",
        "_node",
        "_node_id",
        "_quota",
        "_rack",
        "_read_bytes",
        "_readable",
        "_replica_id",
        "_row_fault",
        "_session",
    )  # fmt: skip

    def __init__(
        self,
        context: RequestContext,
        request: FetchRequest,
        replica_id: int,
        access: ReadAccess | None,
        incarnations: IncarnationCheck | None,
    ) -> None:
        """Find the session of a request; raises KafkaError for a wrong session id or epoch.

        `access` is None without an authorizer, `incarnations` without partition epochs.
        """
        node, may_pause = context.node, context.may_pause
        era: FetchEra = context.era
        self._node = node
        self._era = era
        self._replica_id = replica_id
        self._listener = context.listener
        self._may_pause = may_pause
        self._access = access
        self._incarnations = incarnations
        self._quota = context.fetch_quota
        self._row_fault = context.row_fault
        self._node_id = node.id
        self._max_wait_ms = request.max_wait_ms
        is_consumer = replica_id == _CONSUMER
        self._is_read_committed = is_consumer and request.isolation_level == _READ_COMMITTED
        self._leader_only = replica_id >= 0 or (is_consumer and not era.reads_from_followers)
        self._rack = self._rack_for_selection(request) if request.rack_id else ""
        self._max_bytes = min(request.max_bytes, node.config.int("fetch.max.bytes"))
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._session = node.partitions.fetch_sessions(self._node_id).begin(
            request.session_id,
            request.session_epoch,
            _requested_partitions(request, era),
            _forgotten_partitions(request, era) if request.forgotten_topics_data else (),
            uses_topic_ids=era.uses_topic_ids,
        )
        self._readable: list[tuple[RequestedPartition, Partition | ReplicaView]] = []
        self._leaders: set[int] = set()
        self._read_bytes = 0
        self._may_wait = False

    def respond(self) -> FetchResponse | Waiting[FetchResponse]:
        """Return readable batches, after waiting up to `max_wait_ms` for `min_bytes`."""
        answers = self._read()
        missing_bytes = self._min_bytes - self._read_bytes
        if self._max_wait_ms <= 0 or missing_bytes <= 0 or not self._may_wait:
            return self._response(answers)
        return self._wait(answers, missing_bytes)

    def _rack_for_selection(self, request: FetchRequest) -> str:
        """Return the client's rack if replicas are selected by it, otherwise an empty string."""
        if not self._era.reads_from_followers or self._replica_id >= 0:
            return ""
        selector = self._node.config.node_str_or_none(self._node_id, "replica.selector.class")
        return request.rack_id if selector == RACK_AWARE_SELECTOR else ""

    def _read(self) -> list[PartitionAnswer]:
        """Read every partition, within the size limits; unknown partitions are last.

        The first batch is always returned in full, even if it is larger than the limits.
        Otherwise a client with a limit below the size of that batch could never continue (KIP-74).
        """
        self._leaders.clear()
        refused = self._locate()
        remaining_bytes = min(self._max_bytes, self._response_limit_bytes())
        read_bytes = 0
        answers: list[PartitionAnswer] = []
        readable = self._readable
        for requested, partition in in_steps(readable) if self._may_pause else readable:
            try:
                answer = self._read_partition(
                    requested, partition, remaining_bytes, at_least_one=not read_bytes
                )
            except KafkaError as error:
                answer = self._error_with_leader(partition, error.code)
                self._may_wait = False
            except OSError as error:
                answer = self._error_with_leader(
                    partition, self._code_of_read_error(partition, requested, error)
                )
                self._may_wait = False
            if self._incarnations is not None:
                answer.incarnation_epoch = partition.incarnation_epoch
            if answer.records:
                size = len(answer.records)
                read_bytes += size
                remaining_bytes = max(0, remaining_bytes - size)
                if partition.is_before_active_segment(requested.fetch_offset):
                    # The read stopped at the end of a segment; the next segment has more data.
                    self._may_wait = False
            elif answer.diverging_epoch is not None or answer.preferred_read_replica >= 0:
                self._may_wait = False
            answers.append((requested, answer))
        self._read_bytes = read_bytes
        return answers + refused

    def _response_limit_bytes(self) -> int:
        """Return the maximum size of an answer, which depends on the size of unread answers.

        Kafka sends from its files. Here an answer is in memory until the client reads it, and a few
        hundred clients that do not read could use all memory.
        """
        return max(_MIN_ANSWER_BYTES, _MAX_UNREAD_BYTES - self._node.unread_answers.bytes)

    def _locate(self) -> list[PartitionAnswer]:
        """Find the partitions, and return the answers of those that cannot be read."""
        table = self._node.partitions
        find = table.topic_by_id if self._era.uses_topic_ids else table.topic
        self._readable.clear()
        refused: list[PartitionAnswer] = []
        code: ErrorCode | None
        has_failed_partition = False
        access, row_fault = self._access, self._row_fault
        all_requested = self._session.requested
        for requested in in_steps(all_requested) if self._may_pause else all_requested:
            topic = find(requested.topic)  # type: ignore[arg-type]  # an id or a name
            if access is not None and not access.allows(topic, requested.topic):
                access.report_refusal(topic, requested.topic)
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                refused.append((requested, _partition_error(requested.index, code)))
                continue
            if row_fault is not None:
                # An unknown topic id has no name that a fault could select.
                name = requested.topic if topic is None else topic.name
                code = row_fault(str(name), requested.index)
                if code is not None:
                    has_failed_partition = True
                    refused.append((requested, self._faulty_partition(topic, requested, code)))
                    continue
            try:
                partition = None if topic is None else topic.partition(requested.index)
            except KafkaError:
                has_failed_partition = True
                answer = _partition_error(requested.index, self._storage_error())
                answer.aborted_transactions = None
                refused.append((requested, answer))
                continue
            if partition is not None:
                views = partition.views
                view = partition if not views else partition.seen_by(self._node_id)
                self._readable.append((requested, view))
            else:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if topic is None and self._era.uses_topic_ids:
                    code = ErrorCode.UNKNOWN_TOPIC_ID
                refused.append((requested, _partition_error(requested.index, code)))
        # As in Kafka, a fetch waits if partitions are unknown, but not if one is offline.
        self._may_wait = bool(self._readable) and not has_failed_partition
        return refused

    def _read_partition(
        self,
        requested: RequestedPartition,
        partition: Partition | ReplicaView,
        remaining_bytes: int,
        *,
        at_least_one: bool,
    ) -> FetchResponse.PartitionData:
        self._check_fetchable(requested, partition)
        answer = FetchResponse.PartitionData(
            partition_index=partition.index,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        if self._rack and partition.leader == self._node_id:
            answer.preferred_read_replica = self._preferred_replica(requested, partition)
            if answer.preferred_read_replica >= 0:
                return answer
        if requested.last_fetched_epoch >= 0:
            end = partition.divergence(
                requested.last_fetched_epoch,
                requested.fetch_offset,
                is_leader=partition.leader == self._node_id,
            )
            if end is not None:
                answer.diverging_epoch = FetchResponse.EpochEndOffset(
                    epoch=end.leader_epoch, end_offset=end.end_offset
                )
                return answer
        answer.records = partition.read(
            requested.fetch_offset,
            max_bytes=min(requested.max_bytes, remaining_bytes),
            limit_offset=partition.limit_offset(committed=self._is_read_committed),
            at_least_one=at_least_one,
        )
        if self._is_read_committed:
            answer.aborted_transactions = [
                FetchResponse.AbortedTransaction(
                    producer_id=transaction.producer_id, first_offset=transaction.first_offset
                )
                for transaction in partition.aborted_in_read(
                    requested.fetch_offset, len(answer.records)
                )
            ]
        return answer

    def _preferred_replica(
        self, requested: RequestedPartition, partition: Partition | ReplicaView
    ) -> int:
        """Return the follower that the client should read from, -1 for this leader."""
        hosted = partition.partition if isinstance(partition, ReplicaView) else partition
        image = self._node.image
        known = image.partition(hosted.topic_name, hosted.index)
        if known is None or known.leader != self._node_id:
            return NO_REPLICA
        return preferred_read_replica(
            hosted,
            known,
            image.brokers,
            rack=self._rack,
            fetch_offset=requested.fetch_offset,
            now_ms=self._node.clock.now_ms(),
        )

    def _check_fetchable(
        self, requested: RequestedPartition, partition: Partition | ReplicaView
    ) -> None:
        if self._incarnations is not None:
            self._incarnations.check(
                partition, requested.incarnation_epoch, leader_only=self._leader_only
            )
        partition.check_access(
            self._node_id, requested.current_leader_epoch, leader_only=self._leader_only
        )
        if self._replica_id >= 0 and self._replica_id not in partition.replicas:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER
                if requested.current_leader_epoch < 0
                else ErrorCode.UNKNOWN_LEADER_EPOCH
            )

    def _error_with_leader(
        self, partition: Partition | ReplicaView, code: ErrorCode
    ) -> FetchResponse.PartitionData:
        answer = _partition_error(partition.index, code)
        answer.aborted_transactions = None
        if code in _ERRORS_WITH_LEADER and self._era.reports_leaders:
            self._leaders.add(partition.leader)
            answer.current_leader = FetchResponse.LeaderIdAndEpoch(
                leader_id=partition.leader, leader_epoch=partition.leader_epoch
            )
        return answer

    def _faulty_partition(
        self, topic: HostedTopic | None, requested: RequestedPartition, code: ErrorCode
    ) -> FetchResponse.PartitionData:
        """Return the answer with the error of a fault, and with the leader if there is one."""
        with suppress(KafkaError):
            partition = None if topic is None else topic.partition(requested.index)
            if partition is not None:
                return self._error_with_leader(partition.seen_by(self._node_id), code)
        return _partition_error(requested.index, code)

    def _code_of_read_error(
        self, partition: Partition | ReplicaView, requested: RequestedPartition, error: OSError
    ) -> ErrorCode:
        limit_offset = partition.limit_offset(committed=self._is_read_committed)
        code = partition.report_read_failure(
            error,
            lambda: partition.log.read(
                requested.fetch_offset, max_bytes=1, limit_offset=limit_offset, at_least_one=True
            ),
        )
        return self._storage_error() if code is ErrorCode.KAFKA_STORAGE_ERROR else code

    def _storage_error(self) -> ErrorCode:
        if self._era.knows_storage_errors:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _wait(self, answers: list[PartitionAnswer], missing_bytes: int) -> Waiting[FetchResponse]:
        """Return a Waiting for the answer, which is read when enough has arrived or time is up."""
        clock = self._node.clock
        poll = LongPoll(
            missing_bytes=missing_bytes,
            on_end=lambda: waiting.resolve(without_pauses(lambda: self._response(self._read()))),
        )
        waiting: Waiting[FetchResponse] = Waiting(on_abandon=poll.abandon)
        for (requested, partition), (_, answer) in zip(self._readable, answers, strict=False):
            poll.add(
                partition,
                offset=requested.fetch_offset,
                readable_bytes=len(answer.records or b""),
                max_bytes=requested.max_bytes,
                is_read_committed=self._is_read_committed,
            )
        wait_ms = 0 if self._may_pause and self._has_grown(answers) else self._max_wait_ms
        poll.start(clock, clock.now_ms() + wait_ms)
        return waiting

    def _has_grown(self, answers: list[PartitionAnswer]) -> bool:
        """Return whether a partition grew after it was read, during a pause."""
        committed = self._is_read_committed
        return any(
            partition.limit_offset(committed=committed)
            > (answer.last_stable_offset if committed else answer.high_watermark)
            for (_, partition), (_, answer) in zip(self._readable, answers, strict=False)
        )

    def _response(self, answers: list[PartitionAnswer]) -> FetchResponse:
        """Return the response with the partitions that the fetch session includes.

        A client that is throttled gets none, and its session does not change.
        """
        if self._quota is not None and self._quota(self._response_with(NO_SESSION, answers)):
            return FetchResponse(session_id=self._session.session_id)
        try:
            session_id, included = self._session.finish(answers)
        except KafkaError as error:
            return FetchResponse(error_code=error.code, session_id=self._session.session_id)
        return self._response_with(session_id, included)

    def _response_with(self, session_id: int, included: list[PartitionAnswer]) -> FetchResponse:
        response = FetchResponse(session_id=session_id)
        topic: str | bytes | None = None
        for requested, answer in in_steps(included) if self._may_pause else included:
            if requested.topic != topic:
                topic = requested.topic
                partitions: list[FetchResponse.PartitionData] = []
                response.responses.append(
                    FetchResponse.FetchableTopicResponse(topic_id=topic, partitions=partitions)
                    if isinstance(topic, bytes)
                    else FetchResponse.FetchableTopicResponse(topic=topic, partitions=partitions)
                )
            partitions.append(answer)
        if self._leaders:
            response.node_endpoints = [
                FetchResponse.NodeEndpoint(
                    node_id=endpoint.node_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=endpoint.rack,
                )
                for endpoint in self._node.known_endpoints(self._listener)
                if endpoint.node_id in self._leaders
            ]
        return response


def _requested_partitions(request: FetchRequest, era: FetchEra) -> list[RequestedPartition]:
    """Return the partitions in the request; if a partition occurs twice, its last row counts."""
    uses_topic_ids = era.uses_topic_ids
    requested = {}
    for topic in request.topics:
        name = topic.topic_id if uses_topic_ids else topic.topic
        for partition in topic.partitions:
            requested[name, partition.partition] = RequestedPartition(
                name,
                partition.partition,
                partition.fetch_offset,
                partition.partition_max_bytes,
                # Fetch treats all negative epochs as no epoch.
                max(NO_EPOCH, partition.current_leader_epoch),
                partition.last_fetched_epoch,
                partition.incarnation_epoch,
            )
    return list(requested.values())


def _forgotten_partitions(request: FetchRequest, era: FetchEra) -> list[PartitionKey]:
    uses_topic_ids = era.uses_topic_ids
    return [
        (topic.topic_id if uses_topic_ids else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]


def _partition_error(index: int, code: ErrorCode) -> FetchResponse.PartitionData:
    return FetchResponse.PartitionData(
        partition_index=index, error_code=code, high_watermark=_NO_OFFSET, records=b""
    )
