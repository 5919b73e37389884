"""A cluster agrees on its features when it is made, and keeps to them."""

from __future__ import annotations

from kafkalite.metadata.features import BOOTSTRAP_FEATURES, Features
from kafkalite.protocol.records.feature_level import FeatureLevelRecord
from tests.unit.metadata_world import MetadataWorld


def test_a_new_cluster_has_the_levels_of_its_release() -> None:
    world = MetadataWorld()
    assert world.image.features == BOOTSTRAP_FEATURES
    assert world.restart(1).image.features == BOOTSTRAP_FEATURES


def test_level_zero_gives_a_feature_up() -> None:
    features = Features()
    features.replay_feature_level(FeatureLevelRecord(name="x", feature_level=3))
    assert features.levels == {"x": 3}
    features.replay_feature_level(FeatureLevelRecord(name="x", feature_level=0))
    assert features.levels == {}
