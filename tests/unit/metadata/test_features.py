"""A cluster agrees on its features when it is made, and keeps to them until told otherwise."""

from __future__ import annotations

import pytest

from kafkalite.config.definitions import ConfigError
from kafkalite.metadata.features import TRANSACTION_VERSION
from kafkalite.protocol.records.feature_level import FeatureLevelRecord
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from tests.unit.metadata_world import MetadataWorld

NEWEST = {
    "metadata.version": 30,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
"""What Kafka 4.3 formats a new cluster with."""


def level_of(world: MetadataWorld) -> int | None:
    return world.image.features.get(TRANSACTION_VERSION)


def test_a_new_cluster_has_the_levels_of_its_release() -> None:
    world = MetadataWorld()
    assert world.image.features == NEWEST
    assert world.restart(1).image.features == NEWEST


@pytest.mark.parametrize("level", [1, 2])
def test_a_new_cluster_may_be_given_another_level(level: int) -> None:
    world = MetadataWorld(transaction_version=f"{level}")
    assert level_of(world) == level
    assert level_of(world.restart(1)) == level


def test_a_feature_at_level_zero_is_none_the_cluster_has_and_does_not_come_back() -> None:
    world = MetadataWorld(transaction_version="0")
    assert TRANSACTION_VERSION not in world.image.features
    assert TRANSACTION_VERSION not in world.restart(1).image.features


def test_a_cluster_that_is_there_is_set_to_another_level_by_one_record() -> None:
    first = MetadataWorld()
    before = first.image.version
    second = first.restart(1, transaction_version="1")
    assert level_of(second) == 1
    third = second.restart(1)
    assert level_of(third) == 1
    # Nodes register anew at each start, and that is all the third one had to write.
    assert second.image.version - before == third.image.version - second.image.version + 1
    assert level_of(third.restart(1, transaction_version="0")) is None


def test_a_log_from_before_a_feature_was_known_gets_its_level() -> None:
    log = MemoryCoordinatorLog()
    MetadataWorld(log=log)
    kept = MemoryCoordinatorLog()
    name = TRANSACTION_VERSION.encode()
    kept.append([entry for entry in log.read_all() if name not in (entry[1] or b"")], 0)
    assert level_of(MetadataWorld(log=kept)) == 2


def test_a_new_cluster_has_the_levels_of_the_release_it_presents() -> None:
    assert MetadataWorld(as_version="3.9").image.features == {"metadata.version": 21}
    assert MetadataWorld(as_version="4.0").image.features == {
        "metadata.version": 25,
        "group.version": 1,
        "transaction.version": 2,
    }


def test_a_level_that_is_set_outweighs_that_of_the_release() -> None:
    assert level_of(MetadataWorld(as_version="4.0", transaction_version="1")) == 1
    assert level_of(MetadataWorld(as_version="3.9", transaction_version="2")) == 2


def test_a_cluster_started_as_another_release_takes_its_levels() -> None:
    first = MetadataWorld()
    older = first.restart(1, as_version="3.9")
    assert older.image.features == {"metadata.version": 21}
    assert older.restart(1, as_version="3.9").image.features == {"metadata.version": 21}
    assert older.restart(1).image.features == NEWEST


def test_a_cluster_started_as_the_same_release_keeps_its_levels() -> None:
    first = MetadataWorld(transaction_version="1")
    assert level_of(first.restart(1, as_version="4.3")) == 1


@pytest.mark.parametrize("wrong", ["3", "-1", "new"])
def test_a_level_that_there_is_not_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"transaction\.version"):
        MetadataWorld(transaction_version=wrong)


def test_level_zero_gives_a_feature_up() -> None:
    features = MetadataWorld().controller._shard.features
    features.replay_feature_level(FeatureLevelRecord(name="x", feature_level=3))
    assert features.levels["x"] == 3
    features.replay_feature_level(FeatureLevelRecord(name="x", feature_level=0))
    assert "x" not in features.levels
