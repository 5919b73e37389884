"""Producing: appends the batches of a Produce request to the partitions that a node leads.

`produce` does everything for a request after it was parsed: it checks the batches, appends them,
and waits for the replicas. A request with transactional batches has a `ProducerTransaction`, which
asks the transaction coordinator.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from kafkalite.partitions.produce_batches import (
    check_codec,
    is_first_batch_transactional,
    parse_old_records,
    parse_single_batch,
)
from kafkalite.partitions.replication_wait import AppendedBatch, ReplicationWait
from kafkalite.ports import turns
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.turns import pop_items
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol._generated.messages.produce import ProduceResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.storage.batch import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchView,
)
from kafkalite.storage.validation import InvalidRecordsError, needs_decompression

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafkalite.partitions.partition import Partition
    from kafkalite.partitions.replicas import ReplicaView
    from kafkalite.partitions.request_context import RequestContext
    from kafkalite.partitions.table import HostedTopic, PartitionTable
    from kafkalite.protocol._generated.messages.produce import ProduceRequest
    from kafkalite.storage.up_conversion import MessageSet

ACKS_NONE = 0
_ACKS_ALL = -1
_VALID_ACKS = frozenset((-1, 0, 1))
_ADMIN_CLIENT_ID = "__admin_client"
_NO_OFFSET = -1
_CODEC_POSITION = 22
"""The position of the compression codec in a batch."""

_MAX_INLINE_VALIDATION_BYTES = 16 * 1024
"""Validating uncompressed records of up to this size takes little time."""

_MAX_INLINE_FIRST_WRITES = 8
"""The first write to a partition creates a directory and files, which may take a millisecond."""

# Errors that occur before the log is used. With other errors, the answer contains the log start
# offset.
_ERRORS_BEFORE_APPEND = frozenset(
    (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
    )
)

TopicKey = tuple[str, bytes]
"""A topic's name and id as in the request; one of them is empty."""

ParsedBatches = dict[tuple[TopicKey, int], "BatchView | MessageSet | KafkaError"]
"""The batch or messages of each partition, or their error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceEra:
    """Traits of a range of Produce versions."""

    allows_zstd: bool
    uses_topic_ids: bool
    verification: object
    """Traits of the verification by the transaction coordinator."""
    accepts_message_sets: bool = False
    """Whether the records may be messages of formats 0 and 1."""


class VerificationResult(NamedTuple):
    """The partitions that a transaction may write to, and the errors of the others."""

    partitions: frozenset[Partition]
    refusals: Mapping[Partition, KafkaError]
    is_concurrent: bool = False
    """Whether the previous transaction of the producer is being completed."""


class ProducerTransaction(Protocol):
    """The transaction of the producer of a request, as its coordinator knows it."""

    def verify(self, batches: Sequence[tuple[Partition, BatchView]]) -> VerificationResult:
        """Ask the coordinator which partitions the batches may be written to.

        Raises KafkaError if they have more than one producer.
        """

    def wait_for_previous(self) -> Waiting[ProduceResponse | None] | None:
        """Return a Waiting for the answer of a later attempt; None if there is no such attempt."""

    def report(self, error: KafkaError) -> None:
        """Report that a batch was refused."""


def produce(
    context: RequestContext,
    request: ProduceRequest,
    begin_transaction: Callable[[], ProducerTransaction],
) -> ProduceResponse | Waiting[ProduceResponse | None]:
    """Append the batches of a request, and return the response with their offsets.

    With acks=all the response waits until all in-sync replicas have the batches. While the previous
    transaction of the producer is being completed, it waits for a later attempt.

    Raises KafkaError if the whole request is refused: CORRUPT_MESSAGE for records that are not
    batches, TRANSACTIONAL_ID_AUTHORIZATION_FAILED for a transaction without a transactional id, and
    errors of `ProducerTransaction.verify`.
    """
    batches, is_transactional = _parse_batches(request, context.era)
    appender: _Appender
    if is_transactional:
        transaction = begin_transaction()
        appender = _TransactionalAppender(context, request, transaction, batches)
        if appender.is_concurrent:
            waiting = transaction.wait_for_previous()
            if waiting is not None:
                return waiting
    elif context.era.accepts_message_sets:
        appender = _ConvertingAppender(context, request)
    else:
        appender = _Appender(context, request)
    # Without pauses, the coordinator is asked once for all partitions of a transaction.
    may_pause = context.may_pause and not is_transactional
    response = _append_batches(context.node.partitions, batches, appender, may_pause=may_pause)
    if appender.unreplicated:
        return _wait_for_replicas(context, request, response, appender)
    if appender.found_other_leader:
        _add_leader_endpoints(context, response)
    return response


def _append_batches(
    partitions: PartitionTable, batches: ParsedBatches, appender: _Appender, *, may_pause: bool
) -> ProduceResponse:
    """Append the batches, and return the response."""
    answers: dict[TopicKey, ProduceResponse.TopicProduceResponse] = {}
    responses: list[ProduceResponse.TopicProduceResponse] = []
    try:
        for (key, index), batch in pop_items(batches) if may_pause else batches.items():
            topic = (
                partitions.topic_by_id(key[1]) if key[1] != ZERO_UUID else partitions.topic(key[0])
            )
            if key in answers:
                topic_answer = answers[key]
            else:
                topic_answer = ProduceResponse.TopicProduceResponse(name=key[0], topic_id=key[1])
                answers[key] = topic_answer
                responses.append(topic_answer)
            topic_answer.partition_responses.append(appender.append(topic, index, batch))
            if may_pause:
                # After each partition: the first write to one creates its files.
                turns.pause()
    finally:
        # Wakes waiting fetches, even if the client disconnects during a pause.
        partitions.announce()
    return ProduceResponse(responses=responses)


def _wait_for_replicas(
    context: RequestContext,
    request: ProduceRequest,
    response: ProduceResponse,
    appender: _Appender,
) -> Waiting[ProduceResponse | None]:
    """Return a Waiting for the response, which gets the errors of batches that are lost."""

    def end() -> None:
        if appender.found_other_leader:
            _add_leader_endpoints(context, response)
        waiting.resolve(response)

    node = context.node
    wait = ReplicationWait(node.partitions, appender.unreplicated, end)
    waiting: Waiting[ProduceResponse | None] = Waiting(on_abandon=wait.abandon)
    wait.start(node.clock, node.clock.now_ms() + request.timeout_ms)
    return waiting


def may_take_long(context: RequestContext, request: ProduceRequest) -> bool:
    """Return whether the request has many or compressed records to validate, or creates files."""
    node = context.node
    table = node.partitions
    if context.era.accepts_message_sets:
        return _may_convert_long(request) or _has_many_first_writes(table, request)
    partition_count = 0
    for topic in request.topic_data:
        for data in topic.partition_data:
            partition_count += 1
            records = data.records
            if (
                records
                and len(records) > HEADER_SIZE
                and (
                    records[_CODEC_POSITION] & COMPRESSION_MASK
                    or len(records) > _MAX_INLINE_VALIDATION_BYTES
                )
            ):
                hosted = table.topic(topic.name) or table.topic_by_id(topic.topic_id)
                now_ms = node.clock.now_ms()
                if hosted is not None and needs_decompression(
                    BatchView(records), hosted.config, now_ms
                ):
                    return True
    return partition_count > _MAX_INLINE_FIRST_WRITES and _has_many_first_writes(table, request)


def _may_convert_long(request: ProduceRequest) -> bool:
    """Return whether the conversion of messages may take long."""
    from kafkalite.storage.up_conversion import takes_long  # noqa: PLC0415 - few clients need it

    return any(
        takes_long(data.records or b"")
        for topic in request.topic_data
        for data in topic.partition_data
    )


def _has_many_first_writes(table: PartitionTable, request: ProduceRequest) -> bool:
    """Return whether many of the partitions have no records."""
    count = 0
    for topic in request.topic_data:
        hosted = table.topic(topic.name) or table.topic_by_id(topic.topic_id)
        if hosted is not None:
            partitions = hosted.partitions
            for data in topic.partition_data:
                if 0 <= data.index < len(partitions) and not partitions[data.index].log.end_offset:
                    count += 1
    return count > _MAX_INLINE_FIRST_WRITES


def _parse_batches(request: ProduceRequest, era: ProduceEra) -> tuple[ParsedBatches, bool]:
    """Return the batch of each partition, and whether any batch is transactional.

    If a partition occurs twice, its last batch is returned.

    Raises KafkaError if the whole request is refused: CORRUPT_MESSAGE for records that are not
    batches, TRANSACTIONAL_ID_AUTHORIZATION_FAILED for a transaction without a transactional id.
    """
    parsed: ParsedBatches = {}
    is_transactional = False
    parse = parse_old_records if era.accepts_message_sets else parse_single_batch
    for topic_data in request.topic_data:
        topic = (topic_data.name, topic_data.topic_id)
        for data in topic_data.partition_data:
            try:
                batch = parse(data.records, allows_zstd=era.allows_zstd)
            except KafkaError as error:
                if error.code is ErrorCode.CORRUPT_MESSAGE:
                    raise
                parsed[topic, data.index] = error.without_traceback()
                is_transactional |= is_first_batch_transactional(data.records)
            else:
                parsed[topic, data.index] = batch
                is_transactional |= batch.is_transactional
            if is_transactional and request.transactional_id is None:
                raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return parsed, is_transactional


class _Appender:
    """Appends the batches of one Produce request."""

    __slots__ = (
        "_acks",
        "_has_no_time",
        "_led",
        "_may_write_internal_topics",
        "_node_id",
        "_now_ms",
        "_partitions",
        "_unknown_topic_code",
        "found_other_leader",
        "unreplicated",
    )  # fmt: skip

    def __init__(self, context: RequestContext, request: ProduceRequest) -> None:
        node = context.node
        self._acks = request.acks
        self._has_no_time = request.acks == _ACKS_ALL and request.timeout_ms <= 0
        """Whether the time ends before any follower of Kafka can fetch a batch."""
        self._node_id = node.id
        self._now_ms = node.clock.now_ms()
        self._partitions = node.partitions
        self._unknown_topic_code = (
            ErrorCode.UNKNOWN_TOPIC_ID
            if context.era.uses_topic_ids
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        # Kafka's own tools may repair internal topics; they are recognized by their client id.
        self._may_write_internal_topics = context.client_id == _ADMIN_CLIENT_ID
        self._led: Partition | ReplicaView | None = None
        """The partition that was checked last, as its leader knows it."""
        self.found_other_leader = False
        """Whether a partition is led by another node."""
        self.unreplicated: list[AppendedBatch] = []
        """Batches that are not yet on all in-sync replicas, with acks=all."""

    def append(
        self, topic: HostedTopic | None, index: int, batch: BatchView | MessageSet | KafkaError
    ) -> ProduceResponse.PartitionProduceResponse:
        """Append the batch of one partition, and return its row of the response."""
        if topic is None:
            return _partition_error(index, self._unknown_topic_code)
        try:
            partition = topic.partition(index)
        except KafkaError as offline:
            error = batch if isinstance(batch, KafkaError) else offline
            return _partition_error(index, error.code)
        if partition is None:
            return _partition_error(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if isinstance(batch, KafkaError):
            return _partition_error(index, batch.code)
        # There are message sets for `_ConvertingAppender` only.
        return self._append_batch(partition, batch)  # type: ignore[arg-type]

    def _append_batch(
        self, partition: Partition, batch: BatchView, *, is_verified: bool = False
    ) -> ProduceResponse.PartitionProduceResponse:
        try:
            self._led = led = self._writable(partition)
            check_codec(batch)
            high_watermark = led.high_watermark if self._has_no_time else None
            appended = led.append(batch, self._now_ms, is_verified=is_verified, verifier=self)
        except InvalidRecordsError as error:
            return _records_error(partition, error)
        except KafkaError as error:
            return self._refuse(partition, error)
        except OSError:
            return _partition_error(partition.index, ErrorCode.KAFKA_STORAGE_ERROR)
        answer = ProduceResponse.PartitionProduceResponse(
            index=partition.index,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.append_time_ms,
            log_start_offset=(
                partition.log.start_offset if led is partition else led.log_start_offset
            ),
        )
        if self._acks == _ACKS_ALL and led.high_watermark < appended.end_offset:
            self.unreplicated.append(
                AppendedBatch(
                    partition,
                    self._node_id,
                    appended.end_offset,
                    led.leader_epoch,
                    partial(self._set_error, partition, answer),
                )
            )
        elif (
            high_watermark is not None
            and high_watermark < appended.end_offset
            and len(partition.isr) > 1
        ):
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        return answer

    def _set_error(
        self,
        partition: Partition,
        answer: ProduceResponse.PartitionProduceResponse,
        code: ErrorCode,
    ) -> None:
        answer.error_code = code
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._add_leader(partition, answer)

    def verify_again(self, partition: Partition, batch: BatchView) -> bool:
        """Repeat the checks whose result may have changed during a pause; see `BatchVerifier`."""
        del batch
        hosted = self._partitions.topic_by_id(partition.topic_id)
        if hosted is None or hosted.partition(partition.index) is not partition:
            raise KafkaError(self._unknown_topic_code)
        if self._writable(partition) is not self._led:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return False

    def _writable(self, partition: Partition) -> Partition | ReplicaView:
        """Return the partition that the node leads, as it knows it; raises KafkaError."""
        led: Partition | ReplicaView = partition
        if self._acks not in _VALID_ACKS:
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
        if partition.is_internal and not self._may_write_internal_topics:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if partition.leader != self._node_id or (
            partition.views and partition.seen_by(self._node_id) is not partition
        ):
            view = partition.views.get(self._node_id)
            if view is None or not view.accepts_records:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            led = view
        if self._acks == _ACKS_ALL and not led.has_enough_replicas:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        return led

    def _refuse(
        self, partition: Partition, error: KafkaError
    ) -> ProduceResponse.PartitionProduceResponse:
        code = error.code
        answer = _partition_error(partition.index, code)
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._add_leader(partition, answer)
        elif code not in _ERRORS_BEFORE_APPEND:
            answer.log_start_offset = partition.log.start_offset
        return answer

    def _add_leader(
        self, partition: Partition, answer: ProduceResponse.PartitionProduceResponse
    ) -> None:
        """Add the leader that the node knows to the answer (KIP-951)."""
        self.found_other_leader = True
        known = partition.seen_by(self._node_id)
        answer.current_leader = ProduceResponse.LeaderIdAndEpoch(
            leader_id=known.leader, leader_epoch=known.leader_epoch
        )


class _ConvertingAppender(_Appender):
    """Appends the records of one Produce request, which may be messages of old formats."""

    __slots__ = ()

    def _append_batch(
        self, partition: Partition, batch: BatchView | MessageSet, *, is_verified: bool = False
    ) -> ProduceResponse.PartitionProduceResponse:
        if not isinstance(batch, BatchView):
            try:
                self._writable(partition)
                converted = batch.to_batch()
            except KafkaError as error:
                return self._refuse(partition, error)
            if converted is None:
                return _partition_error(partition.index, ErrorCode.NONE)
            batch = converted
        return super()._append_batch(partition, batch, is_verified=is_verified)


class _TransactionalAppender(_Appender):
    """Appends the batches of a Produce request after asking the transaction coordinator."""

    __slots__ = ("_pauses", "_reported_codes", "_transaction", "_verified")

    def __init__(
        self,
        context: RequestContext,
        request: ProduceRequest,
        transaction: ProducerTransaction,
        batches: ParsedBatches,
    ) -> None:
        super().__init__(context, request)
        self._transaction = transaction
        self._reported_codes: set[ErrorCode] = set()
        self._verified = transaction.verify(_transactional_batches(self._partitions, batches))
        self._pauses = turns.pause_count
        """The value of `turns.pause_count` when all partitions were verified."""

    @property
    def is_concurrent(self) -> bool:
        """Whether the previous transaction of the producer is being completed."""
        return self._verified.is_concurrent

    def _verify(self, partition: Partition, batch: BatchView) -> VerificationResult:
        return self._transaction.verify(
            [(partition, batch)] if _belongs_to_transaction(batch) else []
        )

    def _append_batch(
        self, partition: Partition, batch: BatchView, *, is_verified: bool = False
    ) -> ProduceResponse.PartitionProduceResponse:
        if turns.pause_count != self._pauses:
            # During the pause, the transaction may have ended.
            self._verified = self._verify(partition, batch)
        refusal = self._verified.refusals.get(partition)
        if refusal is not None:
            answer = _partition_error(partition.index, refusal.code)
            answer.error_message = refusal.message
            return answer
        is_verified = partition in self._verified.partitions
        return super()._append_batch(partition, batch, is_verified=is_verified)

    def verify_again(self, partition: Partition, batch: BatchView) -> bool:
        """Ask the coordinator again too: the transaction may have ended during the pause."""
        super().verify_again(partition, batch)
        verified = self._verify(partition, batch)
        refusal = verified.refusals.get(partition)
        if refusal is not None:
            raise refusal
        return partition in verified.partitions

    def _refuse(
        self, partition: Partition, error: KafkaError
    ) -> ProduceResponse.PartitionProduceResponse:
        if error.code not in self._reported_codes:
            # Once per error code: a request may have thousands of partitions.
            self._reported_codes.add(error.code)
            self._transaction.report(
                KafkaError(error.code, error.message, {"partition": partition.name})
            )
        return super()._refuse(partition, error)


def _belongs_to_transaction(batch: BatchView) -> bool:
    return bool(batch.attributes & TRANSACTIONAL) and batch.producer_id > NO_PRODUCER_ID


def _transactional_batches(
    table: PartitionTable, batches: ParsedBatches
) -> list[tuple[Partition, BatchView]]:
    """Return the transactional batches of existing partitions."""
    found = []
    for (key, index), batch in batches.items():
        if not isinstance(batch, BatchView) or not _belongs_to_transaction(batch):
            continue
        topic = table.topic_by_id(key[1]) if key[1] != ZERO_UUID else table.topic(key[0])
        try:
            partition = None if topic is None else topic.partition(index)
        except KafkaError:  # it is offline
            continue
        if partition is not None:
            found.append((partition, batch))
    return found


def _partition_error(index: int, code: ErrorCode) -> ProduceResponse.PartitionProduceResponse:
    return ProduceResponse.PartitionProduceResponse(
        index=index, error_code=code, base_offset=_NO_OFFSET, log_append_time_ms=NO_TIMESTAMP
    )


def _records_error(
    partition: Partition, error: InvalidRecordsError
) -> ProduceResponse.PartitionProduceResponse:
    answer = _partition_error(partition.index, error.code)
    answer.error_message = error.message
    answer.log_start_offset = partition.log.start_offset
    answer.record_errors = [
        ProduceResponse.BatchIndexAndErrorMessage(
            batch_index=refused.batch_index, batch_index_error_message=refused.message
        )
        for refused in error.record_errors
    ]
    return answer


def _add_leader_endpoints(context: RequestContext, response: ProduceResponse) -> None:
    """Add the addresses of the leaders in the response (KIP-951)."""
    leaders = {
        answer.current_leader.leader_id
        for answer in partition_answers(response)
        if answer.current_leader is not None
    }
    response.node_endpoints = [
        ProduceResponse.NodeEndpoint(
            node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port, rack=endpoint.rack
        )
        for endpoint in context.node.known_endpoints(context.listener)
        if endpoint.node_id in leaders
    ]


def partition_answers(
    response: ProduceResponse,
) -> Iterator[ProduceResponse.PartitionProduceResponse]:
    """Yield the answers of all partitions."""
    for topic in response.responses:
        yield from topic.partition_responses
