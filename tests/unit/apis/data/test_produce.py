"""Produce: appended batches, and errors by version and cause."""

# ruff: noqa: ANN401 - requests are made of the fields that a test names

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from kafkalite.apis.data.produce import APIS
from kafkalite.gateway.steps import DisconnectError
from kafkalite.partitions.former_leader import FormerLeader
from kafkalite.partitions.replicas import Leader
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.ports.turns import ThreadCall
from kafkalite.ports.waiting import Waiting
from kafkalite.ports.workers import Worker
from kafkalite.protocol._generated.messages.produce import ProduceRequest, ProduceResponse
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
from kafkalite.protocol.rows import refusal
from kafkalite.storage.batch import NO_PRODUCER, TRANSACTIONAL, BatchProducer, BatchView
from kafkalite.storage.compression import CODEC_NUMBERS
from kafkalite.storage.transaction_marker import TransactionMarker
from tests.unit.data_plane import DataPlane, batch_of, batches_in, values_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kafkalite.gateway.call import Call
    from kafkalite.partitions.partition import Partition

(API,) = APIS
ZERO = bytes(16)
LONG = 1e18
"""The deadline of a turn that is not reached."""


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    return DataPlane(tmp_path)


def request_of(
    *records: bytes | memoryview | None, name: str = "t", topic_id: bytes = ZERO, acks: int = -1
) -> ProduceRequest:
    """Return a request with one partition for each of the given records, from index 0 on."""
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=name,
                topic_id=topic_id,
                partition_data=[
                    ProduceRequest.PartitionProduceData(index=index, records=one)
                    for index, one in enumerate(records)
                ],
            )
        ],
    )


def produce(
    plane: DataPlane, *records: bytes | None, version: int = 12, node_id: int = 0, **named: Any
) -> list[ProduceResponse.PartitionProduceResponse]:
    response = plane.ask(API, request_of(*records, **named), version, node_id=node_id)
    return [answer for topic in response.responses for answer in topic.partition_responses]


def produce_one(
    plane: DataPlane, records: bytes | None, **named: Any
) -> ProduceResponse.PartitionProduceResponse:
    (answer,) = produce(plane, records, **named)
    return answer


def code_of(plane: DataPlane, records: bytes | None, **named: Any) -> ErrorCode:
    return ErrorCode(produce_one(plane, records, **named).error_code)


def read(plane: DataPlane, index: int = 0) -> list[bytes | None]:
    partition = plane.partition(index=index)
    records = partition.read(0, max_bytes=2**20, limit_offset=10**9, at_least_one=True)
    return values_in(records)


def test_an_offline_log_accepts_nothing(plane: DataPlane) -> None:
    topic = plane.create_offline()
    answer = produce_one(plane, batch_of(b"a"))
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (answer.base_offset, answer.log_start_offset) == (-1, -1)
    by_id = produce_one(plane, batch_of(b"a"), version=13, name="", topic_id=topic.topic_id)
    assert by_id.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    # Errors of the records themselves are found before.
    assert code_of(plane, batch_of(b"a") * 2) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("acks", [-2, 2, 127])
def test_invalid_acks_are_refused(plane: DataPlane, acks: int) -> None:
    plane.create()
    assert code_of(plane, batch_of(b"a"), acks=acks) == ErrorCode.INVALID_REQUIRED_ACKS
    assert read(plane) == []


def test_an_error_with_acks_0_closes_the_connection(plane: DataPlane) -> None:
    plane.create()
    with pytest.raises(ProtocolViolation, match="CORRUPT_MESSAGE"):
        plane.ask(API, request_of(corrupt(batch_of(b"a")), acks=0), 12)


def corrupt(batch: bytes) -> bytes:
    return batch[:-1] + bytes((batch[-1] ^ 1,))


def test_the_broker_sets_timestamps_with_log_append_time(plane: DataPlane) -> None:
    plane.create(config={"message.timestamp.type": "LogAppendTime"})
    answer = produce_one(plane, batch_of(b"a", timestamp=5))
    now_ms = plane.clock.now_ms()
    assert answer.log_append_time_ms == now_ms
    partition = plane.partition()
    records = partition.read(0, max_bytes=10**6, limit_offset=1, at_least_one=True)
    (batch,) = batches_in(records)
    assert batch.has_valid_crc()
    assert [record.timestamp for record in batch.records()] == [now_ms]


def test_old_clients_cannot_write_zstd(plane: DataPlane) -> None:
    plane.create()
    zstd = batch_of(b"a", attributes=CODEC_NUMBERS["zstd"])
    assert code_of(plane, zstd, version=6) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert code_of(plane, zstd, version=7) == ErrorCode.NONE


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "none"])
def test_every_codec_is_stored_unchanged(plane: DataPlane, codec: str) -> None:
    plane.create()
    assert code_of(plane, batch_of(b"a", b"b", attributes=CODEC_NUMBERS[codec])) == 0
    partition = plane.partition()
    (batch,) = batches_in(partition.read(0, max_bytes=9999, limit_offset=2, at_least_one=True))
    assert batch.compression == CODEC_NUMBERS[codec]
    assert read(plane) == [b"a", b"b"]


def test_a_topic_with_its_own_compression_recompresses(plane: DataPlane) -> None:
    plane.create(config={"compression.type": "gzip"})
    assert code_of(plane, batch_of(b"a", producer=BatchProducer(7, 0, 0))) == ErrorCode.NONE
    partition = plane.partition()
    (batch,) = batches_in(partition.read(0, max_bytes=9999, limit_offset=2, at_least_one=True))
    assert (batch.compression, batch.producer_id) == (CODEC_NUMBERS["gzip"], 7)
    assert read(plane) == [b"a"]


# --- idempotent producers (KIP-98) ---------------------------------------------------------------


def sequenced_batch(sequence: int, *values: bytes, epoch: int = 0, attributes: int = 0) -> bytes:
    return batch_of(
        *(values or (b"v",)), producer=BatchProducer(9, epoch, sequence), attributes=attributes
    )


def test_producers_are_known_after_a_restart(plane: DataPlane) -> None:
    plane.create()
    produce_one(plane, sequenced_batch(0))
    for cleanly in (True, False):
        plane.restart(cleanly=cleanly)
        assert produce_one(plane, sequenced_batch(0)).base_offset == 0
        assert code_of(plane, sequenced_batch(2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (
            sequenced_batch(0, attributes=TRANSACTIONAL),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (b"\0" * 11 + b"\5" + b"\0" * 60, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_some_invalid_batches_refuse_the_whole_request(
    plane: DataPlane, records: bytes, code: ErrorCode
) -> None:
    plane.create(partitions=2)
    request = request_of(batch_of(b"a"), records)
    with pytest.raises(KafkaError) as caught:
        plane.ask(API, request, 12)
    assert caught.value.code == code
    assert read(plane) == []
    request.acks = 0
    with pytest.raises(ProtocolViolation):
        plane.ask(API, request, 12)


# --- access and replicas -------------------------------------------------------------------------


def test_only_the_admin_client_writes_to_internal_topics(plane: DataPlane) -> None:
    plane.create("__consumer_offsets")
    request = request_of(batch_of(b"a"), name="__consumer_offsets")
    response = API.handler(plane.call(API, 12), request)
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    call = plane.call(API, 12, client_id="__admin_client")
    assert API.handler(call, request).responses[0].partition_responses[0].error_code == 0


def test_no_more_replicas_are_required_than_exist(plane: DataPlane) -> None:
    plane.create(config={"min.insync.replicas": "3"})
    assert code_of(plane, batch_of(b"a")) == ErrorCode.NONE


def test_the_order_of_two_clients_is_preserved(plane: DataPlane) -> None:
    plane.create()
    for number in range(4):
        produce_one(plane, batch_of(b"one %d" % number))
        produce_one(plane, batch_of(b"two %d" % number))
    values = read(plane)
    assert [value for value in values if value and value.startswith(b"one")] == [
        b"one %d" % number for number in range(4)
    ]
    assert len(values) == 8


def test_a_refusal_lists_every_partition() -> None:
    response = refusal(ApiKey.PRODUCE, request_of(b"", b""), ErrorCode.UNKNOWN_SERVER_ERROR, None)
    answers = response.responses[0].partition_responses
    assert [(one.index, one.error_code, one.base_offset) for one in answers] == [
        (0, -1, -1),
        (1, -1, -1),
    ]


def test_a_failing_disk_is_a_storage_error(
    plane: DataPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane.create()
    partition = plane.partition()

    def fail(_: Partition, batch: BatchView, now_ms: int, **_options: object) -> None:
        raise OSError(batch, now_ms)

    monkeypatch.setattr(type(partition), "append", fail)
    assert code_of(plane, batch_of(b"a")) == ErrorCode.KAFKA_STORAGE_ERROR


# --- transactions --------------------------------------------------------------------------------


_ALL_ATTEMPTS_MS = 1000
"""Longer than all attempts to verify a transaction take."""


class Coordinator:
    """A transaction coordinator with scripted answers that records its calls."""

    def __init__(self, **codes: ErrorCode) -> None:
        self.codes = codes
        self.asked: list[tuple[str, tuple[int, int], list[tuple[str, int]], bool]] = []

    def verify_or_add_partitions(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        partitions: Sequence[tuple[str, int]],
        *,
        adds_missing: bool,
    ) -> dict[tuple[str, int], ErrorCode]:
        self.asked.append((transactional_id, producer, list(partitions), adds_missing))
        return {
            place: self.codes.get(f"{place[0]}{place[1]}", ErrorCode.NONE) for place in partitions
        }


def transact(
    plane: DataPlane,
    coordinator: Coordinator,
    *records: bytes,
    version: int = 12,
    node_id: int = 0,
    acks: int = -1,
) -> list[ProduceResponse.PartitionProduceResponse]:
    """Send batches for the partitions of a topic under the transactional id "id"."""
    call = plane.call(API, version, node_id=node_id)
    call.node.transactions = cast("Any", coordinator)
    request = request_of(*records, acks=acks)
    request.transactional_id = "id"
    response = API.handler(call, request)
    if isinstance(response, Waiting):
        plane.clock.advance(_ALL_ATTEMPTS_MS)
        response = response.value
    return [answer for topic in response.responses for answer in topic.partition_responses]


def transactional_batch(sequence: int, *, pid: int = 7, epoch: int = 0) -> bytes:
    return batch_of(b"t", attributes=TRANSACTIONAL, producer=BatchProducer(pid, epoch, sequence))


@pytest.mark.parametrize(("version", "adds"), [(3, False), (11, False), (12, True)])
def test_the_coordinator_is_asked_once_for_all_new_partitions(
    plane: DataPlane,
    version: int,
    adds: bool,  # noqa: FBT001
) -> None:
    plane.create(partitions=3)
    coordinator = Coordinator()
    transact(plane, coordinator, transactional_batch(0), version=version)
    batches = [transactional_batch(1), transactional_batch(0), sequenced_batch(0)]
    answers = transact(plane, coordinator, *batches, version=version)
    assert [answer.error_code for answer in answers] == [0, 0, 0]
    assert coordinator.asked == [
        ("id", (7, 0), [("t", 0)], adds),
        ("id", (7, 0), [("t", 1)], adds),
    ]
    transact(plane, coordinator, transactional_batch(2), transactional_batch(1), version=version)
    assert len(coordinator.asked) == 2
    assert plane.partition().last_stable_offset == 0


UNVERIFIED = "Unable to verify the partition has been added to the transaction. Underlying error: "


@pytest.mark.parametrize(
    ("version", "answered", "expected", "message"),
    [
        (3, "TRANSACTION_ABORTABLE", "INVALID_TXN_STATE", "Partition was not added"),
        (10, "TRANSACTION_ABORTABLE", "INVALID_TXN_STATE", "Partition was not added"),
        (11, "TRANSACTION_ABORTABLE", "TRANSACTION_ABORTABLE", None),
        (10, "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", None),
        (12, "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", None),
        (11, "CONCURRENT_TRANSACTIONS", "NOT_ENOUGH_REPLICAS", UNVERIFIED),
        (12, "CONCURRENT_TRANSACTIONS", "CONCURRENT_TRANSACTIONS", None),
        (12, "COORDINATOR_LOAD_IN_PROGRESS", "NOT_ENOUGH_REPLICAS", UNVERIFIED),
        (12, "COORDINATOR_NOT_AVAILABLE", "NOT_ENOUGH_REPLICAS", UNVERIFIED),
        (3, "NOT_COORDINATOR", "NOT_ENOUGH_REPLICAS", UNVERIFIED),
        (12, "INVALID_PRODUCER_ID_MAPPING", "INVALID_PRODUCER_ID_MAPPING", None),
        (12, "INVALID_TXN_STATE", "INVALID_TXN_STATE", "Partition was not added"),
    ],
)
def test_errors_of_the_coordinator_depend_on_the_version(
    plane: DataPlane, version: int, answered: str, expected: str, message: str | None
) -> None:
    plane.create(partitions=2)
    coordinator = Coordinator(t0=ErrorCode[answered])
    refused, taken = transact(
        plane, coordinator, transactional_batch(0), transactional_batch(0), version=version
    )
    assert ErrorCode(refused.error_code) is ErrorCode[expected]
    assert (refused.base_offset, refused.log_start_offset) == (-1, -1)
    assert (refused.error_message or "").startswith(message or "")
    assert (refused.error_message is None) is (message is None)
    if message == UNVERIFIED:
        assert refused.error_message == UNVERIFIED + answered
    assert (taken.error_code, taken.base_offset) == (0, 0)
    assert plane.partition().end_offset == 0


def concurrent_produce(
    plane: DataPlane,
    coordinator: Coordinator,
    records: bytes | memoryview | None = None,
    *,
    acks: int = -1,
) -> Waiting[ProduceResponse]:
    """Write in a transaction while the previous one is being completed."""
    plane.create()
    call = plane.call(API, 12)
    call.node.transactions = cast("Any", coordinator)
    request = request_of(records or transactional_batch(0), acks=acks)
    request.transactional_id = "id"
    answer = API.handler(call, request)
    assert isinstance(answer, Waiting)
    return answer


CONCURRENT: Final = {"t0": ErrorCode.CONCURRENT_TRANSACTIONS}


def test_the_coordinator_is_asked_again_while_a_transaction_is_completed(plane: DataPlane) -> None:
    coordinator = Coordinator(**CONCURRENT)
    answer = concurrent_produce(plane, coordinator)
    plane.clock.advance(19)
    assert len(coordinator.asked) == 1
    plane.clock.advance(1)
    assert (len(coordinator.asked), answer.is_resolved) == (2, False)
    coordinator.codes.clear()
    plane.clock.advance(20)
    assert answer.value.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert plane.partition().end_offset == 1


@pytest.mark.parametrize(
    ("settings", "attempts"),
    [
        ({}, 6),
        ({"backoff.ms": "60"}, 3),
        ({"backoff.max.ms": "1"}, 2),
        ({"backoff.max.ms": "0"}, 1),
    ],
)
def test_the_coordinator_is_asked_for_a_limited_time(
    tmp_path: Path, settings: dict[str, str], attempts: int
) -> None:
    prefix = "add.partitions.to.txn.retry."
    plane = DataPlane(tmp_path, {f"{prefix}{key}": value for key, value in settings.items()})
    plane.create()
    coordinator = Coordinator(**CONCURRENT)
    (answer,) = transact(plane, coordinator, transactional_batch(0))
    assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert len(coordinator.asked) == attempts


def test_a_request_that_waits_does_not_refer_to_the_receive_buffer(plane: DataPlane) -> None:
    coordinator = Coordinator(**CONCURRENT)
    received = bytearray(transactional_batch(0))
    answer = concurrent_produce(plane, coordinator, memoryview(received))
    received[:] = bytes(len(received))
    coordinator.codes.clear()
    plane.clock.advance(_ALL_ATTEMPTS_MS)
    assert answer.value.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert plane.partition().end_offset == 1


def test_a_client_that_disconnects_ends_the_attempts(plane: DataPlane) -> None:
    coordinator = Coordinator(**CONCURRENT)
    concurrent_produce(plane, coordinator).abandon()
    plane.clock.advance(_ALL_ATTEMPTS_MS)
    assert len(coordinator.asked) == 1


def test_a_request_waits_through_thousands_of_attempts(tmp_path: Path) -> None:
    prefix = "add.partitions.to.txn.retry.backoff"
    plane = DataPlane(tmp_path, {f"{prefix}.ms": "1", f"{prefix}.max.ms": "5000"})
    coordinator = Coordinator(**CONCURRENT)
    answer = concurrent_produce(plane, coordinator)
    plane.clock.advance(4999)
    assert not answer.is_resolved
    plane.clock.advance(1)
    (row,) = answer.value.responses[0].partition_responses
    assert (row.error_code, len(coordinator.asked)) == (ErrorCode.CONCURRENT_TRANSACTIONS, 5001)


def test_a_long_request_does_not_wait_because_an_attempt_would_block_others(
    plane: DataPlane,
) -> None:
    plane.create()
    call = plane.call(API, 12, may_pause=True)
    call.node.transactions = cast("Any", Coordinator(**CONCURRENT))
    request = request_of(transactional_batch(0))
    request.transactional_id = "id"
    answer = API.handler(call, request).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS


def test_waiting_requests_use_limited_memory(plane: DataPlane) -> None:
    coordinator = Coordinator(**CONCURRENT)
    plane.create()
    call = plane.call(API, 12)
    call.node.transactions = cast("Any", coordinator)
    call.node.verification_budget.free_bytes = len(transactional_batch(0))

    def produce() -> object:
        request = request_of(transactional_batch(0))
        request.transactional_id = "id"
        return API.handler(call, request)

    first, second = produce(), produce()
    assert isinstance(first, Waiting)
    assert isinstance(second, ProduceResponse)
    first.abandon()
    third = produce()
    assert isinstance(third, Waiting)
    plane.clock.advance(_ALL_ATTEMPTS_MS)
    assert third.is_resolved
    assert isinstance(produce(), Waiting)


def test_a_later_error_without_an_answer_closes_the_connection(plane: DataPlane) -> None:
    coordinator = Coordinator(**CONCURRENT)
    answer = concurrent_produce(plane, coordinator, acks=0)
    plane.clock.advance(_ALL_ATTEMPTS_MS)
    assert isinstance(answer.value, DisconnectError)


def test_without_verification_the_coordinator_is_not_asked(tmp_path: Path) -> None:
    plane = DataPlane(tmp_path, {"transaction.partition.verification.enable": "false"})
    plane.create()
    coordinator = Coordinator()
    (answer,) = transact(plane, coordinator, transactional_batch(0), version=11)
    assert (answer.error_code, coordinator.asked) == (0, [])
    plane.partition().append_marker(
        TransactionMarker(7, 1, 0, is_commit=True), plane.clock.now_ms()
    )
    # But a partition that is added by writing must be added at the coordinator.
    transact(plane, coordinator, transactional_batch(0, epoch=1), version=12)
    assert len(coordinator.asked) == 1


def test_a_fenced_producer_is_refused_without_asking_the_coordinator(plane: DataPlane) -> None:
    plane.create()
    coordinator = Coordinator()
    transact(plane, coordinator, transactional_batch(0, epoch=2))
    (answer,) = transact(plane, coordinator, transactional_batch(0, epoch=1))
    assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert (answer.error_message, answer.log_start_offset) == (None, -1)
    assert len(coordinator.asked) == 1


def test_a_partition_with_another_leader_is_not_added(plane: DataPlane) -> None:
    plane.create(replicas=(0, 1))
    coordinator = Coordinator()
    (answer,) = transact(plane, coordinator, transactional_batch(0), node_id=1)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert coordinator.asked == []


@pytest.mark.parametrize("other", [transactional_batch(0, pid=8), transactional_batch(0, epoch=1)])
def test_a_request_with_several_producers_is_refused(plane: DataPlane, other: bytes) -> None:
    plane.create(partitions=2)
    coordinator = Coordinator()
    with pytest.raises(KafkaError) as caught:
        transact(plane, coordinator, transactional_batch(0), other)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert caught.value.message == "Transactional records contained more than one producer ID"
    with pytest.raises(ProtocolViolation):
        transact(plane, coordinator, transactional_batch(0), other, acks=0)
    assert coordinator.asked == []
    assert plane.partition().end_offset == 0


def test_a_transaction_without_an_id_is_refused_before_other_errors(
    plane: DataPlane,
) -> None:
    plane.create()
    with pytest.raises(KafkaError) as caught:
        plane.ask(API, request_of(transactional_batch(0) + transactional_batch(1)), 12)
    assert caught.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_sequences_restart_with_the_epoch_of_the_next_transaction(plane: DataPlane) -> None:
    plane.create()
    coordinator = Coordinator()

    def send(sequence: int, epoch: int) -> ErrorCode:
        (answer,) = transact(plane, coordinator, transactional_batch(sequence, epoch=epoch))
        return ErrorCode(answer.error_code)

    assert send(3, 0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(0, 0) is ErrorCode.NONE
    assert send(1, 0) is ErrorCode.NONE
    marker = TransactionMarker(7, 1, 0, is_commit=True, transaction_version=2)
    plane.partition().append_marker(marker, plane.clock.now_ms())
    assert send(2, 0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(2, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(0, 1) is ErrorCode.NONE
    assert send(0, 1) is ErrorCode.NONE
    assert plane.partition().end_offset == 4


def test_refusals_are_recorded_once_a_request(plane: DataPlane) -> None:
    plane.create(partitions=3)
    coordinator = Coordinator()
    transact(plane, coordinator, *[transactional_batch(0, epoch=1)] * 3)
    call = plane.call(API, 12)
    call.node.transactions = cast("Any", coordinator)
    for batch in (transactional_batch(5, epoch=1), transactional_batch(1, epoch=0)):
        request = request_of(batch, batch, batch)
        request.transactional_id = "id"
        API.handler(call, request)
    gap, late = call.node.history.latest()
    assert {late.transactional_id, gap.transactional_id} == {"id"}
    assert (late.times, late.facts["error"]) == (1, "INVALID_PRODUCER_EPOCH")
    assert (gap.times, gap.facts["error"]) == (1, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    assert gap.facts["partition"] == "t-0"


# --- pauses --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("partitions", "may_take_long"), [(8, False), (9, True)])
def test_many_first_writes_may_take_long(
    plane: DataPlane, partitions: int, *, may_take_long: bool
) -> None:
    plane.create(partitions=partitions)
    assert API.may_take_long is not None
    call = plane.call(API, 12)
    request = request_of(*[batch_of(b"v")] * partitions)
    unknown = request_of(*[batch_of(b"v")] * partitions, name="unknown")
    beyond = request_of(*[batch_of(b"v")] * (partitions + 20))
    assert API.may_take_long(call, request) is may_take_long
    assert API.may_take_long(call, beyond) is may_take_long
    assert not API.may_take_long(call, unknown)
    API.handler(call, request)
    assert not API.may_take_long(call, request)


@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_request_may_pause_after_each_partition_unless_it_is_transactional(
    plane: DataPlane, *, is_transactional: bool
) -> None:
    plane.create(partitions=3)
    call = plane.call(API, 12, may_pause=True)
    call.node.transactions = cast("Any", Coordinator())
    request = request_of(*[transactional_batch(0) if is_transactional else batch_of(b"v")] * 3)
    request.transactional_id = "id" if is_transactional else None
    worker = Worker()
    responses: list[ProduceResponse] = []
    worker.task = lambda: responses.append(API.handler(call, request))
    end_offsets = []
    while worker.take_turn(0) is not None:
        end_offsets.append([plane.partition(index=index).end_offset for index in range(3)])
    worker.end()
    assert end_offsets == ([] if is_transactional else [[1, 0, 0], [1, 1, 0], [1, 1, 1]])
    (topic,) = responses[0].responses
    assert [answer.error_code for answer in topic.partition_responses] == [0, 0, 0]


# --- decompression in a thread -------------------------------------------------------------------

COMPACTED = {"cleanup.policy": "compact"}


def slow_batch(*, attributes: int = 0, producer: BatchProducer = NO_PRODUCER) -> bytes:
    """Return a batch that is decompressed in a thread where its topic is compacted."""
    entropy = SeededEntropy()
    value = b"".join(entropy.uuid() for _ in range(8 * 1024))
    attributes |= CODEC_NUMBERS["zstd"]
    return batch_of(value, attributes=attributes, producer=producer)


def answer_after(
    call: Call, request: ProduceRequest, meanwhile: Callable[[], None]
) -> list[ProduceResponse.PartitionProduceResponse]:
    """Serve a request in a worker; `meanwhile` is called when it waits for a thread."""
    responses: list[ProduceResponse] = []
    worker = Worker()
    worker.task = lambda: responses.append(API.handler(call, request))
    waited_for = worker.take_turn(LONG)
    assert isinstance(waited_for, ThreadCall)
    meanwhile()
    while waited_for is not None:
        if isinstance(waited_for, ThreadCall):
            waited_for.run()
        waited_for = worker.take_turn(LONG)
    worker.end()
    return [answer for topic in responses[0].responses for answer in topic.partition_responses]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda plane: plane.delete("t"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda plane: plane.lead("t", 1, 1), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_a_topic_is_checked_again_after_decompression(
    plane: DataPlane, change: Callable[[DataPlane], None], code: ErrorCode
) -> None:
    plane.create(config=COMPACTED, replicas=(0, 1))
    (answer,) = answer_after(
        plane.call(API, 12, may_pause=True), request_of(slow_batch()), lambda: change(plane)
    )
    assert answer.error_code == code


def test_a_leader_that_becomes_a_former_one_during_decompression_does_not_append(
    plane: DataPlane,
) -> None:
    plane.create(config=COMPACTED, replicas=(0, 1))

    def elect_another_leader() -> None:
        partition = plane.partition()
        former = partition.views[0] = FormerLeader(partition, {})
        former.known_leader = Leader(0, 0, (0, 1))
        plane.lead("t", 1, 1)

    call = plane.call(API, 12, may_pause=True)
    (answer,) = answer_after(call, request_of(slow_batch()), elect_another_leader)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert plane.partition().end_offset == 0


def test_a_transaction_is_checked_again_after_decompression(
    plane: DataPlane,
) -> None:
    plane.create(partitions=2, config=COMPACTED)
    coordinator = Coordinator()
    call = plane.call(API, 11, may_pause=True)
    call.node.transactions = cast("Any", coordinator)
    request = request_of(
        slow_batch(attributes=TRANSACTIONAL, producer=BatchProducer(7, 0, 0)),
        transactional_batch(0),
    )
    request.transactional_id = "id"

    def end() -> None:
        coordinator.codes |= dict.fromkeys(("t0", "t1"), ErrorCode.TRANSACTION_ABORTABLE)

    answers = answer_after(call, request, end)
    assert [answer.error_code for answer in answers] == [ErrorCode.TRANSACTION_ABORTABLE] * 2
    assert [asked[2] for asked in coordinator.asked] == [
        [("t", 0), ("t", 1)],
        [("t", 0)],
        [("t", 1)],
    ]
    assert not plane.partition(index=1).end_offset
