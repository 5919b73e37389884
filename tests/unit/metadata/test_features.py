"""Feature levels: those of a new cluster, and changes at a start."""

from __future__ import annotations

import pytest

from kafkalite.config.definitions import ConfigError
from kafkalite.metadata.features import TRANSACTION_VERSION
from kafkalite.protocol._generated.records.feature_level import FeatureLevelRecord
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
"""The level with which Kafka 4.3 formats a new cluster."""


def level_of(world: MetadataWorld) -> int | None:
    return world.image.features.get(TRANSACTION_VERSION)


def test_a_new_cluster_has_the_levels_of_its_release() -> None:
    world = MetadataWorld()
    assert world.image.features == NEWEST
    assert world.restart(1).image.features == NEWEST


@pytest.mark.parametrize("level", [1, 2])
def test_new_cluster_has_the_configured_level(level: int) -> None:
    world = MetadataWorld(transaction_version=f"{level}")
    assert level_of(world) == level
    assert level_of(world.restart(1)) == level


def test_feature_at_level_zero_stays_disabled() -> None:
    world = MetadataWorld(transaction_version="0")
    assert TRANSACTION_VERSION not in world.image.features
    assert TRANSACTION_VERSION not in world.restart(1).image.features


def test_existing_cluster_changes_a_level_by_one_record() -> None:
    first = MetadataWorld()
    before = first.image.version
    second = first.restart(1, transaction_version="1")
    assert level_of(second) == 1
    third = second.restart(1)
    assert level_of(third) == 1
    # Nodes register again at each start; the third start had no other records.
    assert second.image.version - before == third.image.version - second.image.version + 1
    assert level_of(third.restart(1, transaction_version="0")) is None


def test_log_without_a_feature_gets_its_level() -> None:
    log = MemoryCoordinatorLog()
    MetadataWorld(log=log)
    log_without_feature = MemoryCoordinatorLog()
    name = TRANSACTION_VERSION.encode()
    log_without_feature.append(
        [entry for entry in log.read_all() if name not in (entry[1] or b"")], 0
    )
    assert level_of(MetadataWorld(log=log_without_feature)) == 2


def test_a_new_cluster_has_the_levels_of_the_release_it_presents() -> None:
    assert MetadataWorld(as_version="3.9").image.features == {"metadata.version": 21}
    assert MetadataWorld(as_version="4.0").image.features == {
        "metadata.version": 25,
        "group.version": 1,
        "transaction.version": 2,
    }


def test_configured_level_precedes_the_release() -> None:
    assert level_of(MetadataWorld(as_version="4.0", transaction_version="1")) == 1
    assert level_of(MetadataWorld(as_version="3.9", transaction_version="2")) == 2


def test_cluster_started_as_another_release_gets_its_levels() -> None:
    first = MetadataWorld()
    older = first.restart(1, as_version="3.9")
    assert older.image.features == {"metadata.version": 21}
    assert older.restart(1, as_version="3.9").image.features == {"metadata.version": 21}
    assert older.restart(1).image.features == NEWEST


def test_a_cluster_started_as_the_same_release_keeps_its_levels() -> None:
    first = MetadataWorld(transaction_version="1")
    assert level_of(first.restart(1, as_version="4.3")) == 1


@pytest.mark.parametrize("wrong", ["3", "-1", "new"])
def test_unknown_level_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"transaction\.version"):
        MetadataWorld(transaction_version=wrong)


def test_level_zero_disables_a_feature() -> None:
    features = MetadataWorld().controller._shard.features
    features.replay_feature_level(FeatureLevelRecord(name="x", feature_level=3))
    assert features.levels["x"] == 3
    features.replay_feature_level(FeatureLevelRecord(name="x", feature_level=0))
    assert "x" not in features.levels
