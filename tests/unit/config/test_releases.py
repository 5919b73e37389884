"""The tables of releases are parsed correctly; `tests/java_codec` compares them with Kafka."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.definitions import ConfigError
from kafkalite.config.releases import Feature, emulated_release, release_names
from kafkalite.protocol.versions import Versions


def test_each_release_extends_the_previous_one() -> None:
    tables = [emulated_release(name).apis or {} for name in release_names()]
    assert [len(table) for table in tables] == [49, 49, 51, 55, 59, 61, 63, 63, 75, 77, 77, 79]
    assert all(set(older) <= set(newer) for older, newer in pairwise(tables))


def test_versions_and_features_of_a_release_are_found_by_name() -> None:
    release = emulated_release("4.0")
    assert release.apis is not None
    assert release.apis["EndTxn"] == Versions(0, 5)
    assert release.apis["ConsumerGroupHeartbeat"] == Versions(0, 1)
    assert "ShareFetch" not in release.apis
    assert release.features["transaction.version"] == Feature(0, 2, 2, 2)
    assert "share.version" not in release.features


def test_without_a_release_the_newest_one_is_emulated_completely() -> None:
    assert emulated_release(None).apis is None
    assert emulated_release(None).features == emulated_release("4.4").features


@pytest.mark.parametrize("wrong", ["", "2.8", "4.3.1", "5.0", "latest"])
def test_an_unknown_release_is_rejected_with_the_known_names(wrong: str) -> None:
    with pytest.raises(ConfigError) as refused:
        emulated_release(wrong)
    assert refused.value.key == "as-version"
    assert "\n" not in str(refused.value)
    assert all(name in str(refused.value) for name in release_names())


def test_unstable_versions_follow_the_stable_ones_and_become_stable_later() -> None:
    unstable = {name: emulated_release(name).unstable for name in release_names()}
    assert unstable["4.4"] == {"InitProducerId": 6}
    assert emulated_release(None).unstable == unstable["4.4"]
    assert unstable["4.1"]["OffsetCommit"] == 10
    assert [name for name in release_names() if not unstable[name]] == [
        "3.3", "3.4", "3.8",
    ]  # fmt: skip
    for name, versions in unstable.items():
        stable = emulated_release(name).apis or {}
        for api, version in versions.items():
            known = stable.get(api)
            assert version == (0 if known is None else known.highest + 1)


@pytest.mark.parametrize(
    ("name", "level", "release", "problem"),
    [
        ("share.version", "2", "4.3", "Kafka 4.3 has levels 0 to 1"),
        (
            "streams.version",
            "1",
            "4.1",
            "Kafka 4.1 has only level 0, and up to 1 with unstable.feature.versions.enable=true",
        ),
        (
            "group.version",
            "1",
            "3.9",
            (
                "Kafka 3.9 does not have this feature; its features are kraft.version, "
                "metadata.version, transaction.version"
            ),
        ),
        (
            "transaction.version",
            "0",
            "3.8",
            "Kafka 3.8 does not have this feature; its features are metadata.version",
        ),
    ],
)
def test_a_feature_level_that_the_release_does_not_have_is_refused(
    name: str, level: str, release: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.from_text({name: level}, as_version=release)
    assert str(refused.value) == f"Invalid value {level} for configuration {name}: {problem}"
    assert BrokerConfig.from_text({name: level}).get(name) == int(level)


def test_unstable_levels_can_be_set_if_they_are_enabled() -> None:
    enabled = {"unstable.feature.versions.enable": "true"}
    config = BrokerConfig.from_text({"streams.version": "1", **enabled}, as_version="4.1")
    assert config.get("streams.version") == 1
    assert config.release.features["streams.version"] == Feature(0, 1, 1, 1)
    config = BrokerConfig.from_text({"transaction.version": "2", **enabled}, as_version="3.9")
    assert config.get("transaction.version") == 2
    with pytest.raises(ConfigError, match=r"Kafka 4\.3 has levels 0 to 1$"):
        BrokerConfig.from_text({"share.version": "2", **enabled}, as_version="4.3")
    with pytest.raises(ConfigError, match=r"Kafka 3\.9 does not have this feature"):
        BrokerConfig.from_text({"group.version": "1", **enabled}, as_version="3.9")


def test_unstable_levels_are_those_of_new_clusters_since_3_9() -> None:
    name = "metadata.version"
    for release_name in release_names():
        release = emulated_release(release_name)
        unstable = release.with_unstable_features()
        for feature, levels in release.features.items():
            assert levels.highest <= levels.unstable == unstable.features[feature].highest
        has_old_rule = release_name in {"3.7", "3.8"}
        formatted = release if has_old_rule else unstable
        assert unstable.features[name].formatted == formatted.features[name].highest


def test_changes_of_records_are_those_of_the_release() -> None:
    changes = {name: emulated_release(name).changes_of_records for name in release_names()}
    assert emulated_release(None).changes_of_records == changes["4.4"]
    assert sorted(changes["3.3"]) == [1, 3, 5, 6, 7]
    # The change of 3.9's unstable level 22 was released with level 23.
    assert changes["3.9"] ^ changes["4.0"] == {1, 3, 5, 6, 22, 23}
    assert changes["4.4"] - changes["4.2"] == {30, 32, 33}


def test_settings_are_those_of_the_release_unless_set() -> None:
    key = "group.coordinator.rebalance.protocols"
    assert BrokerConfig.from_text(as_version="3.9").list(key) == ("classic",)
    assert BrokerConfig.from_text(as_version="4.0").list(key) == ("classic", "consumer")
    own = BrokerConfig.from_text({key: "classic,consumer"}, as_version="3.9")
    assert own.list(key) == ("classic", "consumer")
    fencing = "group.consumer.offset.commit.fencing"
    assert BrokerConfig.from_text(as_version="4.2").str(fencing) == "strict"
    assert BrokerConfig.from_text(as_version="4.3").str(fencing) == "assignment-epoch"
