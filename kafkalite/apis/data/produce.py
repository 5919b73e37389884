"""Produce: appends batches to partitions (KIP-98, KIP-467, KIP-516, KIP-890, KIP-951)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from kafkalite.apis.transactions.verification import (
    ADDS_PARTITIONS,
    BEFORE_ABORTABLE,
    KNOWS_ABORTABLE,
    VerificationEra,
    VerificationResult,
    VerificationRetries,
    verify,
)
from kafkalite.gateway.api import Api, Eras
from kafkalite.gateway.refusals import report_refusal
from kafkalite.partitions.produce_batches import (
    check_codec,
    is_first_batch_transactional,
    parse_single_batch,
)
from kafkalite.partitions.replication_wait import AppendedBatch, ReplicationWait
from kafkalite.ports import turns
from kafkalite.ports.turns import in_steps, pop_items
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol._generated.messages.produce import ProduceRequest, ProduceResponse
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
from kafkalite.protocol.message import copy_views
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.protocol.versions import Versions
from kafkalite.storage.batch import COMPRESSION_MASK, HEADER_SIZE, NO_TIMESTAMP, BatchView
from kafkalite.storage.validation import InvalidRecordsError, needs_decompression

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalite.cluster.node import Node
    from kafkalite.gateway.call import Call
    from kafkalite.partitions.partition import Partition
    from kafkalite.partitions.replicas import ReplicaView
    from kafkalite.partitions.table import HostedTopic, PartitionTable

_ACKS_NONE = 0
_CODEC_POSITION = 22
"""The position of the compression codec in a batch."""

_MAX_INLINE_VALIDATION_BYTES = 16 * 1024
"""Validating uncompressed records of up to this size takes little time."""

_MAX_INLINE_FIRST_WRITES = 8
"""The first write to a partition creates a directory and files, which may take a millisecond."""

_ACKS_ALL = -1
_VALID_ACKS = frozenset((-1, 0, 1))
_ADMIN_CLIENT_ID = "__admin_client"
_NO_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceEra:
    """Traits of a range of Produce versions."""

    allows_zstd: bool
    uses_topic_ids: bool
    verification: VerificationEra


_FIRST_ERA = ProduceEra(allows_zstd=True, uses_topic_ids=False, verification=BEFORE_ABORTABLE)
PRODUCE_ERAS = Eras(
    # KIP-110: clients before v7 cannot read zstd, so they must not write it either.
    (0, replace(_FIRST_ERA, allows_zstd=False)),
    (7, _FIRST_ERA),
    (11, replace(_FIRST_ERA, verification=KNOWS_ABORTABLE)),  # KIP-890
    (12, replace(_FIRST_ERA, verification=ADDS_PARTITIONS)),
    (13, replace(_FIRST_ERA, verification=ADDS_PARTITIONS, uses_topic_ids=True)),  # KIP-516
)

TopicKey = tuple[str, bytes]
"""A topic's name and id as in the request; one of them is empty."""

ParsedBatches = dict[tuple[TopicKey, int], "BatchView | KafkaError"]
"""The batch of each partition, or its error."""


def handle_produce(
    call: Call,
    request: ProduceRequest,
    retries: VerificationRetries[ProduceResponse | None] | None = None,
) -> ProduceResponse | Waiting[ProduceResponse | None] | None:
    """Append batches, and return their offsets; None for acks=0.

    With acks=all the answer waits until all in-sync replicas have the batches. While the previous
    transaction of the producer is being completed, the coordinator is asked again later, by
    `retries`.

    With acks=0 an error closes the connection, as in Kafka, because there is no response. Raises
    KafkaError for a request that is refused as a whole.
    """
    try:
        batches, is_transactional = _parse_batches(request, call.era, may_pause=call.may_pause)
        appender = (
            _TransactionalAppender(call, request, batches)
            if is_transactional
            else _Appender(call, request)
        )
    except KafkaError as error:
        if request.acks == _ACKS_NONE:
            raise _violation_without_acks(error.code) from error
        raise
    if is_transactional and appender.is_concurrent:
        waiting = _wait_for_transaction(call, request, retries)
        if waiting is not None:
            return waiting
    # Without pauses, the coordinator is asked once for all partitions of a transaction.
    may_pause = call.may_pause and not is_transactional
    response = _append_batches(call.node.partitions, batches, appender, may_pause=may_pause)
    if request.acks == _ACKS_NONE:
        for answer in _partition_answers(response):
            if answer.error_code:
                raise _violation_without_acks(ErrorCode(answer.error_code))
        return None
    if appender.unreplicated:
        return _wait_for_replicas(call, request, response, appender)
    if appender.found_other_leader:
        _add_leader_endpoints(call.node, call.listener, response)
    return response


def _wait_for_transaction(
    call: Call,
    request: ProduceRequest,
    retries: VerificationRetries[ProduceResponse | None] | None,
) -> Waiting[ProduceResponse | None] | None:
    """Return a Waiting for the answer of a later attempt; None after the last attempt.

    A long request has one attempt only, because a later one would be handled without a worker and
    block others. Its client sends it again.
    """
    if retries is not None:
        return None if retries.is_last else retries.wait_again()
    if call.may_pause:
        return None
    retries = VerificationRetries(call, partial(handle_produce, call, request))
    waiting = retries.begin(_size_of_records(request))
    if waiting is not None:
        copy_views(request)
    return waiting


def _size_of_records(request: ProduceRequest) -> int:
    return sum(
        len(data.records or b"") for topic in request.topic_data for data in topic.partition_data
    )


def _append_batches(
    partitions: PartitionTable, batches: ParsedBatches, appender: _Appender, *, may_pause: bool
) -> ProduceResponse:
    """Append the batches, and return the response."""
    answers: dict[TopicKey, ProduceResponse.TopicProduceResponse] = {}
    try:
        for (key, index), batch in pop_items(batches) if may_pause else batches.items():
            topic = (
                partitions.topic_by_id(key[1]) if key[1] != ZERO_UUID else partitions.topic(key[0])
            )
            topic_answer = answers.get(key)
            if topic_answer is None:
                topic_answer = ProduceResponse.TopicProduceResponse(name=key[0], topic_id=key[1])
                answers[key] = topic_answer
            topic_answer.partition_responses.append(appender.append(topic, index, batch))
            if may_pause:
                # After each partition: the first write to one creates its files.
                turns.pause()
    finally:
        # Wakes waiting fetches, even if the client disconnects during a pause.
        partitions.announce()
    return ProduceResponse(responses=list(answers.values()))


def _wait_for_replicas(
    call: Call,
    request: ProduceRequest,
    response: ProduceResponse,
    appender: _Appender,
) -> Waiting[ProduceResponse | None]:
    """Return a Waiting for the response, which gets the errors of batches that are lost."""
    node, listener = call.node, call.listener

    def end() -> None:
        if appender.found_other_leader:
            _add_leader_endpoints(node, listener, response)
        waiting.resolve(response)

    wait = ReplicationWait(node.partitions, appender.unreplicated, end)
    waiting: Waiting[ProduceResponse | None] = Waiting(on_abandon=wait.abandon)
    wait.start(node.clock, node.clock.now_ms() + request.timeout_ms)
    return waiting


def _may_take_long(call: Call, request: ProduceRequest) -> bool:
    """Return whether the request has many or compressed records to validate, or creates files."""
    table = call.node.partitions
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
                now_ms = call.node.clock.now_ms()
                if hosted is not None and needs_decompression(
                    BatchView(records), hosted.config, now_ms
                ):
                    return True
    return partition_count > _MAX_INLINE_FIRST_WRITES and _has_many_first_writes(table, request)


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


def _parse_batches(
    request: ProduceRequest, era: ProduceEra, *, may_pause: bool
) -> tuple[ParsedBatches, bool]:
    """Return the batch of each partition, and whether any batch is transactional.

    If a partition occurs twice, its last batch is returned.

    Raises KafkaError if the whole request is refused: CORRUPT_MESSAGE for records that are not
    batches, TRANSACTIONAL_ID_AUTHORIZATION_FAILED for a transaction without a transactional id.
    """
    parsed: ParsedBatches = {}
    is_transactional = False
    for topic_data in in_steps(request.topic_data) if may_pause else request.topic_data:
        topic = (topic_data.name, topic_data.topic_id)
        partition_data = topic_data.partition_data
        for data in in_steps(partition_data) if may_pause else partition_data:
            try:
                batch = parse_single_batch(data.records, allows_zstd=era.allows_zstd)
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


def _violation_without_acks(code: ErrorCode) -> ProtocolViolation:
    return ProtocolViolation(f"produce with acks=0 failed: {code.name}")


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

    def __init__(self, call: Call, request: ProduceRequest) -> None:
        self._acks = request.acks
        self._has_no_time = request.acks == _ACKS_ALL and request.timeout_ms <= 0
        """Whether the time ends before any follower of Kafka can fetch a batch."""
        node = call.node
        self._node_id = node.id
        self._now_ms = node.clock.now_ms()
        self._partitions = node.partitions
        self._unknown_topic_code = (
            ErrorCode.UNKNOWN_TOPIC_ID
            if call.era.uses_topic_ids
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        # Kafka's own tools may repair internal topics; they are recognized by their client id.
        self._may_write_internal_topics = call.client_id == _ADMIN_CLIENT_ID
        self._led: Partition | ReplicaView | None = None
        """The partition that was checked last, as its leader knows it."""
        self.found_other_leader = False
        """Whether a partition is led by another node."""
        self.unreplicated: list[AppendedBatch] = []
        """Batches that are not yet on all in-sync replicas, with acks=all."""

    @property
    def is_concurrent(self) -> bool:
        """Whether the previous transaction of the producer is being completed."""
        return False

    def append(
        self, topic: HostedTopic | None, index: int, batch: BatchView | KafkaError
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
        return self._append_batch(partition, batch)

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


class _TransactionalAppender(_Appender):
    """Appends the batches of a Produce request after asking the transaction coordinator."""

    __slots__ = ("_call", "_pauses", "_reported_codes", "_transactional_id", "_verified")

    def __init__(self, call: Call, request: ProduceRequest, batches: ParsedBatches) -> None:
        super().__init__(call, request)
        self._call = call
        self._reported_codes: set[ErrorCode] = set()
        self._transactional_id = request.transactional_id or ""
        self._verified = self._verify(_transactional_batches(call, batches))
        self._pauses = turns.pause_count
        """The value of `turns.pause_count` when all partitions were verified."""

    @property
    def is_concurrent(self) -> bool:
        """Whether the previous transaction of the producer is being completed."""
        return self._verified.is_concurrent

    def _verify(self, batches: Iterable[tuple[Partition, BatchView]]) -> VerificationResult:
        return verify(
            self._call,
            self._transactional_id,
            [each for each in batches if _belongs_to_transaction(each[1])],
            self._call.era.verification,
        )

    def _append_batch(
        self, partition: Partition, batch: BatchView, *, is_verified: bool = False
    ) -> ProduceResponse.PartitionProduceResponse:
        if turns.pause_count != self._pauses:
            # During the pause, the transaction may have ended.
            self._verified = self._verify(((partition, batch),))
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
        verified = self._verify(((partition, batch),))
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
            report_refusal(
                self._call,
                "Produce",
                self._transactional_id,
                KafkaError(error.code, error.message, {"partition": partition.name}),
                kind=Entity.TRANSACTIONAL_ID,
            )
        return super()._refuse(partition, error)


def _belongs_to_transaction(batch: BatchView) -> bool:
    return batch.is_transactional and batch.has_producer_id


def _transactional_batches(
    call: Call, batches: ParsedBatches
) -> Iterator[tuple[Partition, BatchView]]:
    """Yield the transactional batches of existing partitions."""
    table = call.node.partitions
    for (key, index), batch in batches.items():
        if isinstance(batch, KafkaError) or not _belongs_to_transaction(batch):
            continue
        topic = table.topic_by_id(key[1]) if key[1] != ZERO_UUID else table.topic(key[0])
        with suppress(KafkaError):
            partition = None if topic is None else topic.partition(index)
            if partition is not None:
                yield partition, batch


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


def _add_leader_endpoints(node: Node, listener: str, response: ProduceResponse) -> None:
    """Add the addresses of the leaders in the response (KIP-951)."""
    leaders = {
        answer.current_leader.leader_id
        for answer in _partition_answers(response)
        if answer.current_leader is not None
    }
    response.node_endpoints = [
        ProduceResponse.NodeEndpoint(
            node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port, rack=endpoint.rack
        )
        for endpoint in node.known_endpoints(listener)
        if endpoint.node_id in leaders
    ]


def _partition_answers(
    response: ProduceResponse,
) -> Iterator[ProduceResponse.PartitionProduceResponse]:
    for topic in response.responses:
        yield from topic.partition_responses


APIS = (
    Api(
        key=ProduceRequest.API_KEY,
        versions=Versions(3, 13),
        handler=handle_produce,
        inline_bytes=32 * 1024,
        is_inline_with_short_lists=True,
        may_take_long=_may_take_long,
        eras=PRODUCE_ERAS,
    ),
)
