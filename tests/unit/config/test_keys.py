"""The tables are whole: every key has its sentence, every synonym its key."""

from __future__ import annotations

from kafkalite.config.definitions import UpdateMode, value_to_text
from kafkalite.config.keys import (
    TOPIC_SYNONYMS,
    broker_keys,
    broker_synonyms,
    dynamic_broker_keys,
    group_config_keys,
    group_synonym,
    topic_keys,
)

OURS = (
    "group.consumer.member.id.validation",
    "group.consumer.offset.commit.fencing",
    "transaction.version",
)
"""What kafkalite_keys holds."""


def test_the_sets_are_as_large_as_those_of_kafka() -> None:
    """Kafka 4.3.1 defines so many keys, internal ones included; some are our own."""
    assert len(broker_keys()) == 360 + len(OURS)
    assert len(topic_keys()) == 34
    assert len(group_config_keys()) == 17
    assert sum(not key.is_internal for key in broker_keys().values()) == 340 + len(OURS)
    assert all(name in broker_keys() for name in OURS)


def test_every_key_says_what_it_is_for() -> None:
    every = (broker_keys(), topic_keys(), group_config_keys(), dynamic_broker_keys())
    silent = [key.name for keys in every for key in keys.values() if len(key.documentation) < 10]
    assert silent == []


def test_every_default_is_one_its_own_key_takes() -> None:
    for keys in (broker_keys(), topic_keys(), group_config_keys()):
        for key in keys.values():
            text = value_to_text(key.default)
            # Some defaults stand for "not set", and nobody could set them.
            if text:
                assert key.parse(text) == key.default


def test_topic_synonyms_are_broker_keys_of_the_same_type_or_another_unit() -> None:
    for name, family in TOPIC_SYNONYMS.items():
        for synonym, factor in family:
            same = topic_keys()[name].type is broker_keys()[synonym].type
            assert same or factor > 1, (name, synonym)


def test_one_setting_in_several_units_is_one_family() -> None:
    family = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    assert all(broker_synonyms(name) == family for name in family)
    assert broker_synonyms("num.partitions") == ("num.partitions",)


def test_group_keys_follow_broker_keys_but_for_three() -> None:
    alone = [name for name in group_config_keys() if group_synonym(name) is None]
    assert alone == [
        "share.auto.offset.reset",
        "share.isolation.level",
        "share.renew.acknowledge.enable",
    ]


def test_what_a_running_broker_takes_is_marked_in_the_table() -> None:
    modes = [key.mode for key in broker_keys().values()]
    ours = sum(broker_keys()[name].mode is not UpdateMode.READ_ONLY for name in OURS)
    assert modes.count(UpdateMode.CLUSTER_WIDE) + modes.count(UpdateMode.PER_BROKER) == 99 + ours
    # Kafka counts 102: three rates exist as dynamic settings alone.
    assert len(dynamic_broker_keys()) == 102 + ours
