"""Replicas that lag, over the wire: acknowledgements, the high watermark and the ISR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.protocol._generated.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.served import LAG_TIME_MS, SESSION_MS, TOPIC, ServedCluster, fetch_request
from tests.conformance.raw import ConnectionClosedError
from tests.unit.data_plane import values_in

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECK_MS = LAG_TIME_MS // 2
"""The leader checks the ISR at this interval."""


@pytest.fixture
def cluster() -> Iterator[ServedCluster]:
    with ServedCluster() as running:
        yield running


def lag(cluster: ServedCluster, how: str, node: int = 2) -> None:
    if how == "paused":
        cluster.broker.nodes[node].pause_replication()
    else:
        cluster.broker.nodes[node].isolate()


def follow(cluster: ServedCluster, node: int = 2) -> None:
    cluster.broker.nodes[node].resume_replication()
    cluster.broker.nodes[node].start()


def test_replicas_that_follow_acknowledge_at_once(cluster: ServedCluster) -> None:
    assert cluster.append(b"a") == 0
    assert cluster.high_watermark() == 1
    assert cluster.leadership() == (1, 0, {1, 2, 3})


@pytest.mark.parametrize("how", ["paused", "isolated"])
def test_acks_all_waits_until_the_replica_follows_again(cluster: ServedCluster, how: str) -> None:
    lag(cluster, how)
    waiting = cluster.begin_produce(b"a")
    assert not waiting.is_answered
    follow(cluster)
    answer = waiting.answer()
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    assert cluster.leadership() == (1, 0, {1, 2, 3})


def test_acks_1_does_not_wait(cluster: ServedCluster) -> None:
    lag(cluster, "paused")
    assert cluster.append(b"a", acks=1) == 0
    assert (cluster.log_end(1), cluster.high_watermark()) == (1, 0)


@pytest.mark.parametrize("how", ["paused", "isolated"])
def test_the_replica_leaves_the_isr_after_the_lag_time(how: str) -> None:
    with ServedCluster({"broker.session.timeout.ms": 10 * LAG_TIME_MS}) as cluster:
        lag(cluster, how)
        waiting = cluster.begin_produce(b"a")
        cluster.advance(LAG_TIME_MS)
        assert not waiting.is_answered
        assert cluster.leadership() == (1, 0, {1, 2, 3})
        cluster.advance(CHECK_MS)
        assert waiting.answer().error_code == ErrorCode.NONE
        assert cluster.leadership() == (1, 0, {1, 3})
        assert cluster.high_watermark() == 1


def test_an_isolated_replica_leaves_the_isr_when_its_session_expires(
    cluster: ServedCluster,
) -> None:
    lag(cluster, "isolated")
    waiting = cluster.begin_produce(b"a")
    cluster.advance(SESSION_MS - 1)
    assert not waiting.is_answered
    cluster.advance(1)
    assert waiting.answer().error_code == ErrorCode.NONE
    assert cluster.leadership() == (1, 0, {1, 3})


def test_a_replica_without_missing_records_stays_in_the_isr(cluster: ServedCluster) -> None:
    cluster.append(b"a")
    lag(cluster, "paused")
    cluster.advance(10 * LAG_TIME_MS)
    assert cluster.leadership() == (1, 0, {1, 2, 3})


def test_a_replica_that_follows_again_joins_the_isr(cluster: ServedCluster) -> None:
    lag(cluster, "paused")
    cluster.append(b"a", acks=1)
    cluster.advance(LAG_TIME_MS + CHECK_MS)
    assert cluster.leadership() == (1, 0, {1, 3})
    follow(cluster)
    assert cluster.leadership() == (1, 0, {1, 2, 3})


def test_a_request_times_out_and_its_batch_stays_in_the_log(cluster: ServedCluster) -> None:
    lag(cluster, "paused")
    waiting = cluster.begin_produce(b"a", timeout_ms=5_000)
    cluster.advance(4_999)
    assert not waiting.is_answered
    cluster.advance(1)
    assert waiting.answer().error_code == ErrorCode.REQUEST_TIMED_OUT
    assert cluster.values() == []
    follow(cluster)
    assert cluster.values() == [b"a"]


def test_a_change_of_the_leader_ends_the_wait(cluster: ServedCluster) -> None:
    lag(cluster, "paused")
    waiting = cluster.begin_produce(b"a")
    cluster.broker.move_leader(TOPIC, 0, 3)
    answer = waiting.answer()
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (3, 1)
    assert cluster.leadership() == (3, 1, {1, 2, 3})
    assert cluster.log_end(3) == 1


def test_a_leader_that_lags_loses_what_was_not_acknowledged(cluster: ServedCluster) -> None:
    """A member of the ISR has all acknowledged records, so its election is clean."""
    cluster.append(b"a")
    lag(cluster, "paused")
    waiting = cluster.begin_produce(b"lost")
    cluster.broker.move_leader(TOPIC, 0, 2)
    assert waiting.answer().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster.values(node=2) == [b"a"]
    assert cluster.append(b"b", node=2, acks=1) == 1


def test_the_end_of_the_leaders_node_ends_the_connection_without_an_answer(
    cluster: ServedCluster,
) -> None:
    lag(cluster, "paused")
    waiting = cluster.begin_produce(b"a")
    cluster.broker.nodes[1].stop()
    with pytest.raises(ConnectionClosedError):
        waiting.answer()


def test_consumers_read_up_to_the_high_watermark(cluster: ServedCluster) -> None:
    cluster.append(b"a")
    lag(cluster, "paused")
    cluster.append(b"b", b"c", acks=1)
    for node in (1, 3):
        assert cluster.values(node=node) == [b"a"]
    answer = cluster.fetch()
    assert (answer.high_watermark, answer.last_stable_offset) == (1, 1)
    assert cluster.high_watermark() == 1
    above = cluster.fetch(2)
    assert (above.error_code, above.records) == (ErrorCode.NONE, b"")
    follow(cluster)
    assert cluster.values() == [b"a", b"b", b"c"]


def test_a_waiting_fetch_ends_when_the_high_watermark_rises(cluster: ServedCluster) -> None:
    lag(cluster, "paused")
    reader = cluster.connect(3)
    cluster.append(b"a", acks=1)
    reader.send(fetch_request(max_wait_ms=600_000), 12)
    follow(cluster)
    answer = reader.receive().responses[0].partitions[0]
    assert (values_in(answer.records), answer.high_watermark) == ([b"a"], 1)


def test_a_follower_serves_the_offsets_of_its_replica(cluster: ServedCluster) -> None:
    cluster.append(b"a")
    lag(cluster, "paused", 3)
    cluster.append(b"b", acks=1)
    cluster.advance(LAG_TIME_MS + CHECK_MS)
    assert cluster.values(node=1) == [b"a", b"b"]
    assert cluster.values(node=3) == [b"a"]
    assert cluster.fetch(2, node=3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_too_few_replicas_refuse_acks_all_before_the_append() -> None:
    with ServedCluster({"min.insync.replicas": 3}) as cluster:
        lag(cluster, "paused")
        waiting = cluster.begin_produce(b"a")
        cluster.advance(LAG_TIME_MS + CHECK_MS)
        assert cluster.leadership() == (1, 0, {1, 3})
        assert not waiting.is_answered
        assert cluster.high_watermark() == 0
        assert cluster.produce(b"b").error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert cluster.log_end(1) == 1
        assert cluster.append(b"c", acks=1) == 1
        assert cluster.high_watermark() == 0
        follow(cluster)
        assert waiting.answer().error_code == ErrorCode.NONE
        assert cluster.high_watermark() == 2


# DeleteRecords


def delete_request(offset: int, timeout_ms: int = 10_000) -> DeleteRecordsRequest:
    partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name=TOPIC, partitions=[partition])
    return DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)


def deleted(answer: Any) -> tuple[ErrorCode, int]:  # noqa: ANN401 - a response class of its version
    partition = answer.topics[0].partitions[0]
    return ErrorCode(partition.error_code), partition.low_watermark


@pytest.mark.parametrize("how", ["paused", "isolated"])
def test_deleted_records_are_reported_when_all_replicas_have_deleted_them(
    cluster: ServedCluster, how: str
) -> None:
    cluster.append(b"a", b"b")
    lag(cluster, how)
    client = cluster.connect(1)
    client.send(delete_request(1), 2)
    cluster.metadata()
    follow(cluster)
    assert deleted(client.receive()) == (ErrorCode.NONE, 1)


def test_a_replica_that_lags_lets_a_deletion_time_out(cluster: ServedCluster) -> None:
    cluster.append(b"a", b"b", b"c")
    assert deleted(cluster.client(1).call(delete_request(1), 2)) == (ErrorCode.NONE, 1)
    lag(cluster, "paused")
    # The replica has deleted this record already.
    assert deleted(cluster.client(1).call(delete_request(1), 2)) == (ErrorCode.NONE, 1)
    client = cluster.connect(1)
    for _ in range(2):
        client.send(delete_request(-1), 2)
        cluster.metadata()
        cluster.advance(10_000)
        assert deleted(client.receive()) == (ErrorCode.REQUEST_TIMED_OUT, 1)
    cluster.broker.nodes[2].stop()  # no replica on a fenced node is waited for
    assert deleted(cluster.client(1).call(delete_request(-1), 2)) == (ErrorCode.NONE, 3)


def test_an_isolated_leader_reports_no_deletion(cluster: ServedCluster) -> None:
    cluster.append(b"a", b"b")
    cluster.broker.nodes[1].isolate()
    client = cluster.connect(1)
    client.send(delete_request(1, timeout_ms=5_000), 2)
    cluster.metadata()
    cluster.advance(5_000)
    assert deleted(client.receive()) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    client.send(delete_request(2, timeout_ms=60_000), 2)
    cluster.metadata()
    cluster.advance(SESSION_MS)
    cluster.broker.nodes[1].start()
    assert deleted(client.receive()) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


# The end of the broker


def test_a_produce_that_waits_is_answered_when_the_broker_stops() -> None:
    with ServedCluster() as cluster:
        lag(cluster, "paused")
        waiting = cluster.begin_produce(b"a")
        cluster.broker.stop()
        assert waiting.answer().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
