"""Keys of brokers in releases before Kafka 4.4."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import BrokerConfig, is_known_key
from kafkalite.config.definitions import ConfigError, ConfigType, UpdateMode
from kafkalite.config.keys import broker_keys, group_config_keys, old_topic_keys
from kafkalite.config.older_keys import (
    added_after,
    changed_keys,
    described_keys,
    release_number,
    removed_keys,
)
from kafkalite.config.releases import release_names
from kafkalite.config.tables import older
from kafkalite.config.tables.topic import OLD_SYNONYMS
from kafkalite.config.topic import topic_log_config


def test_added_keys_are_known_and_added_once() -> None:
    known = {*broker_keys(), *old_topic_keys(), *group_config_keys()}
    names = " ".join(older.ADDED.values()).split()
    assert set(names) <= known
    assert len(set(names)) == len(names)
    assert added_after("4.3") == frozenset()
    assert "transaction.partition.verification.enable" in added_after("3.5")
    assert "transaction.partition.verification.enable" not in added_after("3.6")


def test_removed_keys_are_those_of_their_releases() -> None:
    assert not removed_keys("4.1")
    assert list(removed_keys("4.0")) == ["group.share.max.groups"]
    assert len(removed_keys("3.9")) == 41
    assert "eligible.leader.replicas.enable" not in removed_keys("3.6")
    assert not removed_keys("3.9").keys() & broker_keys().keys()
    assert removed_keys("3.5")["inter.broker.protocol.version"].default == "3.5-IV2"
    for key in removed_keys("3.9").values():
        assert len(key.documentation) > 10
        assert key.default is None or key.type is not ConfigType.PASSWORD


def test_changed_keys_are_known() -> None:
    assert changed_keys("3.3").keys() <= broker_keys().keys()
    assert not changed_keys("4.2")
    described = described_keys("4.1", frozenset())
    assert described["log.dir"].type is ConfigType.STRING
    assert described["log.dir"].documentation == broker_keys()["log.dir"].documentation
    assert described["num.partitions"] is broker_keys()["num.partitions"]


@pytest.mark.parametrize("release", release_names())
def test_every_release_has_its_keys(release: str) -> None:
    config = BrokerConfig.from_text(as_version=release)
    absent = config.release.absent_settings
    assert not absent & config.described_keys.keys()
    assert release_number(release) >= (3, 3)


def test_keys_of_later_releases_have_no_effect() -> None:
    text = {"group.share.max.share.sessions": "x", "log.cleaner.threads": "2"}
    config = BrokerConfig.from_text(text, as_version="4.0")
    assert config.get("group.share.max.share.sessions") == 2000
    assert config.int("log.cleaner.threads") == 2
    assert config.static_text["group.share.max.share.sessions"] == "x"
    config.configure_node(1, text)
    assert config.of_node(1).int("group.share.max.share.sessions") == 2000
    hidden = {"group.consumer.migration.policy": "upgrade"}
    assert BrokerConfig.from_text(hidden, as_version="3.9").get(*hidden) == "upgrade"


@pytest.mark.parametrize(("release", "interval_ms"), [("3.3", 0), ("4.2", 0), ("4.3", 1000)])
def test_targets_of_groups_were_computed_at_once_before_4_3(release: str, interval_ms: int) -> None:
    config = BrokerConfig.from_text(as_version=release)
    for group_type in ("consumer", "share", "streams"):
        assert config.int(f"group.{group_type}.assignment.interval.ms") == interval_ms


def test_a_removed_key_is_known_in_its_release_only() -> None:
    key = "leader.imbalance.per.broker.percentage"
    assert is_known_key(key, "3.9")
    assert not is_known_key(key, "4.4")
    assert not is_known_key(key)
    with pytest.raises(ConfigError, match=r"^as-version '9' is not one of "):
        is_known_key(key, "9")


def test_a_removed_key_can_be_set_in_its_release_only() -> None:
    text = {"leader.imbalance.per.broker.percentage": "5"}
    assert BrokerConfig.from_text(text, as_version="3.9").get_if_set(next(iter(text))) == 5
    with pytest.raises(ConfigError, match=r"^Unknown configuration leader\.imbalance\.per"):
        BrokerConfig.from_text(text)
    with pytest.raises(ConfigError, match=r"Not a number of type INT$"):
        BrokerConfig.from_text(dict.fromkeys(text, "x"), as_version="3.9")


def test_down_conversion_is_that_of_the_broker_unless_the_topic_sets_it() -> None:
    key = "message.downconversion.enable"
    config = BrokerConfig.from_text({OLD_SYNONYMS[key]: "false"}, as_version="3.9")
    assert config.described_keys[OLD_SYNONYMS[key]].mode is UpdateMode.CLUSTER_WIDE
    assert not topic_log_config({}, config).message_downconversion_enable
    assert topic_log_config({key: "true"}, config).message_downconversion_enable
    plain = BrokerConfig.from_text(as_version="3.9")
    assert topic_log_config({}, plain).message_downconversion_enable
