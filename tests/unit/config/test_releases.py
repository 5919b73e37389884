"""The tables of releases are read as they are written; `tests/java_codec` judges what they say."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.definitions import ConfigError
from kafkalite.config.releases import Feature, presented, release_names
from kafkalite.protocol.versions import Versions


def test_each_release_builds_upon_the_one_before() -> None:
    tables = [presented(name).apis or {} for name in release_names()]
    assert [len(table) for table in tables] == [49, 49, 51, 55, 59, 61, 63, 63, 75, 77, 77]
    assert all(set(older) <= set(newer) for older, newer in pairwise(tables))


def test_versions_and_features_of_a_release_are_found_by_name() -> None:
    release = presented("4.0")
    assert release.apis is not None
    assert release.apis["EndTxn"] == Versions(0, 5)
    assert release.apis["ConsumerGroupHeartbeat"] == Versions(0, 1)
    assert "ShareFetch" not in release.apis
    assert release.features["transaction.version"] == Feature(0, 2, 2)
    assert "share.version" not in release.features


def test_without_a_name_the_newest_is_presented_uncut() -> None:
    assert presented(None).apis is None
    assert presented(None).features == presented("4.3").features


@pytest.mark.parametrize("wrong", ["", "2.8", "4.3.1", "5.0", "latest"])
def test_an_unknown_release_is_refused_in_one_line_that_names_the_known(wrong: str) -> None:
    with pytest.raises(ConfigError) as refused:
        presented(wrong)
    assert refused.value.key == "as-version"
    assert "\n" not in str(refused.value)
    assert all(name in str(refused.value) for name in release_names())


def test_settings_are_those_of_the_release_unless_set() -> None:
    key = "group.coordinator.rebalance.protocols"
    assert BrokerConfig.from_text(as_version="3.9").list(key) == ("classic",)
    assert BrokerConfig.from_text(as_version="4.0").list(key) == ("classic", "consumer")
    own = BrokerConfig.from_text({key: "classic,consumer"}, as_version="3.9")
    assert own.list(key) == ("classic", "consumer")
    fencing = "group.consumer.offset.commit.fencing"
    assert BrokerConfig.from_text(as_version="4.2").str(fencing) == "strict"
    assert BrokerConfig.from_text(as_version="4.3").str(fencing) == "assignment-epoch"
