"""The tables are complete: every key has documentation, every synonym a key."""

from __future__ import annotations

from kafkalite.config.definitions import KeyTable, UpdateMode, value_to_text
from kafkalite.config.keys import (
    TOPIC_SYNONYMS,
    broker_keys,
    broker_synonyms,
    dynamic_broker_keys,
    group_config_keys,
    group_synonym,
    old_topic_keys,
    topic_keys,
)
from kafkalite.config.rules import ADDED_BY_4_4
from kafkalite.config.tables import kafkalite
from kafkalite.config.tables.topic import OLD_SYNONYMS

KAFKALITE_KEYS = frozenset(KeyTable(kafkalite.KEYS))
"""Keys that Kafka does not have."""


def test_there_are_as_many_keys_as_in_kafka() -> None:
    """The numbers of keys in Kafka 4.3.1, including internal ones, and kafkalite's own."""
    added = ADDED_BY_4_4
    assert len(broker_keys().keys() - added) == 360 + len(KAFKALITE_KEYS)
    assert len(topic_keys().keys() - added) == 34
    # Kafka 3.9.1 has three more topic keys.
    assert old_topic_keys().keys() - topic_keys().keys() == OLD_SYNONYMS.keys()
    assert len(OLD_SYNONYMS) == 3
    assert len(group_config_keys().keys() - added) == 17
    public = [name for name, key in broker_keys().items() if not key.is_internal]
    assert len(set(public) - added) == 340 + len(KAFKALITE_KEYS)


def test_every_key_has_documentation() -> None:
    every = (broker_keys(), old_topic_keys(), group_config_keys(), dynamic_broker_keys())
    silent = [key.name for keys in every for key in keys.values() if len(key.documentation) < 10]
    assert silent == []


def test_every_default_is_valid_for_its_key() -> None:
    for keys in (broker_keys(), topic_keys(), group_config_keys()):
        for key in keys.values():
            text = value_to_text(key.default)
            # Some defaults mean "not set" and are not valid values.
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


def test_all_group_keys_except_five_have_a_broker_synonym() -> None:
    without_synonym = [name for name in group_config_keys() if group_synonym(name) is None]
    assert without_synonym == [
        "errors.deadletterqueue.copy.record.enable",
        "errors.deadletterqueue.topic.name",
        "share.auto.offset.reset",
        "share.isolation.level",
        "share.renew.acknowledge.enable",
    ]


def test_dynamic_keys_are_marked_in_the_table() -> None:
    modes = [key.mode for name, key in broker_keys().items() if name not in ADDED_BY_4_4]
    ours = sum(broker_keys()[name].mode is not UpdateMode.READ_ONLY for name in KAFKALITE_KEYS)
    assert modes.count(UpdateMode.CLUSTER_WIDE) + modes.count(UpdateMode.PER_BROKER) == 99 + ours
    # Kafka has 102: three rates exist as dynamic settings only.
    assert len(dynamic_broker_keys().keys() - ADDED_BY_4_4) == 102 + ours
