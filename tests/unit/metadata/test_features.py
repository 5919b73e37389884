"""Feature levels: those of a new cluster, and changes at a start and by request."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.config.definitions import ConfigError
from kafkalite.metadata.configs import AlterOperation, ConfigChange
from kafkalite.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
    FeatureUpdate,
    UnsupportedLevelError,
    is_disabled,
)
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.protocol._generated.records.feature_level import FeatureLevelRecord
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from tests.cluster.metadata import MetadataCluster

NEWEST = {
    "metadata.version": 33,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "kraft.version": 1,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
}
"""The level with which Kafka 4.4 formats a new cluster."""


OF_KAFKA_3_9 = {"metadata.version": 21, "kraft.version": 1}
UNSTABLE: dict[str, Any] = {"unstable.feature.versions.enable": "true"}


def level_of(cluster: MetadataCluster) -> int | None:
    return cluster.image.features.get(TRANSACTION_VERSION)


def test_a_new_cluster_has_the_levels_of_its_release() -> None:
    cluster = MetadataCluster()
    assert cluster.image.features == NEWEST
    assert cluster.restart(1).image.features == NEWEST


@pytest.mark.parametrize("level", [1, 2])
def test_new_cluster_has_the_configured_level(level: int) -> None:
    cluster = MetadataCluster(transaction_version=f"{level}")
    assert level_of(cluster) == level
    assert level_of(cluster.restart(1)) == level


@pytest.mark.parametrize(
    "name", [name for name in NEWEST if name not in {METADATA_VERSION, KRAFT_VERSION}]
)
def test_each_feature_can_start_at_level_zero(name: str) -> None:
    config: dict[str, Any] = {name: "0"}
    cluster = MetadataCluster(**config)
    assert cluster.image.features == {key: level for key, level in NEWEST.items() if key != name}


def test_feature_at_level_zero_stays_disabled() -> None:
    cluster = MetadataCluster(transaction_version="0")
    assert TRANSACTION_VERSION not in cluster.image.features
    assert TRANSACTION_VERSION not in cluster.restart(1).image.features


def test_existing_cluster_changes_a_level_by_one_record() -> None:
    first = MetadataCluster()
    before = first.image.version
    second = first.restart(1, transaction_version="1")
    assert level_of(second) == 1
    third = second.restart(1)
    assert level_of(third) == 1
    # Nodes register again at each start; the third start had no other records.
    assert second.image.version - before == third.image.version - second.image.version + 1
    assert level_of(third.restart(1, transaction_version="0")) is None


@pytest.mark.parametrize("release", ["4.3", "4.4"])
def test_log_without_a_feature_gets_the_level_of_its_release(release: str) -> None:
    log = MemoryCoordinatorLog()
    MetadataCluster(log=log, as_version=release)
    log_without_feature = MemoryCoordinatorLog()
    name = TRANSACTION_VERSION.encode()
    log_without_feature.append(
        [entry for entry in log.read_all() if name not in (entry[1] or b"")], 0
    )
    assert level_of(MetadataCluster(log=log_without_feature)) == 2


def test_a_new_cluster_has_the_levels_of_the_release_it_presents() -> None:
    assert MetadataCluster(as_version="3.8").image.features == {"metadata.version": 20}
    assert MetadataCluster(as_version="3.9").image.features == OF_KAFKA_3_9
    assert MetadataCluster(as_version="4.0").image.features == {
        "metadata.version": 25,
        "group.version": 1,
        "kraft.version": 1,
        "transaction.version": 2,
    }


def test_configured_level_precedes_the_release() -> None:
    assert level_of(MetadataCluster(as_version="4.0", transaction_version="1")) == 1
    assert level_of(MetadataCluster(as_version="3.9", transaction_version="1", **UNSTABLE)) == 1


def records_of(cluster: MetadataCluster) -> list[tuple[bytes | None, bytes | None]]:
    return [(key, value) for key, value, *_ in cluster.log.read_all()]


def test_a_release_refuses_levels_that_it_does_not_support() -> None:
    first = MetadataCluster()
    before = records_of(first)
    for release, levels in (
        ("4.1", "has levels 7 to 27, and up to 29 with unstable.feature.versions.enable=true"),
        ("4.3", "has levels 7 to 30, and up to 31 with unstable.feature.versions.enable=true"),
    ):
        with pytest.raises(UnsupportedLevelError) as refused:
            first.restart(1, as_version=release)
        assert str(refused.value) == (
            f"metadata.version is at level 33, but Kafka {release} {levels}: start with a release "
            "that supports this level, or with another directory"
        )
    assert records_of(first) == before
    assert first.restart(1).image.features == NEWEST


def test_a_setting_does_not_replace_a_level_that_the_release_does_not_support() -> None:
    first = MetadataCluster(as_version="4.3")
    second = first.restart(1, share_version="2")
    with pytest.raises(
        UnsupportedLevelError, match=r"^share\.version is at level 2, but Kafka 4\.3"
    ):
        second.restart(1, as_version="4.3", share_version="1")
    third = second.restart(1, share_version="1")
    assert third.restart(1, as_version="4.3").image.features["share.version"] == 1


def test_a_feature_that_the_release_does_not_have_must_be_at_level_zero() -> None:
    first = MetadataCluster(as_version="3.9").restart(1, group_version="1")
    text = r"^group\.version is at level 1, but Kafka 3\.9 does not have this feature; its features"
    with pytest.raises(UnsupportedLevelError, match=text):
        first.restart(1, as_version="3.9")
    second = first.restart(1, group_version="0")
    assert second.restart(1, as_version="3.9").image.features == OF_KAFKA_3_9


def test_unstable_levels_need_the_setting_at_each_start() -> None:
    first = MetadataCluster(as_version="4.1", **UNSTABLE)
    assert first.image.features == NEWEST | {METADATA_VERSION: 29, SHARE_VERSION: 1}
    with pytest.raises(UnsupportedLevelError, match=r"versions\.enable=true: start with a release"):
        first.restart(1, as_version="4.1")
    assert first.restart(1, as_version="4.1", **UNSTABLE).image.features == first.image.features


def test_unstable_levels_are_updated_if_they_are_enabled() -> None:
    stable = MetadataCluster(as_version="4.1")
    refused = refusal(stable, FeatureUpdate(STREAMS_VERSION, 1))
    assert refused.endswith("Local controller 1 does not support this feature.")
    cluster = stable.restart(1, as_version="4.1", **UNSTABLE)
    assert cluster.image.features == stable.image.features
    cluster.controller.update_features(
        [FeatureUpdate(STREAMS_VERSION, 1), FeatureUpdate(METADATA_VERSION, 29)]
    )
    assert cluster.image.features[STREAMS_VERSION] == 1
    assert refusal(cluster, FeatureUpdate(METADATA_VERSION, 30)).endswith(
        "Local controller 1 only supports versions 7-29"
    )
    cluster.controller.update_features([FeatureUpdate(METADATA_VERSION, 27, 2)])
    text = refusal(cluster, FeatureUpdate(METADATA_VERSION, 22, 2))
    assert text.startswith("Invalid metadata.version 22. Refusing to perform")


@pytest.mark.parametrize(
    ("release", "end"),
    [("3.6", "proceed."), ("3.7", "information."), ("4.0", "information.")],
)
def test_older_releases_refuse_a_downgrade_with_their_text(release: str, end: str) -> None:
    cluster = MetadataCluster(as_version=release)
    update = FeatureUpdate(METADATA_VERSION, 7, 2)
    if release == "4.0":
        message = refusal(cluster, update)
    else:
        errors = cluster.controller.update_features([update])
        message = errors[METADATA_VERSION].message or ""
    assert message.startswith("Invalid metadata.version 7. Refusing to perform the requested")
    assert message.endswith(end)


def test_before_kafka_4_0_each_allowed_level_changes() -> None:
    cluster = MetadataCluster(as_version="3.9", **UNSTABLE)
    assert cluster.image.features == OF_KAFKA_3_9 | {METADATA_VERSION: 23, TRANSACTION_VERSION: 2}
    updates = (
        FeatureUpdate(METADATA_VERSION, 21, 2),
        FeatureUpdate(TRANSACTION_VERSION, 1, 2),
        FeatureUpdate(GROUP_VERSION, 1),
    )
    errors = cluster.controller.update_features(updates)
    assert sorted(errors) == [GROUP_VERSION, METADATA_VERSION]
    assert errors[GROUP_VERSION].message == (
        "Invalid update version 1 for feature group.version. Local controller 1 does not support "
        "this feature."
    )
    assert cluster.image.features[TRANSACTION_VERSION] == 1
    assert cluster.controller.update_features([FeatureUpdate(METADATA_VERSION, 22, 2)]) == {}


@pytest.mark.parametrize("release", ["3.9", "4.0"])
def test_before_kafka_4_1_updates_of_the_quorum_have_no_effect(release: str) -> None:
    cluster = MetadataCluster(as_version=release)
    before = cluster.image
    for level, upgrade_type in ((0, 1), (0, 2), (1, 1)):
        update = FeatureUpdate(KRAFT_VERSION, level, upgrade_type)
        assert cluster.controller.update_features([update]) == {}
    assert cluster.image.features == before.features


def test_eligible_replicas_need_a_metadata_version() -> None:
    cluster = MetadataCluster(as_version="3.9").restart(1)
    assert refusal(cluster, FeatureUpdate(ELIGIBLE_LEADER_REPLICAS, 1)) == (
        "Invalid update version 1 for feature eligible.leader.replicas.version. "
        "eligible.leader.replicas.version could not be set to 1 because it depends on "
        "metadata.version level 23"
    )
    cluster.controller.update_features(
        [FeatureUpdate(ELIGIBLE_LEADER_REPLICAS, 1), FeatureUpdate(METADATA_VERSION, 23)]
    )
    assert cluster.image.features[ELIGIBLE_LEADER_REPLICAS] == 1


def test_a_newer_release_keeps_the_levels_of_the_cluster() -> None:
    levels = NEWEST | {METADATA_VERSION: 30, "share.version": 1}
    first = MetadataCluster(as_version="4.3")
    second = first.restart(1)
    assert second.image.features == levels
    third = second.restart(1)
    assert third.image.features == levels
    third.controller.update_features(
        [FeatureUpdate(METADATA_VERSION, 33), FeatureUpdate("share.version", 2)]
    )
    assert third.restart(1).image.features == NEWEST


def test_a_newer_release_does_not_enable_new_features() -> None:
    second = MetadataCluster(as_version="3.9").restart(1)
    assert second.image.features == OF_KAFKA_3_9
    second.controller.update_features([FeatureUpdate(METADATA_VERSION, 33)])
    third = second.restart(1)
    assert third.image.features == OF_KAFKA_3_9 | {METADATA_VERSION: 33}
    updates = [
        FeatureUpdate(name, level) for name, level in NEWEST.items() if name != METADATA_VERSION
    ]
    third.controller.update_features(updates)
    assert third.restart(1).image.features == NEWEST


def test_a_cluster_started_as_the_same_release_keeps_its_levels() -> None:
    first = MetadataCluster(transaction_version="1")
    assert level_of(first.restart(1, as_version="4.4")) == 1


@pytest.mark.parametrize("wrong", ["3", "-1", "new"])
def test_unknown_level_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"transaction\.version"):
        MetadataCluster(transaction_version=wrong)


def test_level_zero_disables_a_feature() -> None:
    features = MetadataCluster().controller._shard.features
    features.replay_feature_level(FeatureLevelRecord(name="x", feature_level=3))
    assert features.levels["x"] == 3
    features.replay_feature_level(FeatureLevelRecord(name="x", feature_level=0))
    assert "x" not in features.levels


PREFIX = "The update failed for all features since the following feature had an error: "


def refusal(cluster: MetadataCluster, *updates: FeatureUpdate) -> str:
    """Return the text of refused updates after its prefix."""
    before = cluster.image
    with pytest.raises(KafkaError) as caught:
        cluster.controller.update_features(updates)
    assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert cluster.image is before
    assert caught.value.message is not None
    return caught.value.message.removeprefix(PREFIX)


@pytest.mark.parametrize(
    ("update", "text"),
    [
        (FeatureUpdate("x", 1), "Local controller 1 does not support this feature."),
        (FeatureUpdate("x", 0, 0), "The controller does not support the given upgrade type."),
        (FeatureUpdate("x", 0, 4), "The controller does not support the given upgrade type."),
        (FeatureUpdate(GROUP_VERSION, -1, 2), "A feature version cannot be less than 0."),
        (FeatureUpdate(GROUP_VERSION, 2), "Local controller 1 only supports versions 0-1"),
        (
            FeatureUpdate(METADATA_VERSION, 6, 3),
            "Local controller 1 only supports versions 7-33",
        ),
        (
            FeatureUpdate(GROUP_VERSION, 0),
            (
                "Can't downgrade the version of this feature without setting the upgrade type to "
                "either safe or unsafe downgrade."
            ),
        ),
    ],
)
def test_update_is_refused_with_the_text_of_kafka(update: FeatureUpdate, text: str) -> None:
    assert refusal(MetadataCluster(), update) == (
        f"Invalid update version {update.level} for feature {update.name}. {text}"
    )


def test_the_quorum_is_not_downgraded() -> None:
    cluster = MetadataCluster()
    cluster.controller.update_features([FeatureUpdate(KRAFT_VERSION, 1, 2)])
    assert cluster.image.features == NEWEST
    text = "Invalid update version 0 for feature kraft.version. Can't downgrade the version"
    assert refusal(cluster, FeatureUpdate(KRAFT_VERSION, 0, 2)) == f"{text} of this feature."
    (error,) = (
        MetadataCluster(as_version="3.8")
        .controller.update_features([FeatureUpdate(KRAFT_VERSION, 1)])
        .values()
    )
    assert str(error.message).endswith("Local controller 1 does not support this feature.")


def test_quorum_with_fixed_voters_has_level_zero_until_it_is_upgraded() -> None:
    config: dict[str, Any] = {"controller.quorum.voters": "1@localhost:9093"}
    cluster = MetadataCluster(**config)
    assert KRAFT_VERSION not in cluster.image.features
    cluster.controller.update_features([FeatureUpdate(KRAFT_VERSION, 0, 2)])
    assert KRAFT_VERSION not in cluster.restart(1).image.features
    text = refusal(cluster, FeatureUpdate(KRAFT_VERSION, 1, 3))
    assert text.endswith("Can't downgrade to a newer version.")
    cluster.controller.update_features([FeatureUpdate(KRAFT_VERSION, 1)])
    assert cluster.restart(1, **config).image.features == NEWEST


def test_a_downgrade_to_a_newer_level_is_refused() -> None:
    cluster = MetadataCluster(transaction_version="1")
    text = "Invalid update version 2 for feature transaction.version. Can't downgrade to a newer"
    assert refusal(cluster, FeatureUpdate(TRANSACTION_VERSION, 2, 2)).startswith(text)


@pytest.mark.parametrize(
    ("upgrade_type", "reason"),
    [
        (2, "Refusing to perform the requested downgrade because it might delete metadata"),
        (3, "Unsafe metadata downgrade is not supported in this version."),
    ],
)
def test_metadata_is_not_downgraded_if_records_could_be_lost(
    upgrade_type: int, reason: str
) -> None:
    text = refusal(MetadataCluster(), FeatureUpdate(METADATA_VERSION, 32, upgrade_type))
    assert text.startswith(f"Unsupported metadata.version downgrade from 33 to 32. {reason}")


@pytest.mark.parametrize(
    ("release", "from_level", "level"),
    [("4.3", 30, 29), ("4.4", 33, 31), ("4.4", 33, 30), ("4.4", 33, 29)],
)
def test_metadata_of_a_release_is_not_downgraded(release: str, from_level: int, level: int) -> None:
    cluster = MetadataCluster(as_version=release)
    text = refusal(cluster, FeatureUpdate(METADATA_VERSION, level, 2))
    assert text.startswith(
        f"Unsupported metadata.version downgrade from {from_level} to {level}. Refusing"
    )


def test_features_need_a_metadata_version() -> None:
    updates = FeatureUpdate(METADATA_VERSION, 6, 2), FeatureUpdate(GROUP_VERSION, 1)
    assert refusal(MetadataCluster(), *updates) == (
        "Invalid update version 1 for feature group.version. group.version could not be set to 1 "
        "because it depends on metadata.version=7 (3.3-IV3)"
    )


def test_levels_change_together_and_stay_after_a_restart() -> None:
    cluster = MetadataCluster()
    cluster.controller.update_features(
        [FeatureUpdate(GROUP_VERSION, 0, 2), FeatureUpdate(SHARE_VERSION, 0, 3)]
    )
    levels = {k: v for k, v in NEWEST.items() if k not in {GROUP_VERSION, SHARE_VERSION}}
    assert cluster.image.features == levels
    assert len(cluster.changes) == 2
    restarted = cluster.restart(1)
    assert restarted.image.features == levels
    restarted.controller.update_features([FeatureUpdate(GROUP_VERSION, 1)])
    assert restarted.image.features == levels | {GROUP_VERSION: 1}


def test_the_last_update_of_a_feature_applies() -> None:
    cluster = MetadataCluster()
    cluster.controller.update_features(
        [FeatureUpdate(GROUP_VERSION, 9), FeatureUpdate(GROUP_VERSION, 0, 2)]
    )
    assert GROUP_VERSION not in cluster.image.features


def test_an_earlier_release_keeps_levels_that_it_supports() -> None:
    first = MetadataCluster(as_version="4.2")
    lowered = ((METADATA_VERSION, 25), (SHARE_VERSION, 0), (STREAMS_VERSION, 0))
    first.controller.update_features([FeatureUpdate(name, level, 2) for name, level in lowered])
    levels = first.image.features
    second = first.restart(1, as_version="4.0")
    assert second.image.features == levels
    assert second.restart(1).image.features == levels


def test_enabled_eligible_replicas_have_one_minimum_of_in_sync_replicas() -> None:
    cluster = MetadataCluster(nodes=(1, 2))
    name = "min.insync.replicas"
    every, one = (ConfigResource(ResourceType.BROKER, each) for each in ("", "2"))
    cluster.controller.update_features([FeatureUpdate(ELIGIBLE_LEADER_REPLICAS, 0, 2)])
    changes = {
        every: [ConfigChange(name, AlterOperation.DELETE, None)],
        one: [ConfigChange(name, AlterOperation.SET, "2")],
    }
    assert cluster.controller.alter_configs(changes) == {every: None, one: None}
    cluster.controller.update_features([FeatureUpdate(ELIGIBLE_LEADER_REPLICAS, 1)])
    assert cluster.image.configs[every] == {name: "1"}
    assert one not in cluster.image.configs
    refused = cluster.controller.alter_configs(changes)
    assert [error is not None for error in refused.values()] == [True, True]


def test_refused_eligible_replicas_change_no_settings() -> None:
    cluster = MetadataCluster(nodes=(1, 2), as_version="3.9")
    one = ConfigResource(ResourceType.BROKER, "2")
    change = ConfigChange("min.insync.replicas", AlterOperation.SET, "2")
    assert cluster.controller.alter_configs({one: [change]}) == {one: None}
    before = cluster.image
    errors = cluster.controller.update_features([FeatureUpdate(ELIGIBLE_LEADER_REPLICAS, 1)])
    assert errors.keys() == {ELIGIBLE_LEADER_REPLICAS}
    assert cluster.image is before


def test_a_feature_of_the_release_at_level_zero_is_disabled() -> None:
    release = MetadataCluster().config.release
    assert is_disabled(GROUP_VERSION, release, {})
    assert not is_disabled(GROUP_VERSION, release, {GROUP_VERSION: 1})
    assert not is_disabled(GROUP_VERSION, MetadataCluster(as_version="3.9").config.release, {})
