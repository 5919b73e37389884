"""Snapshots of earlier points: what is absent, what is refused, and what remains the same."""

from __future__ import annotations

from socket import create_connection
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.command_table import running_cluster
from kafkalite.control.internal_requests import answer_of
from kafkalite.protocol._generated.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.server.snapshot import Snapshot
from kafkalite.storage.compaction import plan_log_compaction
from kafkalite.storage.log_cleaner import clean
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.cluster.cluster import Cluster

CONFIG: dict[str, str | float] = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "log.cleaner.min.cleanable.ratio": 0,
}
OFFSETS = "__consumer_offsets-0"


@pytest.fixture
def broker() -> Iterator[Broker]:
    clock = "manual@2026-03-01T12:00:00Z"
    with Broker(2, {"orders": 1}, CONFIG, storage="memory", clock=clock) as broker:
        ask(broker, FindCoordinatorRequest(key_type=0, coordinator_keys=["shop"]), "orders")
        yield broker


def values(broker: Broker) -> list[bytes | None]:
    return [each.value for each in broker.records("orders")]


def cluster_of(broker: Broker) -> Cluster:
    return running_cluster(broker._running_broker())


def ask(broker: Broker, request: object, topic: str) -> None:
    """Answer a request by the node that leads the partition of a topic."""
    cluster = cluster_of(broker)
    node = cluster.nodes[cluster.metadata.image.topics[topic].partitions[0].leader]
    broker._run_on_loop(answer_of(broker._running_broker(), request, node))


def commit(broker: Broker, *offsets: int, member_id: str = "") -> None:
    for offset in offsets:
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset
        )
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(
            topic_id=cluster_of(broker).metadata.image.topics["orders"].topic_id,
            partitions=[partition],
        )
        ask(
            broker,
            OffsetCommitRequest(
                group_id="shop",
                member_id=member_id,
                generation_id_or_member_epoch=5 if member_id else -1,
                topics=[topic],
            ),
            "__consumer_offsets",
        )


def compact(broker: Broker) -> None:
    log = cluster_of(broker).partitions.logs()["__consumer_offsets", 0]
    log.roll(0)
    plan = plan_log_compaction(log, last_stable_offset=log.end_offset, now_ms=2**50)
    assert plan is not None
    for _ in clean(log, plan, now_ms=0):
        pass


def committed(broker: Broker) -> int:
    return broker.committed("shop")["orders", 0]


def test_what_happened_after_the_point_is_absent(broker: Broker) -> None:
    broker.produce("orders", "a", timestamp=1)
    commit(broker, 1)
    broker.clock.advance("1m")
    broker.produce("orders", "b", timestamp=2)
    broker.create_topic("later")
    broker.clock.advance("1m")
    broker.faults.add(api="Produce", error="NOT_ENOUGH_REPLICAS")
    commit(broker, 2)
    now_ms = broker.clock.now_ms()
    for when, ago_ms, topics in (("61s", 61_000, 1), ("1m", 60_000, 2), ("1ms", 1, 2)):
        with broker.fork(at=when) as fork:
            assert values(fork) == [b"a", b"b"][:topics]
            assert committed(fork) == 1
            assert len(fork.topics()) == topics
            assert fork.faults.list() == []
            assert now_ms - fork.clock.now_ms() == ago_ms
            assert fork.explain() == [
                each for each in broker.explain() if each.at_ms <= now_ms - ago_ms
            ]
            fork.produce("orders", "fork")
    with broker.fork(at="0s") as fork:
        assert committed(fork) == 2
        assert len(fork.faults.list()) == 1
    assert values(broker) == [b"a", b"b"]


def test_an_offset_of_a_log_is_the_point_before_its_record(broker: Broker) -> None:
    for offset in range(1, 4):
        broker.produce("orders", f"{offset}")
        commit(broker, offset)
    found = broker.bisect("committed(shop, orders, 0) == 2")
    with broker.fork(at=f"{found.log}:{found.offset}") as fork:
        assert (committed(fork), values(fork)) == (1, [b"1", b"2"])
        fork.produce("orders", "fork")
        with fork.fork(at="0s") as again:
            assert values(again) == [b"1", b"2", b"fork"]
        commit(fork, 9)
        with fork.fork(at=f"{OFFSETS}:{found.offset}") as again:
            assert (committed(again), values(again)) == (1, [b"1", b"2", b"fork"])
    with broker.fork(at=f"{OFFSETS}:3") as fork:
        assert committed(fork) == 3


@pytest.mark.parametrize(
    ("when", "text"),
    [
        (
            "2h",
            "the cluster had not started at 2026-03-01T10:01:00.000Z: it began at 2026",
        ),
        ("2026-03-01T13:00:00Z", "2026-03-01T13:00:00.000Z is after now, which is"),
        (2, f"offset 2 needs the name of its log, such as {OFFSETS}:2"),
        (
            f"{OFFSETS}:9",
            f"offset 9 of {OFFSETS} is outside of the log, which has the off",
        ),
        ("orders-7:0", "there is no partition orders-7"),
        ("__cluster_metadata-0:0", "the cluster had not started at offset 0 of __cluster_metadata"),
        ("orders:0", "'orders:0' is no point in time: write an offset"),
        ("-1", "'-1' is no point in time"),
    ],
)
def test_points_that_no_log_has_are_refused(broker: Broker, when: str | int, text: str) -> None:
    commit(broker, 1)
    broker.clock.advance("1m")
    with pytest.raises(ValueError, match=text.replace(".", r"\.")):
        broker.fork(at=when)


def test_records_that_were_deleted_later_are_refused(broker: Broker) -> None:
    broker.create_topic("other")
    broker.produce("orders", "a")
    broker.clock.advance("1m")
    broker.produce("orders", "b")
    partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=2)
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name="orders", partitions=[partition])
    ask(broker, DeleteRecordsRequest(topics=[topic], timeout_ms=1000), "orders")
    with pytest.raises(ValueError, match="records of orders-0 before offset 2 were deleted later"):
        broker.fork(at="1m")
    broker.clock.advance("1m")
    broker.delete_topic("orders")
    broker.create_topic("orders")
    with pytest.raises(ValueError, match="the topic orders was deleted later, with its records"):
        broker.fork(at="1m")


def test_compaction_before_the_point_is_refused(broker: Broker) -> None:
    commit(broker, *range(10))
    broker.clock.advance("1m")
    commit(broker, 10)
    broker.clock.advance("1m")
    compact(broker)
    commit(broker, 11)
    with pytest.raises(ValueError, match=f"compaction has removed records of {OFFSETS} before off"):
        broker.fork(at="90s")
    with broker.fork(at="1ms") as fork:
        assert committed(fork) == 10


def test_a_restore_goes_back_in_time(broker: Broker) -> None:
    broker.produce("orders", "a")
    broker.clock.advance("1m")
    broker.produce("orders", "b")
    later = broker.snapshot()
    broker.restore(broker.snapshot(at="1ms"))
    assert values(broker) == [b"a"]
    broker.restore(later)
    assert values(broker) == [b"a", b"b"]
    broker.restore(broker.snapshot(at="1m"))
    broker.produce("orders", "c")
    broker.clock.advance("1m")
    with broker.fork(at="1ms") as fork:
        assert values(fork) == [b"a", b"c"]


def test_older_records_of_a_snapshot_from_a_file_count_by_their_timestamps(
    broker: Broker, tmp_path: Path
) -> None:
    for name in "ab":
        broker.produce("orders", name)
        broker.clock.advance("1m")
    path = tmp_path / "snapshot"
    broker.snapshot().save(path)
    with broker.fork(Snapshot.load(path)) as loaded:
        loaded.produce("orders", "c")
        loaded.clock.advance("1m")
        loaded.produce("orders", "d")
        for when, count in (("150s", 1), ("61s", 2), ("1m", 3), ("0s", 4)):
            with loaded.fork(at=when) as fork:
                assert len(values(fork)) == count


def test_nodes_are_down_that_the_metadata_considered_dead(broker: Broker) -> None:
    broker.clock.advance("1m")
    broker.nodes[2].stop()
    broker.clock.advance("1m")
    broker.nodes[2].start()
    with broker.fork(at="1ms") as fork:
        assert fork.nodes[2].state == "stopped"
        with pytest.raises(OSError, match="refused"):
            create_connection(("127.0.0.1", int(fork.bootstrap_servers.rpartition(":")[2])))
        assert fork.topic("orders").partitions[0].leader != 2
        fork.nodes[2].start()
        assert fork.nodes[2].state == "running"
    broker.nodes[1].stop()
    with broker.fork(at="2m") as fork:
        assert [fork.nodes[each].state for each in fork.nodes] == ["running", "running"]


def test_an_explanation_is_that_of_a_point(broker: Broker) -> None:
    commit(broker, 1)
    broker.clock.advance("1m")
    commit(broker, 9, member_id="gone")
    broker.clock.advance("1m")
    commit(broker, 2)
    (refused,) = broker.explain("shop")
    assert broker.explain("shop", at="1m") == [refused]
    assert broker.explain("shop", at="61s") == []
    assert broker.explain("shop", at="1") == broker.explain(at=f"{OFFSETS}:1") == [refused]
    assert broker.explain("shop", at="0") == []
    for arguments, text in (
        ({"at": "1"}, f"offset 1 needs the name of its log, such as {OFFSETS}:1"),
        ({"group": "shop", "at": "9"}, f"offset 9 of {OFFSETS} is outside of the log, which has"),
        (
            {"transactional_id": "t", "at": "1"},
            "there is no transactional id 't': no transactional",
        ),
        ({"at": "2999-01-01"}, "is after now"),
    ):
        with pytest.raises(ValueError, match=text):
            broker.explain(**arguments)  # type: ignore[arg-type]  # only texts


def test_a_fork_takes_a_snapshot_or_a_point(broker: Broker) -> None:
    with pytest.raises(TypeError, match="a snapshot or a point, not both"):
        broker.fork(broker.snapshot(), at="0s")


def test_data_on_disk_has_earlier_points_before_and_after_a_restart(tmp_path: Path) -> None:
    clock = "manual@2026-03-01T12:00:00Z"
    with Broker(topics={"orders": 1}, data_directory=tmp_path, clock=clock) as broker:
        for name in "ab":
            broker.produce("orders", name)
            broker.clock.advance("1m")
        with broker.fork(at="1m1ms") as fork:
            assert values(fork) == [b"a"]
    clock = "manual@2026-03-01T13:00:00Z"
    with Broker(data_directory=tmp_path, clock=clock) as broker:
        broker.produce("orders", "c", timestamp=1)
        broker.clock.advance("1m")
        broker.produce("orders", "d", timestamp=1)
        for when, count in (("60m1ms", 1), ("59m", 2), ("1m", 3), ("0s", 4)):
            with broker.fork(at=when) as fork:
                assert len(values(fork)) == count
        with pytest.raises(ValueError, match="the cluster had not started at 2026-03-01T11:01:00"):
            broker.fork(at="2h")
