"""Produce: batches from clients into partitions (KIP-98, KIP-467, KIP-516, KIP-890, KIP-951)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkalite.apis.contract import Api, Eras
from kafkalite.apis.refusals import note_refusal
from kafkalite.apis.verification import (
    ADDS_PARTITIONS,
    BEFORE_ABORTABLE,
    KNOWS_ABORTABLE,
    VerificationEra,
    verify,
)
from kafkalite.coordinator.contract import SubjectKind
from kafkalite.partitions.producing import begins_transactional, check_codec, only_batch
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
from kafkalite.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.protocol.versions import Versions
from kafkalite.storage.batch import NO_TIMESTAMP
from kafkalite.storage.validation import RecordsRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.apis.context import RequestContext
    from kafkalite.partitions.partition import Partition
    from kafkalite.partitions.table import HostedTopic
    from kafkalite.storage.batch import BatchView

_NO_ANSWER = 0
_ALL_REPLICAS = -1
_REQUIRED_ACKS = frozenset((-1, 0, 1))
_ADMIN_CLIENT_ID = "__admin_client"
_NO_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceEra:
    """What a range of Produce versions means, once its bytes are out of the way."""

    allows_zstd: bool
    uses_topic_ids: bool
    verification: VerificationEra


_FIRST_ERA = ProduceEra(allows_zstd=True, uses_topic_ids=False, verification=BEFORE_ABORTABLE)
PRODUCE_ERAS = Eras(
    # KIP-110: clients before v7 could not read zstd back, so they may not write it either.
    (0, replace(_FIRST_ERA, allows_zstd=False)),
    (7, _FIRST_ERA),
    (11, replace(_FIRST_ERA, verification=KNOWS_ABORTABLE)),  # KIP-890
    (12, replace(_FIRST_ERA, verification=ADDS_PARTITIONS)),
    (13, replace(_FIRST_ERA, verification=ADDS_PARTITIONS, uses_topic_ids=True)),  # KIP-516
)

TopicKey = tuple[str, bytes]
"""A topic's name and id as the client gave them, one of them empty."""

OpenedBatches = dict[tuple[TopicKey, int], "BatchView | KafkaError"]
"""Each partition's batch, or what is wrong with it."""


def handle_produce(context: RequestContext, request: ProduceRequest) -> ProduceResponse | None:
    """Append what a client sends, and say where it is; nothing is said where acks is 0.

    With acks=0 an error can only be told by closing the connection, which Kafka does as well.
    KafkaError for a request that is refused as a whole.
    """
    try:
        batches, is_transactional = _open_batches(request, context.era)
        appender = (
            _TransactionalAppender(context, request, batches)
            if is_transactional
            else _Appender(context, request)
        )
    except KafkaError as error:
        if request.acks == _NO_ANSWER:
            raise _unheard(error.code) from error
        raise
    partitions = context.services.partitions
    answers: dict[TopicKey, ProduceResponse.TopicProduceResponse] = {}
    for (key, index), batch in batches.items():
        topic = partitions.topic_by_id(key[1]) if key[1] != ZERO_UUID else partitions.topic(key[0])
        own = answers.get(key)
        if own is None:
            own = answers[key] = ProduceResponse.TopicProduceResponse(name=key[0], topic_id=key[1])
        own.partition_responses.append(appender.answer(topic, index, batch))
    partitions.announce()
    response = ProduceResponse(responses=list(answers.values()))
    if request.acks == _NO_ANSWER:
        for answer in _answers(response):
            if answer.error_code:
                raise _unheard(ErrorCode(answer.error_code))
        return None
    if appender.met_stranger:
        _name_leaders(context, response)
    return response


def _open_batches(request: ProduceRequest, era: ProduceEra) -> tuple[OpenedBatches, bool]:
    """Return the batches, and whether one is of a transaction; the last of several wins.

    KafkaError when all partitions fall with one: CORRUPT_MESSAGE for what cannot be read as
    batches at all, TRANSACTIONAL_ID_AUTHORIZATION_FAILED for a transaction that nobody names.
    """
    opened: OpenedBatches = {}
    is_transactional = False
    for topic_data in request.topic_data:
        topic = (topic_data.name, topic_data.topic_id)
        for data in topic_data.partition_data:
            try:
                batch = only_batch(data.records, allows_zstd=era.allows_zstd)
            except KafkaError as error:
                if error.code is ErrorCode.CORRUPT_MESSAGE:
                    raise
                opened[topic, data.index] = error
                is_transactional |= begins_transactional(data.records)
            else:
                opened[topic, data.index] = batch
                is_transactional |= batch.is_transactional
            if is_transactional and request.transactional_id is None:
                raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return opened, is_transactional


def _unheard(code: ErrorCode) -> ProtocolViolation:
    return ProtocolViolation(f"produce with acks=0 failed: {code.name}")


class _Appender:
    """One Produce request at work."""

    __slots__ = (
        "_acks", "_node_id", "_now_ms", "_unknown_topic", "_writes_internal", "met_stranger",
    )  # fmt: skip

    def __init__(self, context: RequestContext, request: ProduceRequest) -> None:
        self._acks = request.acks
        self._node_id = context.node_id
        self._now_ms = context.services.clock.now_ms()
        self._unknown_topic = (
            ErrorCode.UNKNOWN_TOPIC_ID
            if context.era.uses_topic_ids
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        # Kafka lets its own tools repair internal topics, and knows them by their client id.
        self._writes_internal = context.client_id == _ADMIN_CLIENT_ID
        self.met_stranger = False
        """Whether some partition is led by another node."""

    def answer(
        self, topic: HostedTopic | None, index: int, batch: BatchView | KafkaError
    ) -> ProduceResponse.PartitionProduceResponse:
        """Append one partition's batch, if both are there, and return what to say of it."""
        if topic is None:
            return _refused(index, self._unknown_topic)
        try:
            partition = topic.partition(index)
        except KafkaError as offline:
            fault = batch if isinstance(batch, KafkaError) else offline
            return _refused(index, fault.code)
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
            place = partition.append(batch, self._now_ms, is_verified=is_verified)
        except RecordsRefusedError as error:
            return _refused_records(partition, error)
        except KafkaError as error:
            return self._refuse(partition, error)
        except OSError:
            return _refused(partition.index, ErrorCode.KAFKA_STORAGE_ERROR)
        return ProduceResponse.PartitionProduceResponse(
            index=partition.index,
            base_offset=place.base_offset,
            log_append_time_ms=place.append_time_ms,
            log_start_offset=partition.log.start_offset,
        )

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
            self.met_stranger = True
            answer.current_leader = ProduceResponse.LeaderIdAndEpoch(
                leader_id=partition.leader, leader_epoch=partition.leader_epoch
            )
        elif code not in _EXPECTED:
            answer.log_start_offset = partition.log.start_offset
        return answer


class _TransactionalAppender(_Appender):
    """A Produce request with records of a transaction: the coordinator is asked first."""

    __slots__ = ("_context", "_noted", "_transactional_id", "_verified")

    def __init__(
        self, context: RequestContext, request: ProduceRequest, batches: OpenedBatches
    ) -> None:
        super().__init__(context, request)
        self._context = context
        self._noted: set[ErrorCode] = set()
        self._transactional_id = request.transactional_id or ""
        self._verified = verify(
            context,
            self._transactional_id,
            list(_transactional(context, batches)),
            context.era.verification,
        )

    def _append(
        self, partition: Partition, batch: BatchView, *, is_verified: bool = False
    ) -> ProduceResponse.PartitionProduceResponse:
        refusal = self._verified.refusals.get(partition)
        if refusal is not None:
            answer = _refused(partition.index, refusal.code)
            answer.error_message = refusal.message
            return answer
        is_verified = partition in self._verified.partitions
        return super()._append(partition, batch, is_verified=is_verified)

    def _refuse(
        self, partition: Partition, error: KafkaError
    ) -> ProduceResponse.PartitionProduceResponse:
        if error.code not in self._noted:
            # Once for each reason: a request may be for thousands of partitions.
            self._noted.add(error.code)
            note_refusal(
                self._context,
                "Produce",
                self._transactional_id,
                KafkaError(error.code, error.message, {"partition": partition.name}),
                of=SubjectKind.TRANSACTIONAL_ID,
            )
        return super()._refuse(partition, error)


def _transactional(
    context: RequestContext, batches: OpenedBatches
) -> Iterator[tuple[Partition, BatchView]]:
    """Yield the batches of transactions whose partitions are there."""
    table = context.services.partitions
    for (key, index), batch in batches.items():
        if isinstance(batch, KafkaError) or not (batch.is_transactional and batch.has_producer_id):
            continue
        topic = table.topic_by_id(key[1]) if key[1] != ZERO_UUID else table.topic(key[0])
        with suppress(KafkaError):
            partition = None if topic is None else topic.partition(index)
            if partition is not None:
                yield partition, batch


# What Kafka expects to meet before a log is reached; with all else it tells where the log starts.
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
    partition: Partition, error: RecordsRefusedError
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


def _name_leaders(context: RequestContext, response: ProduceResponse) -> None:
    """Add the addresses of the leaders that the answer points at (KIP-951)."""
    leaders = {
        answer.current_leader.leader_id
        for answer in _answers(response)
        if answer.current_leader is not None
    }
    response.node_endpoints = [
        ProduceResponse.NodeEndpoint(
            node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port, rack=endpoint.rack
        )
        for endpoint in context.services.endpoints(context.listener)
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
    """Say one error for every partition of a request."""
    response = ProduceResponse()
    for topic in request.topic_data:
        answers = ProduceResponse.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        for data in topic.partition_data:
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
        refuse=refuse_produce,
        eras=PRODUCE_ERAS,
    ),
)
