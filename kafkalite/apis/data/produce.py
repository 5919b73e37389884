"""Produce: appends batches to partitions (KIP-98, KIP-467, KIP-516, KIP-890, KIP-951)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkalite.apis.transactions.verification import (
    ADDS_PARTITIONS,
    BEFORE_ABORTABLE,
    KNOWS_ABORTABLE,
    VerificationEra,
    Verified,
    verify,
)
from kafkalite.coordinator.contract import SubjectKind
from kafkalite.gateway.api import Api, Eras
from kafkalite.gateway.refusals import report_refusal
from kafkalite.partitions.produce_batches import (
    check_codec,
    is_first_batch_transactional,
    parse_single_batch,
)
from kafkalite.ports import turns
from kafkalite.ports.turns import in_steps
from kafkalite.protocol._generated.messages.produce import ProduceRequest, ProduceResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.protocol.versions import Versions
from kafkalite.storage.batch import COMPRESSION_MASK, HEADER_SIZE, NO_TIMESTAMP, BatchView
from kafkalite.storage.validation import InvalidRecordsError, needs_decompression

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalite.gateway.call import Call
    from kafkalite.partitions.partition import Partition
    from kafkalite.partitions.table import HostedTopic

_NO_ANSWER = 0
_CODEC_AT = 22
"""The position of the compression codec in a batch."""

_QUICK_BYTES = 16 * 1024
"""Validating uncompressed records of up to this size takes little time."""

_ALL_REPLICAS = -1
_REQUIRED_ACKS = frozenset((-1, 0, 1))
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

OpenedBatches = dict[tuple[TopicKey, int], "BatchView | KafkaError"]
"""The batch of each partition, or its error."""


def handle_produce(call: Call, request: ProduceRequest) -> ProduceResponse | None:
    """Append batches, and return their offsets; None for acks=0.

    With acks=0 an error closes the connection, as in Kafka, because there is no response. Raises
    KafkaError for a request that is refused as a whole.
    """
    try:
        batches, is_transactional = _open_batches(request, call.era, may_pause=call.may_pause)
        appender = (
            _TransactionalAppender(call, request, batches)
            if is_transactional
            else _Appender(call, request)
        )
    except KafkaError as error:
        if request.acks == _NO_ANSWER:
            raise _failed_without_answer(error.code) from error
        raise
    partitions = call.node.partitions
    answers: dict[TopicKey, ProduceResponse.TopicProduceResponse] = {}
    # Without pauses, the coordinator is asked once for all partitions of a transaction.
    pauses = call.may_pause and not is_transactional
    try:
        for (key, index), batch in in_steps(batches.items()) if pauses else batches.items():
            topic = (
                partitions.topic_by_id(key[1]) if key[1] != ZERO_UUID else partitions.topic(key[0])
            )
            own = answers.get(key)
            if own is None:
                own = ProduceResponse.TopicProduceResponse(name=key[0], topic_id=key[1])
                answers[key] = own
            own.partition_responses.append(appender.answer(topic, index, batch))
    finally:
        # Wakes waiting fetches, even if the client disconnects during a pause.
        partitions.announce()
    response = ProduceResponse(responses=list(answers.values()))
    if request.acks == _NO_ANSWER:
        for answer in _answers(response):
            if answer.error_code:
                raise _failed_without_answer(ErrorCode(answer.error_code))
        return None
    if appender.found_other_leader:
        _name_leaders(call, response)
    return response


def _must_open_many_records(call: Call, request: ProduceRequest) -> bool:
    """Return whether the request has many records to validate, or compressed ones."""
    table = call.node.partitions
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if (
                records
                and len(records) > HEADER_SIZE
                and (records[_CODEC_AT] & COMPRESSION_MASK or len(records) > _QUICK_BYTES)
            ):
                hosted = table.topic(topic.name) or table.topic_by_id(topic.topic_id)
                now_ms = call.node.clock.now_ms()
                if hosted is not None and needs_decompression(
                    BatchView(records), hosted.config, now_ms
                ):
                    return True
    return False


def _open_batches(
    request: ProduceRequest, era: ProduceEra, *, may_pause: bool
) -> tuple[OpenedBatches, bool]:
    """Return the batch of each partition, and whether any batch is transactional.

    If a partition occurs twice, its last batch is returned.

    Raises KafkaError if the whole request is refused: CORRUPT_MESSAGE for records that are not
    batches, TRANSACTIONAL_ID_AUTHORIZATION_FAILED for a transaction without a transactional id.
    """
    opened: OpenedBatches = {}
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
                opened[topic, data.index] = error.without_traceback()
                is_transactional |= is_first_batch_transactional(data.records)
            else:
                opened[topic, data.index] = batch
                is_transactional |= batch.is_transactional
            if is_transactional and request.transactional_id is None:
                raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return opened, is_transactional


def _failed_without_answer(code: ErrorCode) -> ProtocolViolation:
    return ProtocolViolation(f"produce with acks=0 failed: {code.name}")


class _Appender:
    """Appends the batches of one Produce request."""

    __slots__ = (
        "_acks", "_node_id", "_now_ms", "_partitions", "_unknown_topic", "_writes_internal",
        "found_other_leader",
    )  # fmt: skip

    def __init__(self, call: Call, request: ProduceRequest) -> None:
        self._acks = request.acks
        node = call.node
        self._node_id = node.id
        self._now_ms = node.clock.now_ms()
        self._partitions = node.partitions
        self._unknown_topic = (
            ErrorCode.UNKNOWN_TOPIC_ID
            if call.era.uses_topic_ids
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        # Kafka's own tools may repair internal topics; they are recognized by their client id.
        self._writes_internal = call.client_id == _ADMIN_CLIENT_ID
        self.found_other_leader = False
        """Whether a partition is led by another node."""

    def answer(
        self, topic: HostedTopic | None, index: int, batch: BatchView | KafkaError
    ) -> ProduceResponse.PartitionProduceResponse:
        """Append the batch of one partition, and return its row of the response."""
        if topic is None:
            return _refused(index, self._unknown_topic)
        try:
            partition = topic.partition(index)
        except KafkaError as offline:
            error = batch if isinstance(batch, KafkaError) else offline
            return _refused(index, error.code)
        if partition is None:
            return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if isinstance(batch, KafkaError):
            return _refused(index, batch.code)
        return self._append(partition, batch)

    def _append(
        self, partition: Partition, batch: BatchView, *, is_verified: bool = False
    ) -> ProduceResponse.PartitionProduceResponse:
        try:
            self._admit(partition)
            check_codec(batch)
            appended = partition.append(batch, self._now_ms, is_verified=is_verified, verifier=self)
        except InvalidRecordsError as error:
            return _refused_records(partition, error)
        except KafkaError as error:
            return self._refuse(partition, error)
        except OSError:
            return _refused(partition.index, ErrorCode.KAFKA_STORAGE_ERROR)
        return ProduceResponse.PartitionProduceResponse(
            index=partition.index,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.append_time_ms,
            log_start_offset=partition.log.start_offset,
        )

    def verify_again(self, partition: Partition, batch: BatchView) -> bool:
        """Repeat the checks whose result may have changed during a pause; see `BatchVerifier`."""
        del batch
        hosted = self._partitions.topic_by_id(partition.topic_id)
        if hosted is None or hosted.partition(partition.index) is not partition:
            raise KafkaError(self._unknown_topic)
        self._admit(partition)
        return False

    def _admit(self, partition: Partition) -> None:
        if self._acks not in _REQUIRED_ACKS:
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
        if partition.is_internal and not self._writes_internal:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if partition.leader != self._node_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self._acks == _ALL_REPLICAS and not partition.has_enough_replicas:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)

    def _refuse(
        self, partition: Partition, error: KafkaError
    ) -> ProduceResponse.PartitionProduceResponse:
        code = error.code
        answer = _refused(partition.index, code)
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self.found_other_leader = True
            answer.current_leader = ProduceResponse.LeaderIdAndEpoch(
                leader_id=partition.leader, leader_epoch=partition.leader_epoch
            )
        elif code not in _EXPECTED:
            answer.log_start_offset = partition.log.start_offset
        return answer


class _TransactionalAppender(_Appender):
    """Appends the batches of a Produce request after asking the transaction coordinator."""

    __slots__ = ("_call", "_pauses", "_reported", "_transactional_id", "_verified")

    def __init__(self, call: Call, request: ProduceRequest, batches: OpenedBatches) -> None:
        super().__init__(call, request)
        self._call = call
        self._reported: set[ErrorCode] = set()
        self._transactional_id = request.transactional_id or ""
        self._verified = self._verify(_transactional(call, batches))
        self._pauses = turns.pauses
        """The value of `turns.pauses` when all partitions were verified."""

    def _verify(self, batches: Iterable[tuple[Partition, BatchView]]) -> Verified:
        return verify(
            self._call,
            self._transactional_id,
            [each for each in batches if _is_of_transaction(each[1])],
            self._call.era.verification,
        )

    def _append(
        self, partition: Partition, batch: BatchView, *, is_verified: bool = False
    ) -> ProduceResponse.PartitionProduceResponse:
        if turns.pauses != self._pauses:
            # During the pause, the transaction may have ended.
            self._verified = self._verify(((partition, batch),))
        refusal = self._verified.refusals.get(partition)
        if refusal is not None:
            answer = _refused(partition.index, refusal.code)
            answer.error_message = refusal.message
            return answer
        is_verified = partition in self._verified.partitions
        return super()._append(partition, batch, is_verified=is_verified)

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
        if error.code not in self._reported:
            # Once per error code: a request may have thousands of partitions.
            self._reported.add(error.code)
            report_refusal(
                self._call,
                "Produce",
                self._transactional_id,
                KafkaError(error.code, error.message, {"partition": partition.name}),
                of=SubjectKind.TRANSACTIONAL_ID,
            )
        return super()._refuse(partition, error)


def _is_of_transaction(batch: BatchView) -> bool:
    return batch.is_transactional and batch.has_producer_id


def _transactional(call: Call, batches: OpenedBatches) -> Iterator[tuple[Partition, BatchView]]:
    """Yield the transactional batches of existing partitions."""
    table = call.node.partitions
    for (key, index), batch in batches.items():
        if isinstance(batch, KafkaError) or not _is_of_transaction(batch):
            continue
        topic = table.topic_by_id(key[1]) if key[1] != ZERO_UUID else table.topic(key[0])
        with suppress(KafkaError):
            partition = None if topic is None else topic.partition(index)
            if partition is not None:
                yield partition, batch


# Errors before the log is reached; with other errors, the answer contains the log start offset.
_EXPECTED = frozenset(
    (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
    )
)


def _refused(index: int, code: ErrorCode) -> ProduceResponse.PartitionProduceResponse:
    return ProduceResponse.PartitionProduceResponse(
        index=index, error_code=code, base_offset=_NO_OFFSET, log_append_time_ms=NO_TIMESTAMP
    )


def _refused_records(
    partition: Partition, error: InvalidRecordsError
) -> ProduceResponse.PartitionProduceResponse:
    answer = _refused(partition.index, error.code)
    answer.error_message = error.message
    answer.log_start_offset = partition.log.start_offset
    answer.record_errors = [
        ProduceResponse.BatchIndexAndErrorMessage(
            batch_index=refused.batch_index, batch_index_error_message=refused.message
        )
        for refused in error.record_errors
    ]
    return answer


def _name_leaders(call: Call, response: ProduceResponse) -> None:
    """Add the addresses of the leaders in the response (KIP-951)."""
    leaders = {
        answer.current_leader.leader_id
        for answer in _answers(response)
        if answer.current_leader is not None
    }
    response.node_endpoints = [
        ProduceResponse.NodeEndpoint(
            node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port, rack=endpoint.rack
        )
        for endpoint in call.node.cluster.endpoints(call.listener)
        if endpoint.node_id in leaders
    ]


def _answers(
    response: ProduceResponse,
) -> Iterator[ProduceResponse.PartitionProduceResponse]:
    for topic in response.responses:
        yield from topic.partition_responses


def refuse_produce(
    request: ProduceRequest, code: ErrorCode, message: str | None
) -> ProduceResponse:
    """Return the response with one error for every partition of a request."""
    response = ProduceResponse()
    for topic in in_steps(request.topic_data):
        answers = ProduceResponse.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        for data in in_steps(topic.partition_data):
            answer = _refused(data.index, code)
            answer.error_message = message
            answers.partition_responses.append(answer)
        response.responses.append(answers)
    return response


APIS = (
    Api(
        key=ProduceRequest.API_KEY,
        versions=Versions(3, 13),
        handler=handle_produce,
        inline_bytes=32 * 1024,
        is_bounded=True,
        may_take_long=_must_open_many_records,
        refuse=refuse_produce,
        eras=PRODUCE_ERAS,
    ),
)
