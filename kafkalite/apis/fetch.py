"""Fetch: batches from partitions to clients, now or when enough arrived (KIP-74, 227, 320, 392).

An answer is read once, when it is sent: a fetch that waits holds no records, only its place in a
`LongPoll`. What is read goes to the socket as it came from the disk.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkalite.apis.contract import Api, Eras
from kafkalite.partitions.fetch_sessions import Wanted
from kafkalite.partitions.long_poll import LongPoll
from kafkalite.partitions.partition import NO_EPOCH
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.apis.context import RequestContext
    from kafkalite.partitions.fetch_sessions import PartitionKey
    from kafkalite.partitions.partition import Partition

_NO_OFFSET = -1
_READ_COMMITTED = 1
_CONSUMER = -1
_MOST_UNSENT_BYTES = 256 * 1024 * 1024
"""What clients may leave unread, all together, before answers become smaller than asked for."""

_LEAST_ANSWER_BYTES = 1024 * 1024

_POINTS_AT_LEADER = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH))


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchEra:
    """What a range of Fetch versions means, once its bytes are out of the way."""

    knows_storage_errors: bool = True
    reads_from_followers: bool = True
    uses_topic_ids: bool = True
    hears_of_leaders: bool = True


_FIRST_ERA = FetchEra(
    knows_storage_errors=False,
    reads_from_followers=False,
    uses_topic_ids=False,
    hears_of_leaders=False,
)
FETCH_ERAS = Eras(
    (0, _FIRST_ERA),
    # KIP-112: before v6 a client would take a failed disk for a reason to give up.
    (6, replace(_FIRST_ERA, knows_storage_errors=True)),
    # KIP-392: from v11 a consumer knows that any replica may serve it.
    (11, FetchEra(uses_topic_ids=False, hears_of_leaders=False)),
    # KIP-516: ids instead of names.
    (13, FetchEra(hears_of_leaders=False)),
    # KIP-951: answers point at the new leader.
    (16, FetchEra()),
)

Answered = tuple[Wanted, FetchResponse.PartitionData]


def handle_fetch(
    context: RequestContext, request: FetchRequest
) -> FetchResponse | Waiting[FetchResponse]:
    """Answer with what can be read, or wait for `min_bytes` of it, up to `max_wait_ms`.

    KafkaError for a session that is not what the client takes it for (KIP-227).
    """
    fetch = _Fetch(context, request)
    answers = fetch.read()
    missing_bytes = fetch.min_bytes - fetch.found_bytes
    if request.max_wait_ms <= 0 or missing_bytes <= 0 or not fetch.may_wait:
        return fetch.response(answers)
    return fetch.wait(answers, missing_bytes, request.max_wait_ms)


class _Fetch:
    """One fetch, from the question to the answer.

    It keeps what it needs of the request context, which belongs to the connection and moves on.
    """

    __slots__ = (
        "_committed", "_era", "_leader_only", "_leaders", "_listener", "_max_bytes", "_node_id",
        "_places", "_replica_id", "_services", "_session", "found_bytes", "may_wait", "min_bytes",
    )  # fmt: skip

    def __init__(self, context: RequestContext, request: FetchRequest) -> None:
        services = context.services
        era: FetchEra = context.era
        state = request.replica_state
        self._services = services
        self._era = era
        self._node_id = context.node_id
        self._listener = context.listener
        self._replica_id = request.replica_id if state is None else state.replica_id
        is_consumer = self._replica_id == _CONSUMER
        self._committed = is_consumer and request.isolation_level == _READ_COMMITTED
        self._leader_only = self._replica_id >= 0 or (is_consumer and not era.reads_from_followers)
        self._max_bytes = min(request.max_bytes, services.config.int("fetch.max.bytes"))
        self.min_bytes = min(request.min_bytes, self._max_bytes)
        self._session = services.partitions.fetch_sessions(self._node_id).begin(
            request.session_id,
            request.session_epoch,
            _wanted(request, era),
            _forgotten(request, era),
            uses_topic_ids=era.uses_topic_ids,
        )
        self._places: list[tuple[Wanted, Partition]] = []
        self._leaders: set[int] = set()
        self.found_bytes = 0
        self.may_wait = False

    def read(self) -> list[Answered]:
        """Read every partition, within the size limits; partitions unknown here come last.

        The first records found are given whole, however large: a client that asks for less than a
        batch must not be stuck (KIP-74).
        """
        refused = self._locate()
        self._leaders.clear()
        left_bytes = min(self._max_bytes, self._affordable_bytes())
        found_bytes = 0
        answers: list[Answered] = []
        for wanted, partition in self._places:
            try:
                answer = self._read(wanted, partition, left_bytes, at_least_one=not found_bytes)
            except KafkaError as error:
                answer = self._refusal(partition, error.code)
                self.may_wait = False
            except OSError:
                answer = self._refusal(partition, self._storage_error())
                self.may_wait = False
            if answer.records:
                size = len(answer.records)
                found_bytes += size
                left_bytes = max(0, left_bytes - size)
                if partition.is_behind(wanted.fetch_offset):
                    # A read ends with its segment: there is more, but not in this answer.
                    self.may_wait = False
            elif answer.diverging_epoch is not None:
                self.may_wait = False
            answers.append((wanted, answer))
        self.found_bytes = found_bytes
        return answers + refused

    def _affordable_bytes(self) -> int:
        """Return how large an answer may be, for a client that may turn out not to read it.

        Kafka sends from its files and need not ask; here an answer lies in memory until it is read,
        and a few hundred clients that only ask would fill all there is.
        """
        return max(_LEAST_ANSWER_BYTES, _MOST_UNSENT_BYTES - self._services.unsent.bytes)

    def _locate(self) -> list[Answered]:
        """Find the partitions, and return the answers for those that cannot be read."""
        table = self._services.partitions
        find = table.topic_by_id if self._era.uses_topic_ids else table.topic
        self._places.clear()
        refused: list[Answered] = []
        is_some_offline = False
        for wanted in self._session.wanted:
            topic = find(wanted.topic)  # type: ignore[arg-type]  # an id or a name, as the era has it
            try:
                partition = None if topic is None else topic.partition(wanted.index)
            except KafkaError:
                is_some_offline = True
                answer = _refused(wanted.index, self._storage_error())
                answer.aborted_transactions = None
                refused.append((wanted, answer))
                continue
            if partition is not None:
                self._places.append((wanted, partition))
            elif topic is None and self._era.uses_topic_ids:
                refused.append((wanted, _refused(wanted.index, ErrorCode.UNKNOWN_TOPIC_ID)))
            else:
                refused.append(
                    (wanted, _refused(wanted.index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                )
        # Kafka waits on partitions it knows nothing of, but not on one that it could not read.
        self.may_wait = bool(self._places) and not is_some_offline
        return refused

    def _read(
        self, wanted: Wanted, partition: Partition, left_bytes: int, *, at_least_one: bool
    ) -> FetchResponse.PartitionData:
        self._admit(wanted, partition)
        answer = FetchResponse.PartitionData(
            partition_index=partition.index,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        if wanted.last_fetched_epoch >= 0:
            end = partition.divergence(wanted.last_fetched_epoch, wanted.fetch_offset)
            if end is not None:
                answer.diverging_epoch = FetchResponse.EpochEndOffset(
                    epoch=end.leader_epoch, end_offset=end.end_offset
                )
                return answer
        answer.records = partition.read(
            wanted.fetch_offset,
            max_bytes=min(wanted.max_bytes, left_bytes),
            limit_offset=partition.limit_offset(committed=self._committed),
            at_least_one=at_least_one,
        )
        if self._committed:
            answer.aborted_transactions = [
                FetchResponse.AbortedTransaction(
                    producer_id=one.producer_id, first_offset=one.first_offset
                )
                for one in partition.aborted_in_read(wanted.fetch_offset, len(answer.records))
            ]
        return answer

    def _admit(self, wanted: Wanted, partition: Partition) -> None:
        partition.admit(self._node_id, wanted.current_leader_epoch, leader_only=self._leader_only)
        if self._replica_id >= 0 and self._replica_id not in partition.replicas:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER
                if wanted.current_leader_epoch < 0
                else ErrorCode.UNKNOWN_LEADER_EPOCH
            )

    def _refusal(self, partition: Partition, code: ErrorCode) -> FetchResponse.PartitionData:
        answer = _refused(partition.index, code)
        answer.aborted_transactions = None
        if code in _POINTS_AT_LEADER and self._era.hears_of_leaders:
            self._leaders.add(partition.leader)
            answer.current_leader = FetchResponse.LeaderIdAndEpoch(
                leader_id=partition.leader, leader_epoch=partition.leader_epoch
            )
        return answer

    def _storage_error(self) -> ErrorCode:
        if self._era.knows_storage_errors:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def wait(
        self, answers: list[Answered], missing_bytes: int, max_wait_ms: int
    ) -> Waiting[FetchResponse]:
        """Return the answer that is read when enough has arrived, or the time is up."""
        clock = self._services.clock
        poll = LongPoll(
            missing_bytes=missing_bytes,
            on_end=lambda: waiting.resolve(self.response(self.read())),
        )
        waiting: Waiting[FetchResponse] = Waiting(on_abandon=poll.abandon)
        for (wanted, partition), (_, answer) in zip(self._places, answers, strict=False):
            poll.add(
                partition,
                offset=wanted.fetch_offset,
                readable=len(answer.records or b""),
                max_bytes=wanted.max_bytes,
                committed=self._committed,
            )
        poll.start(clock, clock.now_ms() + max_wait_ms)
        return waiting

    def response(self, answers: list[Answered]) -> FetchResponse:
        """Return the response that tells what the session thinks worth telling."""
        try:
            session_id, told = self._session.finish(answers)
        except KafkaError as error:
            return FetchResponse(error_code=error.code, session_id=self._session.session_id)
        response = FetchResponse(session_id=session_id)
        topic: str | bytes | None = None
        for wanted, answer in told:
            if wanted.topic != topic:
                topic = wanted.topic
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
                for endpoint in self._services.endpoints(self._listener)
                if endpoint.node_id in self._leaders
            ]
        return response


def _wanted(request: FetchRequest, era: FetchEra) -> list[Wanted]:
    """Return what is wanted; of a partition that is named twice, what was said last."""
    by_id = era.uses_topic_ids
    wanted = {}
    for topic in request.topics:
        name = topic.topic_id if by_id else topic.topic
        for partition in topic.partitions:
            wanted[name, partition.partition] = Wanted(
                name,
                partition.partition,
                partition.fetch_offset,
                partition.partition_max_bytes,
                # To Fetch every negative epoch is none.
                max(NO_EPOCH, partition.current_leader_epoch),
                partition.last_fetched_epoch,
            )
    return list(wanted.values())


def _forgotten(request: FetchRequest, era: FetchEra) -> list[PartitionKey]:
    by_id = era.uses_topic_ids
    return [
        (topic.topic_id if by_id else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]


def _refused(index: int, code: ErrorCode) -> FetchResponse.PartitionData:
    return FetchResponse.PartitionData(
        partition_index=index, error_code=code, high_watermark=_NO_OFFSET, records=b""
    )


def refuse_fetch(
    request: FetchRequest,  # noqa: ARG001 - every refusal has this shape
    code: ErrorCode,
    message: str | None,  # noqa: ARG001
) -> FetchResponse:
    """Say one error for the whole fetch."""
    return FetchResponse(error_code=code)


APIS = (
    Api(
        key=FetchRequest.API_KEY,
        versions=Versions(4, 18),
        handler=handle_fetch,
        refuse=refuse_fetch,
        eras=FETCH_ERAS,
    ),
)
