"""Fetch: what is read and how much, waiting, leadership and fetch sessions."""

# ruff: noqa: ANN401 - requests are made of the fields that a test names

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.apis.data.fetch import APIS
from kafkalite.config.broker import RACK_AWARE_SELECTOR
from kafkalite.metadata.creation import NewTopic
from kafkalite.partitions.fetch_sessions import FINAL_EPOCH, FIRST_EPOCH
from kafkalite.ports.turns import ELEMENTS_PER_PAUSE
from kafkalite.ports.waiting import Waiting
from kafkalite.ports.workers import Worker
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import TRANSACTIONAL, BatchProducer, BatchView
from kafkalite.storage.transaction_marker import TransactionMarker
from tests.cluster.cluster import TestCluster
from tests.unit.data_plane import DataPlane, batch_of, values_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.partitions.partition import Partition

(API,) = APIS
ALL = 2**31 - 1
BATCH_BYTES = len(batch_of(b"0"))


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    return DataPlane(tmp_path)


def partition_of(index: int = 0, offset: int = 0, **fields: Any) -> FetchRequest.FetchPartition:
    fields.setdefault("partition_max_bytes", ALL)
    return FetchRequest.FetchPartition(partition=index, fetch_offset=offset, **fields)


def request_of(*partitions: FetchRequest.FetchPartition, **fields: Any) -> FetchRequest:
    """Return a request for partitions of topic t, by name, without a session or a wait."""
    fields.setdefault("session_epoch", FINAL_EPOCH)
    fields.setdefault("topics", [FetchRequest.FetchTopic(topic="t", partitions=list(partitions))])
    fields.setdefault("min_bytes", 1)
    return FetchRequest(**fields)


def topics_by_id(topic_id: bytes, *partitions: FetchRequest.FetchPartition) -> dict[str, Any]:
    return {"topics": [FetchRequest.FetchTopic(topic_id=topic_id, partitions=list(partitions))]}


def answers(response: FetchResponse) -> list[FetchResponse.PartitionData]:
    return [answer for topic in response.responses for answer in topic.partitions]


def fetch(
    plane: DataPlane, *partitions: FetchRequest.FetchPartition, version: int = 12, **fields: Any
) -> list[FetchResponse.PartitionData]:
    node_id = fields.pop("node_id", 0)
    response = plane.ask(API, request_of(*partitions, **fields), version, node_id=node_id)
    assert isinstance(response, FetchResponse)
    assert response.error_code == 0
    return answers(response)


def fetch_one(
    plane: DataPlane, partition: FetchRequest.FetchPartition, **fields: Any
) -> FetchResponse.PartitionData:
    (answer,) = fetch(plane, partition, **fields)
    return answer


def code_of(plane: DataPlane, partition: FetchRequest.FetchPartition, **fields: Any) -> ErrorCode:
    return ErrorCode(fetch_one(plane, partition, **fields).error_code)


def create_with_records(
    plane: DataPlane, partitions: int = 1, batches: int = 3, **fields: Any
) -> bytes:
    """Create topic t with some one-record batches in every partition; return its id."""
    topic = plane.create(partitions=partitions, **fields)
    for index in range(partitions):
        for number in range(batches):
            plane.append(b"%d" % number, index=index)
    return topic.topic_id


# --- records -------------------------------------------------------------------------------------


def test_answers_are_small_while_clients_leave_much_unread(plane: DataPlane) -> None:
    plane.create(partitions=4)
    for index in range(4):
        plane.append(bytes(600_000), index=index)
    everything = [partition_of(index=index) for index in range(4)]
    assert [bool(each.records) for each in fetch(plane, *everything)] == [True] * 4
    plane.unsent.bytes = 2**40
    assert [bool(each.records) for each in fetch(plane, *everything)] == [
        True, False, False, False,
    ]  # fmt: skip


def test_a_recreated_topic_has_another_id(plane: DataPlane) -> None:
    old_id = create_with_records(plane)
    plane.delete("t")
    new_id = create_with_records(plane, batches=1)
    (gone,) = fetch(plane, version=13, **topics_by_id(old_id, partition_of()))
    assert gone.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    (there,) = fetch(plane, version=13, **topics_by_id(new_id, partition_of()))
    assert there.high_watermark == 1


def test_unknown_partitions_are_last(plane: DataPlane) -> None:
    topic_id = create_with_records(plane)
    unknown, known = partition_of(9), partition_of(0)
    found = fetch(plane, unknown, known)
    assert [(one.partition_index, one.error_code) for one in found] == [
        (0, 0),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    (by_unknown_index,) = fetch(plane, version=13, **topics_by_id(topic_id, partition_of(9)))
    assert by_unknown_index.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (by_unknown_index.high_watermark, by_unknown_index.records) == (-1, b"")


# --- size ----------------------------------------------------------------------------------------


def test_the_first_batch_may_be_in_any_partition(plane: DataPlane) -> None:
    create_with_records(plane, 2)
    first, second = fetch(
        plane, partition_of(0, 3), partition_of(1, partition_max_bytes=1), max_bytes=1
    )
    assert first.records == b""
    assert values_in(second.records) == [b"0"]


def test_limits_apply_to_whole_batches(plane: DataPlane) -> None:
    create_with_records(plane, 2)
    first, second = fetch(
        plane,
        partition_of(0, partition_max_bytes=2 * BATCH_BYTES + 1),
        partition_of(1),
        max_bytes=3 * BATCH_BYTES,
    )
    assert values_in(first.records) == [b"0", b"1"]
    assert values_in(second.records) == [b"0"]


def test_a_negative_limit_is_an_internal_error_as_in_kafka(plane: DataPlane) -> None:
    create_with_records(plane)
    negative = {"max_bytes": -5, "max_wait_ms": 500}
    assert code_of(plane, partition_of(), **negative) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert code_of(plane, partition_of(offset=3), **negative) == ErrorCode.NONE


def test_fetch_max_bytes_of_the_broker_applies(tmp_path: Path) -> None:
    plane = DataPlane(tmp_path, {"fetch.max.bytes": "1024"})
    plane.create()
    for _ in range(4):
        plane.append(b"x" * 500)
    assert len(values_in(fetch_one(plane, partition_of()).records)) == 1


# --- leadership ----------------------------------------------------------------------------------


def test_the_leader_is_returned_to_new_clients(plane: DataPlane) -> None:
    topic_id = create_with_records(plane)
    plane.lead("t", 2, 1)
    request = request_of(**topics_by_id(topic_id, partition_of(current_leader_epoch=0)))
    response = plane.ask(API, request, 16)
    (answer,) = answers(response)
    assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert answer.current_leader == FetchResponse.LeaderIdAndEpoch(leader_id=2, leader_epoch=1)
    assert response.node_endpoints == [
        FetchResponse.NodeEndpoint(node_id=2, host="h", port=9094, rack=None)
    ]
    response = plane.ask(API, request, 15)
    assert answers(response)[0].current_leader is None
    assert response.node_endpoints == []


def test_only_replicas_may_fetch_as_replicas(plane: DataPlane) -> None:
    create_with_records(plane, replicas=(0, 1))
    assert code_of(plane, partition_of(), replica_id=1) == ErrorCode.NONE
    assert code_of(plane, partition_of(), replica_id=7) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    state = FetchRequest.ReplicaState(replica_id=7)
    requested = partition_of(current_leader_epoch=0)
    assert code_of(plane, requested, replica_state=state) == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_diverging_log_gets_the_diverging_epoch(plane: DataPlane) -> None:
    create_with_records(plane)
    plane.lead("t", 0, 2)
    plane.append(b"later")
    answer = fetch_one(plane, partition_of(offset=4, last_fetched_epoch=1), max_wait_ms=100)
    assert answer.error_code == 0
    assert answer.diverging_epoch == FetchResponse.EpochEndOffset(epoch=0, end_offset=3)
    assert answer.records == b""
    assert fetch_one(plane, partition_of(offset=3, last_fetched_epoch=0)).diverging_epoch is None
    unknown = partition_of(offset=3, last_fetched_epoch=5)
    assert code_of(plane, unknown) == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_failing_disk_is_reported_by_an_error_that_the_version_knows(
    plane: DataPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_with_records(plane)

    def fail(*_: object, **__: object) -> bytes:
        raise OSError

    monkeypatch.setattr(type(plane.partition().log), "read", fail)
    assert code_of(plane, partition_of(), version=6) == ErrorCode.KAFKA_STORAGE_ERROR
    assert code_of(plane, partition_of(), version=5) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_offline_log_is_reported_without_a_wait(plane: DataPlane) -> None:
    create_with_records(plane)
    topic = plane.create_offline("offline")
    answer = fetch_one(
        plane, partition_of(), version=13, **topics_by_id(topic.topic_id, partition_of())
    )
    assert (answer.error_code, answer.high_watermark) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    old = [FetchRequest.FetchTopic(topic="offline", partitions=[partition_of()])]
    assert code_of(plane, partition_of(), version=5, topics=old) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    at_end = FetchRequest.FetchTopic(topic="t", partitions=[partition_of(offset=3)])
    waitless = fetch(plane, topics=[*old, at_end], max_wait_ms=500)
    assert [answer.error_code for answer in waitless] == [0, ErrorCode.KAFKA_STORAGE_ERROR]


# --- transactions --------------------------------------------------------------------------------


def append_transactional(plane: DataPlane, sequence: int, value: bytes) -> None:
    batch = batch_of(value, attributes=TRANSACTIONAL, producer=BatchProducer(4, 0, sequence))
    plane.partition().append(BatchView(batch), plane.clock.now_ms(), is_verified=True)
    plane.table.announce()


def end_transaction(plane: DataPlane, *, is_commit: bool) -> None:
    plane.partition().append_marker(
        TransactionMarker(4, 0, 0, is_commit=is_commit), plane.clock.now_ms()
    )
    plane.table.announce()


def test_read_committed_gets_aborted_transactions(plane: DataPlane) -> None:
    create_with_records(plane, batches=1)
    append_transactional(plane, 0, b"no")
    end_transaction(plane, is_commit=False)
    expected = [FetchResponse.AbortedTransaction(producer_id=4, first_offset=1)]
    assert fetch_one(plane, partition_of(), isolation_level=1).aborted_transactions == expected
    # Without an index the end of the read is unknown, so too many transactions are returned.
    before = fetch_one(plane, partition_of(partition_max_bytes=1), isolation_level=1)
    assert before.aborted_transactions == expected
    behind = fetch_one(plane, partition_of(offset=3), isolation_level=1)
    assert behind.aborted_transactions == []
    assert fetch_one(plane, partition_of()).aborted_transactions is None


# --- waiting -------------------------------------------------------------------------------------


def waiting_fetch(
    plane: DataPlane, *partitions: FetchRequest.FetchPartition, **fields: Any
) -> tuple[Waiting[FetchResponse], list[FetchResponse]]:
    fields.setdefault("max_wait_ms", 500)
    version = fields.pop("version", 12)
    waiting = plane.ask(API, request_of(*partitions, **fields), version)
    assert isinstance(waiting, Waiting)
    came: list[FetchResponse] = []
    waiting.then(came.append)
    return waiting, came


def test_bytes_of_all_partitions_count_for_min_bytes(plane: DataPlane) -> None:
    create_with_records(plane, 2, batches=0)
    _, came = waiting_fetch(plane, partition_of(0), partition_of(1), min_bytes=2 * BATCH_BYTES)
    plane.append(b"a", index=1)
    assert came == []
    plane.append(b"b", index=0)
    assert [values_in(one.records) for one in answers(came[0])] == [[b"b"], [b"a"]]


def test_a_produce_to_several_partitions_wakes_a_fetch_once(plane: DataPlane) -> None:
    create_with_records(plane, 2, batches=0)
    _, came = waiting_fetch(plane, partition_of(0), partition_of(1))
    for index in (0, 1):
        plane.partition(index=index).append(BatchView(batch_of(b"v")), plane.clock.now_ms())
    plane.table.announce()
    assert [values_in(one.records) for one in answers(came[0])] == [[b"v"], [b"v"]]


def test_a_wait_ends_when_the_leader_changes(plane: DataPlane) -> None:
    create_with_records(plane)
    _, came = waiting_fetch(plane, partition_of(offset=3), version=10)
    plane.lead("t", 1, 1)
    assert answers(came[0])[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_wait_ends_when_the_topic_is_deleted(plane: DataPlane) -> None:
    topic_id = create_with_records(plane)
    _, came = waiting_fetch(plane, version=13, **topics_by_id(topic_id, partition_of(offset=3)))
    plane.delete("t")
    assert answers(came[0])[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_wait_ends_when_the_broker_stops(plane: DataPlane) -> None:
    create_with_records(plane)
    _, came = waiting_fetch(plane, partition_of(offset=3))
    plane.restart()
    assert answers(came[0])[0].error_code == 0


def test_a_disconnect_removes_a_waiting_fetch(plane: DataPlane) -> None:
    create_with_records(plane, 2, batches=0)
    waiting, came = waiting_fetch(plane, partition_of(0), partition_of(1))
    waiting.abandon()
    assert plane.clock.next_deadline_ms is None
    plane.append(b"v")
    plane.clock.advance(1000)
    assert came == []


def test_a_fetch_of_an_older_segment_does_not_wait(plane: DataPlane) -> None:
    create_with_records(plane)
    plane.partition().log.roll(plane.clock.now_ms())
    plane.append(b"in the next")
    answer = fetch_one(plane, partition_of(offset=1), min_bytes=10_000, max_wait_ms=500)
    assert values_in(answer.records) == [b"1", b"2"]


@pytest.mark.parametrize(
    "fields",
    [{"max_wait_ms": 0}, {"max_wait_ms": 500, "min_bytes": 0}],
)
def test_a_fetch_without_a_wait_returns_immediately(
    plane: DataPlane, fields: dict[str, int]
) -> None:
    create_with_records(plane)
    assert fetch_one(plane, partition_of(offset=3), **fields).records == b""


def test_an_error_ends_the_wait_unless_the_partition_is_unknown(plane: DataPlane) -> None:
    create_with_records(plane, 2)
    found = fetch(plane, partition_of(0, 3), partition_of(1, 99), max_wait_ms=500)
    assert [one.error_code for one in found] == [0, ErrorCode.OFFSET_OUT_OF_RANGE]
    _, came = waiting_fetch(plane, partition_of(0, 3), partition_of(9))
    plane.append(b"v")
    assert [one.error_code for one in answers(came[0])] == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert fetch(plane, partition_of(9), max_wait_ms=500)[0].error_code == 3


def test_read_committed_waits_for_the_end_of_the_transaction(plane: DataPlane) -> None:
    create_with_records(plane)
    _, came = waiting_fetch(plane, partition_of(offset=3), isolation_level=1)
    append_transactional(plane, 0, b"t")
    assert came == []
    end_transaction(plane, is_commit=True)
    assert values_in(answers(came[0])[0].records)[0] == b"t"


# --- sessions (KIP-227) --------------------------------------------------------------------------


def test_sessions_belong_to_the_node_that_created_them(plane: DataPlane) -> None:
    create_with_records(plane, replicas=(0, 1))
    session_id = plane.ask(
        API, request_of(partition_of(), session_epoch=FIRST_EPOCH), 12
    ).session_id
    request = request_of(topics=[], session_id=session_id, session_epoch=1)
    with pytest.raises(KafkaError):
        plane.ask(API, request, 12, node_id=1)


def test_a_waiting_fetch_of_an_outdated_session_epoch_fails(plane: DataPlane) -> None:
    create_with_records(plane)
    session_id = plane.ask(
        API, request_of(partition_of(offset=3), session_epoch=FIRST_EPOCH), 12
    ).session_id
    _, came = waiting_fetch(plane, topics=[], session_id=session_id, session_epoch=1)
    plane.ask(API, request_of(topics=[], session_id=session_id, session_epoch=2), 12)
    plane.append(b"new")
    assert (came[0].error_code, came[0].session_id) == (
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        session_id,
    )


def test_records_appended_during_a_pause_end_the_wait(plane: DataPlane) -> None:
    plane.create(partitions=ELEMENTS_PER_PAUSE + 1)
    partitions = [partition_of(index) for index in range(ELEMENTS_PER_PAUSE + 1)]

    def serve(at_pause: int) -> tuple[int, Waiting[FetchResponse]]:
        call = plane.call(API, 12, may_pause=True)
        request = request_of(*partitions, max_wait_ms=500)
        responses: list[Waiting[FetchResponse]] = []
        worker = Worker()
        worker.task = lambda: responses.append(API.handler(call, request))
        pauses = 0
        while worker.take_turn(0.0) is not None:
            pauses += 1
            if pauses == at_pause:
                plane.append(b"late")
        worker.end()
        return pauses, responses[0]

    pauses, waiting = serve(at_pause=0)
    plane.clock.advance(0)
    assert not waiting.is_resolved
    _, waiting = serve(at_pause=pauses)
    plane.clock.advance(0)
    assert waiting.is_resolved
    first, *_ = answers(waiting.value)
    assert values_in(first.records) == [b"late"]


# --- replicas in the rack of the consumer (KIP-392) ---------------------------------------------

RACKS = {1: "a", 2: "b", 3: "c"}


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TestCluster]:
    """Return a cluster of three nodes in three racks, with topic t: node 1 leads, 2 follows."""
    wire = TestCluster(
        tmp_path / "racks",
        3,
        {"replica.selector.class": RACK_AWARE_SELECTOR},
        node_config={node_id: {"broker.rack": rack} for node_id, rack in RACKS.items()},
    )
    topic = NewTopic("t", assignments=((0, (1, 2)),))
    (creation,) = wire.cluster.metadata.create_topics([topic])
    assert creation.error is None
    append_to(wire, b"0", b"1")
    yield wire
    wire.end()


def append_to(wire: TestCluster, *values: bytes) -> None:
    """Append each value as one batch."""
    partition = hosted(wire)
    for value in values:
        partition.append(BatchView(batch_of(value)), wire.clock.now_ms())
    wire.cluster.partitions.announce()


def hosted(wire: TestCluster) -> Partition:
    topic = wire.cluster.partitions.topic("t")
    assert topic is not None
    partition = topic.partition(0)
    assert partition is not None
    return partition


def fetch_in_rack(
    wire: TestCluster,
    rack: str,
    *,
    node: int = 1,
    version: int = 11,
    offset: int = 0,
    epoch: int = -1,
    **fields: Any,
) -> Any:
    partition = partition_of(0, offset, current_leader_epoch=epoch)
    return wire.ask(request_of(partition, rack_id=rack, **fields), version, node)


def row_in_rack(wire: TestCluster, rack: str, **fields: Any) -> FetchResponse.PartitionData:
    (row,) = answers(fetch_in_rack(wire, rack, **fields))
    return row


def test_leader_names_the_follower_in_the_rack_without_records(wire: TestCluster) -> None:
    answer = row_in_rack(wire, "b", max_wait_ms=500)
    assert answer == FetchResponse.PartitionData(
        high_watermark=2,
        last_stable_offset=2,
        log_start_offset=0,
        preferred_read_replica=2,
        records=b"",
        aborted_transactions=None,
    )


def test_replica_is_not_selected_for_followers(wire: TestCluster) -> None:
    answer = row_in_rack(wire, "b", replica_id=2)
    assert answer.preferred_read_replica == -1
    assert values_in(answer.records) == [b"0", b"1"]


def test_replica_is_selected_only_by_a_node_with_the_selector(tmp_path: Path) -> None:
    selector = {"replica.selector.class": RACK_AWARE_SELECTOR}
    wire = TestCluster(
        tmp_path,
        2,
        {"broker.rack": "b"},
        node_config={1: {"broker.rack": "a", **selector}, 2: {}},
    )
    for name, leader in (("t", 1), ("u", 2)):
        replicas = (leader, 3 - leader)
        wire.cluster.metadata.create_topics([NewTopic(name, assignments=((0, replicas),))])
    assert row_in_rack(wire, "b").preferred_read_replica == 2
    topics = [FetchRequest.FetchTopic(topic="u", partitions=[partition_of()])]
    (answer,) = answers(fetch_in_rack(wire, "a", node=2, topics=topics))
    assert answer.preferred_read_replica == -1
    wire.end()


def test_lagging_follower_serves_its_records_up_to_its_end(wire: TestCluster) -> None:
    wire.cluster.node_control.pause_replication(2)
    append_to(wire, b"2")
    assert row_in_rack(wire, "b", offset=2).preferred_read_replica == 2
    assert row_in_rack(wire, "b", offset=3).preferred_read_replica == -1
    answer = row_in_rack(wire, "b", node=2)
    assert (answer.high_watermark, values_in(answer.records)) == (2, [b"0", b"1"])
    assert row_in_rack(wire, "b", node=2, offset=2).error_code == ErrorCode.NONE
    code = row_in_rack(wire, "b", node=2, offset=3).error_code
    assert code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_fetch_at_a_follower_ends_when_the_follower_catches_up(wire: TestCluster) -> None:
    control = wire.cluster.node_control
    control.pause_replication(2)
    append_to(wire, b"2")
    wire.clock.advance(50_000)
    assert hosted(wire).isr == (1,)
    pending = fetch_in_rack(wire, "b", node=2, offset=2, max_wait_ms=60_000)
    assert not pending.has_arrived
    control.resume_replication(2)
    (answer,) = answers(pending.response)
    assert values_in(answer.records) == [b"2"]


def test_follower_knows_an_epoch_when_it_has_records_of_it(wire: TestCluster) -> None:
    control = wire.cluster.node_control
    control.stop(1)
    control.start(1)
    assert hosted(wire).leader == 2
    epoch = hosted(wire).leader_epoch

    def code_at(node: int) -> ErrorCode:
        partition = partition_of(0, 2, last_fetched_epoch=epoch)
        (answer,) = answers(wire.ask(request_of(partition), 12, node))
        return ErrorCode(answer.error_code)

    assert (code_at(2), code_at(1)) == (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)
    append_to(wire, b"2")
    assert (code_at(2), code_at(1)) == (ErrorCode.NONE, ErrorCode.NONE)


def test_stopped_follower_is_not_selected(wire: TestCluster) -> None:
    wire.cluster.node_control.stop(2)
    assert row_in_rack(wire, "b").preferred_read_replica == -1
    wire.cluster.node_control.start(2)
    assert row_in_rack(wire, "b").preferred_read_replica == 2
