"""Committed records remain while nodes fail and leaders move, except in unclean elections."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkalite.cluster.cluster import Cluster
from kafkalite.cluster.node import NodeState
from kafkalite.cluster.node_control import NodeError
from kafkalite.config.broker import BrokerConfig
from kafkalite.metadata.controller import MetadataSerde
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import NO_LEADER, MetadataDelta, MetadataImage
from kafkalite.metadata.leadership import ElectionType
from kafkalite.metadata.shard import MetadataShard
from kafkalite.metadata.topic_names import METADATA_TOPIC
from kafkalite.partitions.former_leader import FormerLeader
from kafkalite.partitions.replicas import ReplicaView
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.data_directory import DataDirectory
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.files import MemoryFiles
from tests.effort import examples
from tests.unit.storage.logs import batch, values_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.partitions.partition import Partition

NODE_IDS = (1, 2, 3)
NODES = st.sampled_from(NODE_IDS)
TOPICS = {
    "clean": {"min.insync.replicas": "2"},
    "unclean": {"unclean.leader.election.enable": "true"},
    "moved": {},
}
"""Topics with their settings; only those of "moved" are moved to replicas that are not in sync."""
TOPIC = st.sampled_from(list(TOPICS))
TIMES_MS = st.sampled_from([1, 1_000, 9_000, 30_001])


class Committed:
    """The records of one partition that were below the high watermark."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.had_unclean_election = False


class FailingCluster(RuleBasedStateMachine):
    """A cluster of three nodes that fail in any order, and are restarted on the same directory."""

    # --- the cluster ---------------------------------------------------------------------------

    @initialize(version=st.sampled_from([None, "3.9"]))
    def begin(self, version: str | None) -> None:
        """Begin with eligible leader replicas, or as a release without them."""
        self.files = MemoryFiles()
        self.clock = ManualClock()
        self.config = BrokerConfig.from_text(as_version=version)
        self.count = 0
        self.committed = {name: Committed() for name in TOPICS}
        self.lagging: dict[ReplicaView, int] = {}
        """The end of each replica that did not follow after the last step."""
        self.previous = MetadataImage()
        self.start()
        self.cluster.metadata.create_topics(
            [
                NewTopic(name=name, assignments=((0, (1, 2, 3)),), configs=configs)
                for name, configs in TOPICS.items()
            ]
        )

    def start(self) -> None:
        self.directory = DataDirectory(self.files, "data")
        self.cluster = Cluster(
            cluster_id="cluster",
            directory=self.directory,
            clock=self.clock,
            entropy=SeededEntropy(),
            config=self.config,
            node_ids=NODE_IDS,
        )
        self.previous = self.cluster.metadata.image
        self.cluster.metadata.subscribe(self.on_image)
        self.cluster.open(lambda *_: None)

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Find unclean elections: the new leader was neither in sync nor eligible.

        Called after the logs were truncated.
        """
        del delta
        for name, committed in self.committed.items():
            before, after = self.previous.partition(name, 0), image.partition(name, 0)
            if before is None or after is None or after.leader in {before.leader, NO_LEADER}:
                continue
            if after.truncation_epoch == after.leader_epoch:
                assert self.partition(name).end_offset == after.epoch_start_offset
            if after.leader not in {*before.isr, *before.elr}:
                assert name != "clean"
                committed.had_unclean_election = True
        self.previous = image

    def partition(self, name: str) -> Partition:
        hosted = self.cluster.partitions.topic(name)
        assert hosted is not None
        partition = hosted.partition(0)
        assert partition is not None
        return partition

    # --- what happens to it --------------------------------------------------------------------

    @rule(topic=TOPIC, count=st.integers(1, 3))
    def append(self, topic: str, count: int) -> None:
        """Append as a client of the leader does, which may be isolated."""
        partition = self.partition(topic)
        leader = self.cluster.nodes.get(partition.leader)
        if leader is None or leader.state is NodeState.STOPPED:
            return
        if partition.seen_by(leader.id) is not partition:
            return
        for _ in range(count):
            self.count += 1
            partition.append(batch(b"%d" % self.count), self.clock.now_ms())
        self.cluster.partitions.announce()

    @rule(topic=TOPIC, node_id=NODES, count=st.integers(1, 3))
    def append_without_successor(self, topic: str, node_id: int, count: int) -> None:
        """Append at a node that does not know that it is not the leader any more."""
        seen = self.partition(topic).seen_by(node_id)
        if not isinstance(seen, ReplicaView) or not seen.accepts_records:
            return
        if self.cluster.nodes[node_id].state is NodeState.STOPPED:
            return
        before = seen.end_offset
        for _ in range(count):
            self.count += 1
            seen.append(batch(b"%d" % self.count), self.clock.now_ms())
        assert seen.end_offset == before + count

    def control(self, change: Callable[[], None]) -> None:
        with suppress(NodeError):
            change()

    @rule(node_id=NODES)
    def stop_node(self, node_id: int) -> None:
        self.control(lambda: self.cluster.node_control.stop(node_id))

    @rule(node_id=NODES)
    def shut_down_node(self, node_id: int) -> None:
        self.control(lambda: self.cluster.node_control.shut_down(node_id))

    @rule(node_id=NODES)
    def isolate_node(self, node_id: int) -> None:
        self.control(lambda: self.cluster.node_control.isolate(node_id))

    @rule(node_id=NODES)
    def start_node(self, node_id: int) -> None:
        self.control(lambda: self.cluster.node_control.start(node_id))

    @rule(node_id=NODES, is_paused=st.booleans())
    def set_replication(self, node_id: int, *, is_paused: bool) -> None:
        control = self.cluster.node_control
        change = control.pause_replication if is_paused else control.resume_replication
        self.control(lambda: change(node_id))

    @rule(node_id=NODES, is_frozen=st.booleans())
    def set_metadata(self, node_id: int, *, is_frozen: bool) -> None:
        control = self.cluster.node_control
        change = control.freeze_metadata if is_frozen else control.thaw_metadata
        self.control(lambda: change(node_id))

    @rule(topic=TOPIC, node_id=NODES, is_unclean=st.booleans())
    def move_leader(self, topic: str, node_id: int, *, is_unclean: bool) -> None:
        with suppress(KafkaError):
            self.cluster.metadata.move_leader(
                topic, 0, node_id, is_unclean=is_unclean and topic == "moved"
            )

    @rule(topic=TOPIC, kind=st.sampled_from(ElectionType))
    def elect_leader(self, topic: str, kind: ElectionType) -> None:
        if topic != "clean" or kind is ElectionType.PREFERRED:
            self.cluster.metadata.elect_leaders([(topic, 0)], kind)

    @rule(duration_ms=TIMES_MS)
    def advance(self, duration_ms: int) -> None:
        self.clock.advance(duration_ms)

    @rule(topic=TOPIC)
    def flush(self, topic: str) -> None:
        self.partition(topic).log.flush()

    @rule(is_clean=st.booleans())
    def restart(self, *, is_clean: bool) -> None:
        """Restart the cluster; all replicas then have the whole log."""
        image = self.cluster.metadata.image
        values = {name: values_of(self.partition(name).log) for name in TOPICS}
        self.cluster.stop()
        if is_clean:
            self.directory.close(self.cluster.partitions.logs())
        else:
            self.directory.release_lock()
        self.start()
        assert {name: values_of(self.partition(name).log) for name in TOPICS} == values
        restarted = self.cluster.metadata.image
        for name in TOPICS:
            before, after = image.partition(name, 0), restarted.partition(name, 0)
            assert before is not None
            assert after is not None
            assert after.leader_epoch - before.leader_epoch in {0, 1}
            assert set(after.isr) == set(after.replicas) == set(before.replicas)
            assert (after.epoch_start_offset, after.truncation_epoch) == (
                before.epoch_start_offset,
                before.truncation_epoch,
            )

    # --- the law -------------------------------------------------------------------------------

    @invariant()
    def committed_records_do_not_change(self) -> None:
        for name, committed in self.committed.items():
            partition = self.partition(name)
            values = values_of(partition.log)[: partition.high_watermark]
            if committed.had_unclean_election:
                committed.had_unclean_election = False
            else:
                assert values[: len(committed.values)] == committed.values
            committed.values = values

    @invariant()
    def replicas_are_prefixes_and_those_in_sync_have_the_committed_records(self) -> None:
        for name in TOPICS:
            partition = self.partition(name)
            assert 0 <= partition.high_watermark <= partition.end_offset
            for node_id in NODE_IDS:
                view = partition.seen_by(node_id)
                assert view.high_watermark <= min(view.end_offset, partition.end_offset)
                if not isinstance(view, FormerLeader):
                    assert view.high_watermark <= partition.high_watermark
                if node_id in partition.isr:
                    assert partition.end_offset_of(node_id) >= partition.high_watermark

    @invariant()
    def replicas_that_do_not_follow_get_no_records(self) -> None:
        lagging = {
            view: self.partition(name).end_offset_of(node_id)
            for name in TOPICS
            for node_id, view in self.partition(name).views.items()
            if view.replica_end is not None
        }
        for view, end_offset in lagging.items():
            assert end_offset <= self.lagging.get(view, end_offset)
        self.lagging = lagging

    @invariant()
    def partitions_agree_with_the_metadata(self) -> None:
        for name in TOPICS:
            partition, image = self.partition(name), self.cluster.metadata.image.partition(name, 0)
            assert image is not None
            assert (partition.leader, partition.leader_epoch, partition.isr) == (
                image.leader,
                image.leader_epoch,
                image.isr,
            )
            epochs = [found.leader_epoch for found in partition.log.batches()]
            assert epochs == sorted(epochs)
            if image.leader != NO_LEADER:
                assert partition.log.epochs.latest == image.leader_epoch
            assert all(
                partition.log.epochs.epoch_for(found.base_offset) == found.leader_epoch
                for found in partition.log.batches()
            )
            assert partition.truncation_offset(image) is None

    @invariant()
    def the_metadata_log_has_the_image(self) -> None:
        shard = MetadataShard(self.config, SeededEntropy())
        serde = MetadataSerde()
        image = self.cluster.metadata.image
        for appended in self.cluster.partitions.logs()[METADATA_TOPIC, 0].batches():
            for key, value in appended.key_values():
                record = serde.decode(key, value)
                assert record is not None
                shard.replay(record)
        replayed, _ = shard.next_image(MetadataImage(), image.version)
        assert replayed == image


TestCommittedRecords = FailingCluster.TestCase
TestCommittedRecords.settings = settings(
    max_examples=examples(60), stateful_step_count=30, deadline=None
)


def test_eligible_replica_has_all_committed_records() -> None:
    """While too few replicas are in sync, no further records are committed (KIP-966)."""
    cluster = FailingCluster()
    cluster.begin(version=None)
    cluster.append("clean", 2)
    cluster.set_replication(3, is_paused=True)
    cluster.stop_node(2)
    # An isolated node remains eligible; a stopped one does not, as after a crash.
    cluster.isolate_node(3)
    cluster.advance(9_000)
    cluster.append("clean", 3)
    partition = cluster.partition("clean")
    assert (partition.isr, partition.high_watermark, partition.end_offset) == ((1,), 2, 5)
    cluster.committed_records_do_not_change()
    cluster.start_node(3)
    cluster.stop_node(1)
    assert (partition.leader, partition.high_watermark, partition.end_offset) == (3, 2, 2)
    cluster.committed_records_do_not_change()


def test_lagging_replica_loses_the_records_that_a_new_leader_does_not_have() -> None:
    cluster = FailingCluster()
    cluster.begin(version=None)
    for node_id in (2, 3, 1):
        cluster.append("clean", 2)
        cluster.set_replication(node_id, is_paused=True)
    partition = cluster.partition("clean")
    assert [partition.end_offset_of(node_id) for node_id in (1, 2, 3)] == [6, 2, 4]
    cluster.move_leader("clean", 2, is_unclean=False)
    cluster.append("clean", 3)
    assert [partition.end_offset_of(node_id) for node_id in (1, 2, 3)] == [2, 5, 2]
    assert partition.high_watermark == 2
    cluster.committed_records_do_not_change()
