"""Preferred and unclean leaders are elected periodically, by the clock of the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.cluster import periodic_elections
from kafkalite.cluster.periodic_elections import PeriodicElections
from kafkalite.metadata.configs import AlterOperation, ConfigChange
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import NO_LEADER, ConfigResource, ResourceType
from kafkalite.metadata.leadership import Leadership
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.testing.clock import ManualClock
from tests.cluster.cluster import TestCluster
from tests.cluster.metadata import MetadataCluster

if TYPE_CHECKING:
    from pathlib import Path

INTERVAL_MS = 300_000


class ElectingCluster(MetadataCluster):
    """A cluster of nodes 1 and 2 with periodic elections."""

    def __init__(self, **config: Any) -> None:  # noqa: ANN401 - passed on as they are
        super().__init__(nodes=(1, 2), **config)
        self.clock = ManualClock()
        self.elections = PeriodicElections(self.clock, self.config, self.controller)
        self.controller.subscribe(self.elections.on_image)
        self.elections.start()

    def create(self, *names: str) -> None:
        """Create topics with one partition on nodes 1 and 2."""
        self.controller.create_topics(
            [NewTopic(name=name, assignments=((0, (1, 2)),)) for name in names]
        )

    def leader(self, name: str = "t") -> int:
        """Return the leader of a topic's partition."""
        return self.topic(name).partitions[0].leader

    def move_leaders(self) -> None:
        """Make node 2 the leader of all partitions; node 1 is in sync again."""
        self.controller.fence(1)
        self.controller.unfence(1)
        self.controller.alter_isr(
            [(topic.topic_id, 0, (2, 1)) for topic in self.image.topics.values()]
        )

    def lose_leader(self) -> None:
        """Fence both nodes, and unfence the one that is not in sync."""
        self.controller.fence(1)
        self.controller.fence(2)
        self.controller.unfence(1)

    def allow_unclean_elections(self) -> None:
        """Set the dynamic configuration of all nodes."""
        change = ConfigChange("unclean.leader.election.enable", AlterOperation.SET, "true")
        self.controller.alter_configs({ConfigResource(ResourceType.BROKER, ""): [change]})


def test_preferred_leaders_are_elected_at_multiples_of_the_interval() -> None:
    cluster = ElectingCluster()
    cluster.create("t")
    cluster.clock.advance(INTERVAL_MS // 2)
    cluster.move_leaders()
    assert cluster.leader() == 2
    cluster.clock.advance(INTERVAL_MS // 2 - 1)
    assert cluster.leader() == 2
    cluster.clock.advance(1)
    assert cluster.leader() == 1
    assert cluster.clock.next_deadline_ms is None


def test_preferred_leaders_are_elected_up_to_a_limit() -> None:
    cluster = ElectingCluster()
    cluster.create("a", "b", "c")
    cluster.move_leaders()
    assert cluster.controller.elect_preferred_leaders(2)
    assert [cluster.leader(name) for name in "abc"] == [1, 1, 2]
    assert not cluster.controller.elect_preferred_leaders(2)
    assert [cluster.leader(name) for name in "abc"] == [1, 1, 1]


def test_unclean_leaders_are_elected_only_where_topics_allow_that() -> None:
    cluster = ElectingCluster()
    cluster.create("t")
    cluster.lose_leader()
    assert not cluster.controller.elect_unclean_leaders(10)
    assert cluster.leader() == NO_LEADER
    cluster.allow_unclean_elections()
    assert not cluster.controller.elect_unclean_leaders(10)
    assert cluster.leader() == 1


def test_no_timer_runs_while_preferred_replicas_lead() -> None:
    cluster = ElectingCluster()
    cluster.create("t", "u")
    assert cluster.clock.next_deadline_ms is None


def test_a_preferred_replica_that_is_not_in_sync_is_elected_later() -> None:
    cluster = ElectingCluster()
    cluster.create("t")
    cluster.controller.fence(1)
    cluster.clock.advance(INTERVAL_MS)
    assert cluster.leader() == 2
    cluster.controller.unfence(1)
    cluster.clock.advance(INTERVAL_MS)
    assert cluster.leader() == 2
    cluster.controller.alter_isr([(cluster.topic("t").topic_id, 0, (2, 1))])
    cluster.clock.advance(INTERVAL_MS)
    assert cluster.leader() == 1


def test_the_interval_is_configured() -> None:
    cluster = ElectingCluster(leader_imbalance_check_interval_seconds="2")
    cluster.create("t")
    cluster.move_leaders()
    cluster.clock.advance(2_000)
    assert cluster.leader() == 1


def test_preferred_leaders_are_not_elected_if_that_is_disabled() -> None:
    cluster = ElectingCluster(auto_leader_rebalance_enable="false")
    cluster.create("t")
    cluster.move_leaders()
    assert cluster.clock.next_deadline_ms is None
    cluster.clock.advance(10 * INTERVAL_MS)
    assert cluster.leader() == 2


def test_many_elections_are_made_in_several_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic_elections, "MAX_ELECTIONS", 2)
    cluster = ElectingCluster()
    cluster.create("a", "b", "c")
    cluster.move_leaders()
    cluster.clock.advance(INTERVAL_MS)
    assert [cluster.leader(name) for name in "abc"] == [1, 1, 2]
    cluster.clock.advance(periodic_elections.CONTINUE_DELAY_MS)
    assert [cluster.leader(name) for name in "abc"] == [1, 1, 1]


def test_unclean_election_follows_when_it_is_allowed_while_there_is_no_leader() -> None:
    cluster = ElectingCluster()
    cluster.create("t")
    cluster.lose_leader()
    cluster.clock.advance(INTERVAL_MS)
    assert cluster.leader() == NO_LEADER
    cluster.allow_unclean_elections()
    assert cluster.leader() == NO_LEADER
    cluster.clock.advance(INTERVAL_MS)
    assert cluster.leader() == 1
    assert cluster.topic("t").partitions[0].is_recovering


def test_the_interval_of_unclean_elections_is_configured() -> None:
    cluster = ElectingCluster(unclean_leader_election_interval_ms="50")
    cluster.create("t")
    cluster.lose_leader()
    cluster.allow_unclean_elections()
    cluster.clock.advance(50)
    assert cluster.leader() == 1


def test_a_partition_of_a_fenced_node_alone_waits_for_it() -> None:
    cluster = ElectingCluster()
    cluster.create("t")
    cluster.allow_unclean_elections()
    cluster.controller.fence(1)
    cluster.controller.fence(2)
    cluster.clock.advance(3 * INTERVAL_MS)
    assert cluster.leader() == NO_LEADER
    cluster.controller.unfence(1)
    assert cluster.leader() == 1


def test_an_election_that_a_disk_refuses_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ElectingCluster()
    cluster.create("t")
    cluster.move_leaders()

    def refuse(*_: object) -> int:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(cluster.log, "append", refuse)
        cluster.clock.advance(INTERVAL_MS)
    assert cluster.leader() == 2
    cluster.clock.advance(INTERVAL_MS)
    assert cluster.leader() == 1


def test_the_refusal_of_a_disk_is_a_kafka_error(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ElectingCluster()
    cluster.create("t")
    cluster.move_leaders()

    def refuse(*_: object) -> int:
        raise OSError

    monkeypatch.setattr(cluster.log, "append", refuse)
    with pytest.raises(KafkaError) as refusal:
        cluster.controller.elect_preferred_leaders(1)
    assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_closed_elections_are_not_made() -> None:
    cluster = ElectingCluster()
    cluster.create("t")
    cluster.move_leaders()
    cluster.elections.close()
    cluster.clock.advance(INTERVAL_MS)
    assert cluster.leader() == 2


def test_a_long_jump_has_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ElectingCluster()
    cluster.create("t")
    times_ms: list[int] = []

    def elect(_: object, __: int) -> list[object]:
        times_ms.append(cluster.clock.now_ms())
        return []

    monkeypatch.setattr(Leadership, "preferred_elections", elect)
    cluster.controller.fence(1)
    cluster.clock.advance(1_000 * INTERVAL_MS)
    assert 2 <= len(times_ms) < 40


def test_a_cluster_elects_the_node_that_a_start_omitted(tmp_path: Path) -> None:
    wire = TestCluster(tmp_path, nodes=2)
    wire.cluster.metadata.create_topics([NewTopic(name="t", assignments=((0, (2, 1)),))])
    wire.restart(nodes=1)
    wire.restart(nodes=2)

    def leader() -> int:
        return wire.cluster.metadata.image.topics["t"].partitions[0].leader

    assert leader() == 1
    wire.clock.advance(INTERVAL_MS)
    assert leader() == 2
    wire.end()


def test_the_settings_are_those_of_the_node_that_acts_as_controller() -> None:
    cluster = ElectingCluster()
    cluster.config.configure_node(1, {"auto.leader.rebalance.enable": "false"})
    cluster.config.configure_node(2, {"leader.imbalance.check.interval.seconds": "10"})
    cluster.create("t")
    cluster.move_leaders()
    cluster.clock.advance(INTERVAL_MS)
    assert cluster.leader() == 2
    cluster.config.forget_node(1)
    cluster.config.configure_node(1, {"leader.imbalance.check.interval.seconds": "10"})
    cluster.move_leaders()
    cluster.clock.advance(10_000)
    assert cluster.leader() == 1


def test_unclean_elections_are_allowed_by_the_node_that_acts_as_controller() -> None:
    cluster = ElectingCluster()
    cluster.config.configure_node(1, {"unclean.leader.election.enable": "true"})
    cluster.create("t")
    cluster.lose_leader()
    cluster.clock.advance(INTERVAL_MS)
    assert cluster.leader() == 1
