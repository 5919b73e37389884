"""Replication: replicas that follow or lag, the high watermark, and changes of the ISR."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.partitions.coordinator_log import open_coordinator_log
from kafkalite.partitions.former_leader import FormerLeader
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from kafkalite.storage.batch import BatchView
from kafkalite.storage.transaction_marker import TransactionMarker
from kafkalite.testing.files import FaultyFiles, MemoryFiles
from tests.cluster.responses import PendingResponse
from tests.unit.cluster.replicated import LAG_TIME_MS, SESSION_MS, ReplicatedCluster
from tests.unit.data_plane import batch_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CHECK_MS = LAG_TIME_MS // 2


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    cluster = ReplicatedCluster(tmp_path)
    yield cluster
    cluster.end()


def ends(cluster: ReplicatedCluster) -> list[int]:
    """Return the end offsets of the replicas on nodes 1, 2 and 3."""
    return [cluster.partition().end_offset_of(node) for node in (1, 2, 3)]


def test_replicas_follow_without_views(cluster: ReplicatedCluster) -> None:
    cluster.append(b"a", b"b")
    partition = cluster.partition()
    assert partition.views == {}
    assert (ends(cluster), partition.high_watermark) == ([2, 2, 2], 2)


async def test_replicas_of_topics_that_are_created_at_the_start_follow() -> None:
    settings = Settings(
        listen=("127.0.0.1:0",),
        brokers=3,
        topics={"t": 1},
        config={"default.replication.factor": "3"},
    )
    broker = Broker(settings)
    await broker.start()
    assert broker.cluster is not None
    topic = broker.cluster.partitions.topic("t")
    assert topic is not None
    (partition,) = topic.partitions
    assert (partition.views, len(partition.isr)) == ({}, 3)
    await broker.stop()


def test_replicas_join_the_isr_at_a_start(cluster: ReplicatedCluster) -> None:
    cluster.control.stop(2)
    assert cluster.state() == (1, 0, {1, 3})
    cluster.restart()
    assert cluster.state() == (1, 0, {1, 2, 3})
    assert cluster.partition().views == {}


def test_the_end_of_a_lagging_replica_in_the_isr_is_the_high_watermark(
    cluster: ReplicatedCluster,
) -> None:
    cluster.append(b"a")
    cluster.control.pause_replication(3)
    cluster.append(b"b")
    cluster.control.pause_replication(2)
    cluster.append(b"c")
    assert (ends(cluster), cluster.partition().high_watermark) == ([3, 2, 1], 1)
    cluster.control.resume_replication(3)
    assert (ends(cluster), cluster.partition().high_watermark) == ([3, 2, 3], 2)
    cluster.control.resume_replication(2)
    assert (ends(cluster), cluster.partition().high_watermark) == ([3, 3, 3], 3)
    assert cluster.partition().views == {}


def test_followers_lag_while_their_leader_is_isolated(cluster: ReplicatedCluster) -> None:
    cluster.control.isolate(1)
    cluster.append(b"a")
    assert (ends(cluster), cluster.partition().high_watermark) == ([1, 0, 0], 0)
    cluster.clock.advance(SESSION_MS)
    # Node 2 leads, and does not have the record.
    assert cluster.state() == (2, 1, {2, 3})
    assert (ends(cluster), cluster.partition().end_offset) == ([0, 0, 0], 0)


def test_a_leader_that_does_not_know_its_leadership_replicates_nothing(
    cluster: ReplicatedCluster,
) -> None:
    cluster.control.freeze_metadata(2)
    cluster.cluster.metadata.move_leader("t", 0, 2)
    views = cluster.partition().views
    assert set(views) == {1, 2, 3}
    assert views[2].known_leader is not None
    assert (views[2].known_leader.node_id, views[2].known_leader.epoch) == (1, 0)
    assert views[2].replica_end is None
    cluster.control.thaw_metadata(2)
    assert cluster.partition().views == {}


def test_a_follower_with_old_metadata_lags_only_where_the_leader_changed(
    cluster: ReplicatedCluster,
) -> None:
    cluster.create_replicated("u", (1, 2, 3))
    cluster.control.freeze_metadata(3)
    cluster.cluster.metadata.move_leader("t", 0, 2)
    cluster.append(b"a")
    cluster.append(b"a", name="u")
    assert ends(cluster) == [1, 1, 0]
    assert cluster.partition("u").views == {}


def test_a_node_that_does_not_know_a_topic_has_no_leader_for_it(
    cluster: ReplicatedCluster,
) -> None:
    cluster.control.freeze_metadata(3)
    cluster.create_replicated("u", (1, 2, 3))
    view = cluster.partition("u").views[3]
    assert (view.leader, view.leader_epoch, view.replicas) == (-1, -1, ())


def test_a_topic_that_was_created_again_is_unknown_to_a_frozen_node(
    cluster: ReplicatedCluster,
) -> None:
    cluster.control.freeze_metadata(3)
    cluster.cluster.metadata.delete_topics([cluster.cluster.metadata.image.topics["t"].topic_id])
    cluster.create_replicated("t", (1, 2, 3))
    assert cluster.partition().views[3].leader == -1


@pytest.mark.parametrize("cut", [{(1, 2)}, {(2, 1)}, {(1, 2), (2, 1)}])
def test_a_follower_whose_link_to_the_leader_is_cut_leaves_the_isr(
    cluster: ReplicatedCluster, cut: set[tuple[int, int]]
) -> None:
    cluster.control.cut_links(frozenset(cut))
    cluster.append(b"a")
    assert (ends(cluster), cluster.partition().high_watermark) == ([1, 0, 1], 0)
    cluster.clock.advance(LAG_TIME_MS + CHECK_MS)
    assert cluster.state() == (1, 0, {1, 3})
    assert cluster.image().partition_epoch == 1
    assert cluster.partition().high_watermark == 1
    cluster.control.cut_links(frozenset())
    assert cluster.state() == (1, 0, {1, 2, 3})
    assert ends(cluster) == [1, 1, 1]


def test_a_cut_link_between_followers_changes_nothing(cluster: ReplicatedCluster) -> None:
    cluster.control.cut_links(frozenset({(2, 3), (3, 2)}))
    cluster.append(b"a")
    assert (ends(cluster), cluster.partition().high_watermark) == ([1, 1, 1], 1)
    cluster.cluster.metadata.move_leader("t", 0, 2)
    cluster.append(b"b")
    assert ends(cluster) == [2, 2, 1]
    cluster.control.cut_links(frozenset())
    assert ends(cluster) == [2, 2, 2]


def test_the_lag_time_is_a_setting(tmp_path: Path) -> None:
    cluster = ReplicatedCluster(
        tmp_path, {"replica.lag.time.max.ms": "100", "replica.fetch.wait.max.ms": "50"}
    )
    cluster.control.pause_replication(2)
    cluster.append(b"a")
    cluster.clock.advance(150)
    assert cluster.state() == (1, 0, {1, 3})
    cluster.end()


def test_a_replica_that_misses_nothing_stays_in_the_isr(cluster: ReplicatedCluster) -> None:
    cluster.append(b"a")
    cluster.control.pause_replication(2)
    cluster.clock.advance(10 * LAG_TIME_MS)
    assert cluster.state() == (1, 0, {1, 2, 3})
    cluster.append(b"b")
    cluster.clock.advance(CHECK_MS)
    assert cluster.state() == (1, 0, {1, 3})


def test_replicas_of_internal_topics_leave_the_isr_at_once(cluster: ReplicatedCluster) -> None:
    """Coordinators answer without waiting for replicas, so none may be in sync and lag."""
    cluster.create_replicated(OFFSETS_TOPIC, (1, 2, 3))
    cluster.control.pause_replication(2)
    assert cluster.state(OFFSETS_TOPIC) == (1, 0, {1, 3})
    assert cluster.state() == (1, 0, {1, 2, 3})
    cluster.control.resume_replication(2)
    assert cluster.state(OFFSETS_TOPIC) == (1, 0, {1, 2, 3})


def test_the_log_of_a_coordinator_accepts_no_records_while_a_replica_in_sync_lags(
    tmp_path: Path,
) -> None:
    """The disk refuses the change of the ISR, so the replica could become the leader."""
    files = FaultyFiles(MemoryFiles(), crash=False)
    cluster = ReplicatedCluster(tmp_path, files=files)
    cluster.create_replicated(OFFSETS_TOPIC, (1, 2, 3))
    log = open_coordinator_log(cluster.cluster.partitions, OFFSETS_TOPIC, 0)
    marker = TransactionMarker(7, 0, 0, is_commit=True)
    files.fail_from(1, failing_steps=1_000)
    cluster.control.pause_replication(2)
    files.fail_from(None)
    assert cluster.state(OFFSETS_TOPIC) == (1, 0, {1, 2, 3})
    appends: list[Callable[[], int]] = [
        lambda: log.append([(b"k", b"v")], 0),
        lambda: log.append_transactional([(b"k", b"v")], marker, 0),
        lambda: log.append_marker(marker, 0),
    ]
    for append in appends:
        with pytest.raises(KafkaError) as refusal:
            append()
        assert refusal.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    cluster.clock.advance(CHECK_MS)
    assert cluster.state(OFFSETS_TOPIC) == (1, 0, {1, 3})
    log.append([(b"k", b"v")], 0)
    log.append_marker(marker, 0)
    assert cluster.partition(OFFSETS_TOPIC).high_watermark == 2
    cluster.end()


def test_an_isolated_leader_changes_no_isr(cluster: ReplicatedCluster) -> None:
    cluster.control.pause_replication(2)
    cluster.append(b"a")
    cluster.control.isolate(1)
    cluster.control.resume_replication(2)
    assert cluster.state() == (1, 0, {1, 2, 3})


def test_an_isr_below_its_minimum_stops_the_high_watermark(tmp_path: Path) -> None:
    cluster = ReplicatedCluster(tmp_path, {"min.insync.replicas": "3"})
    cluster.append(b"a")
    cluster.control.stop(3)
    cluster.append(b"b")
    assert cluster.state() == (1, 0, {1, 2})
    assert cluster.partition().high_watermark == 1
    cluster.control.start(3)
    assert cluster.state() == (1, 0, {1, 2, 3})
    assert cluster.partition().high_watermark == 2
    cluster.end()


def test_the_log_is_truncated_to_the_replica_of_the_new_leader(cluster: ReplicatedCluster) -> None:
    cluster.append(b"a")
    cluster.control.pause_replication(2)
    cluster.append(b"b")
    cluster.control.pause_replication(3)
    cluster.append(b"c")
    cluster.cluster.metadata.move_leader("t", 0, 3)
    assert ends(cluster) == [2, 1, 2]
    assert cluster.image().epoch_start_offset == 2
    cluster.cluster.metadata.move_leader("t", 0, 2)
    assert ends(cluster) == [1, 1, 1]


def test_an_isolated_leader_becomes_a_former_leader(cluster: ReplicatedCluster) -> None:
    cluster.append(b"a")
    cluster.control.isolate(1)
    cluster.append(b"b")
    cluster.clock.advance(SESSION_MS)
    view = cluster.partition().seen_by(1)
    assert isinstance(view, FormerLeader)
    assert (view.leader, view.leader_epoch, view.end_offset, view.high_watermark) == (1, 0, 2, 1)
    assert ends(cluster) == [1, 1, 1]
    cluster.append(b"c")
    assert (ends(cluster), view.end_offset) == ([1, 2, 2], 2)
    cluster.control.start(1)
    assert cluster.partition().views == {}
    assert not view.accepts_records
    assert ends(cluster) == [2, 2, 2]


def test_a_former_leader_that_knows_its_successor_is_a_replica_that_lags(
    cluster: ReplicatedCluster,
) -> None:
    cluster.append(b"a")
    cluster.control.pause_replication(1)
    cluster.control.freeze_metadata(1)
    cluster.cluster.metadata.move_leader("t", 0, 2, is_unclean=False)
    views = cluster.partition().views
    assert views[1].accepts_records
    views[1].append(BatchView(batch_of(b"lost")), cluster.clock.now_ms())
    assert (views[1].end_offset, views[1].leader) == (2, 1)
    cluster.append(b"b")
    cluster.control.thaw_metadata(1)
    assert not views[1].accepts_records
    assert (views[1].end_offset, views[1].leader) == (1, 2)
    (event,) = cluster.cluster.history.about("t", of=Entity.TOPIC)
    assert event.text == (
        "1 offset from 1 on was removed from t-0: node 2, its leader in epoch 1, does not have it"
    )
    assert ends(cluster) == [1, 2, 2]
    cluster.clock.advance(LAG_TIME_MS + CHECK_MS)
    assert cluster.state() == (2, 1, {2, 3})


def test_a_write_that_waits_ends_when_the_former_leader_knows_its_successor(
    cluster: ReplicatedCluster,
) -> None:
    cluster.control.pause_replication(1)
    cluster.control.freeze_metadata(1)
    cluster.cluster.metadata.move_leader("t", 0, 2, is_unclean=False)
    data = ProduceRequest.PartitionProduceData(index=0, records=batch_of(b"lost"))
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    pending = cluster.ask(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic]), 12)
    assert isinstance(pending, PendingResponse)
    cluster.control.thaw_metadata(1)
    (answer,) = pending.response.responses[0].partition_responses
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 1)


def test_an_isolated_leader_without_a_successor_leads_on(cluster: ReplicatedCluster) -> None:
    cluster.create_replicated("alone", (1,))
    cluster.append(b"a", name="alone")
    cluster.control.isolate(1)
    cluster.clock.advance(SESSION_MS)
    partition = cluster.partition("alone")
    assert partition.leader == -1
    view = partition.views[1]
    assert (view.accepts_records, view.led_isr, view.leader_epoch) == (True, (1,), 0)
    view.append(BatchView(batch_of(b"b")), cluster.clock.now_ms())
    assert (view.end_offset, view.high_watermark) == (2, 2)
    cluster.control.start(1)
    assert (partition.leader, partition.views, partition.high_watermark) == (1, {}, 2)
    assert partition.log.epochs.entries == [(0, 0), (2, 2)]


def test_a_stopped_leader_does_not_lead_on(cluster: ReplicatedCluster) -> None:
    cluster.create_replicated("alone", (1,))
    cluster.control.stop(1)
    for name in ("t", "alone"):
        view = cluster.partition(name).views[1]
        assert not view.accepts_records
        assert not isinstance(view, FormerLeader)


def test_a_former_leader_with_committed_records_that_its_successor_lacks_accepts_none(
    cluster: ReplicatedCluster,
) -> None:
    cluster.control.pause_replication(3)
    cluster.append(b"a")
    cluster.clock.advance(LAG_TIME_MS + CHECK_MS)
    assert cluster.state() == (1, 0, {1, 2})
    cluster.control.freeze_metadata(1)
    cluster.cluster.metadata.move_leader("t", 0, 3, is_unclean=True)
    view = cluster.partition().views[1]
    assert (view.accepts_records, view.end_offset) == (False, 0)


def test_a_request_for_an_isr_that_the_disk_refuses_is_repeated(tmp_path: Path) -> None:
    files = FaultyFiles(MemoryFiles(), crash=False)
    cluster = ReplicatedCluster(tmp_path, files=files)
    cluster.control.pause_replication(2)
    cluster.append(b"a")
    files.fail_from(1, failing_steps=1_000)
    cluster.clock.advance(LAG_TIME_MS + CHECK_MS)
    assert cluster.state() == (1, 0, {1, 2, 3})
    files.fail_from(None)
    cluster.clock.advance(CHECK_MS)
    assert cluster.state() == (1, 0, {1, 3})
    files.fail_from(1, failing_steps=1_000)
    cluster.control.resume_replication(2)
    assert cluster.state() == (1, 0, {1, 3})
    files.fail_from(None)
    cluster.clock.advance(CHECK_MS)
    assert cluster.state() == (1, 0, {1, 2, 3})
    cluster.end()


def test_a_restart_lets_all_replicas_catch_up(cluster: ReplicatedCluster) -> None:
    cluster.control.pause_replication(2)
    cluster.append(b"a")
    cluster.clock.advance(2 * LAG_TIME_MS)
    cluster.control.stop(3)
    cluster.restart()
    assert cluster.state()[2] == {1, 2, 3}
    assert cluster.partition().views == {}
    assert cluster.partition().high_watermark == 1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((b"b",), ("1 offset from 1 on was removed", "it")),
        ((b"b", b"c"), ("2 offsets from 1 on were removed", "them")),
    ],
)
def test_a_truncation_is_in_the_history_of_the_topic(
    cluster: ReplicatedCluster, values: tuple[bytes, ...], expected: tuple[str, str]
) -> None:
    cluster.append(b"a")
    cluster.control.pause_replication(2)
    cluster.append(*values)
    cluster.cluster.metadata.move_leader("t", 0, 2, is_unclean=True)
    (entry,) = cluster.cluster.history.about("t", of=Entity.TOPIC)
    removed, pronoun = expected
    assert entry.text == (
        f"{removed} from t-0: node 2, its leader in epoch 1, does not have {pronoun}"
    )
    assert entry.kind == "truncated"
    assert entry.facts == {
        "topic": "t",
        "partition": 0,
        "leader": 2,
        "leader_epoch": 1,
        "end_offset": 1,
        "removed_offsets": len(values),
    }
