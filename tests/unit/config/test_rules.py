"""Rules and settings that only later releases have."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.definitions import ConfigError
from kafkalite.config.keys import broker_keys, group_config_keys, topic_keys
from kafkalite.config.releases import emulated_release, release_names
from kafkalite.config.rules import ADDED_BY_4_4, Rules, absent_settings, rules_of

SINCE = {
    "has_client_metrics": "3.7",
    "describes_unset_client_metrics": "4.1",
    "describes_synonyms_of_groups": "4.3",
    "omits_advice_for_refused_downgrade": "3.7",
    "updates_features_together": "4.0",
    "reads_old_offset_fetches": "4.0",
    "reports_group_errors_by_partition": "4.1",
    "updates_kraft_version": "4.1",
    "names_levels_of_refused_downgrade": "4.2",
    "names_unknown_lists": "4.3",
    "prints_sets_of_java": "4.3",
}
"""Rule → the release that introduced it."""


def test_kafka_4_4_has_all_rules_and_earlier_releases_those_that_they_introduced() -> None:
    assert rules_of("4.4") == Rules()
    for index, name in enumerate(release_names()):
        rules = rules_of(name)
        assert emulated_release(name).rules == rules
        if name != "4.4":
            assert {rule for rule, applies in rules._asdict().items() if applies} == {
                rule for rule, since in SINCE.items() if release_names().index(since) <= index
            }
    assert emulated_release(None).rules == Rules()


def test_settings_of_kafka_4_4_are_unknown_before() -> None:
    known = {*broker_keys(), *topic_keys(), *group_config_keys()}
    assert absent_settings("4.4") == frozenset()
    assert absent_settings("4.3") == ADDED_BY_4_4
    assert absent_settings("3.3") > absent_settings("4.0") > ADDED_BY_4_4
    for name in ADDED_BY_4_4 & broker_keys().keys():
        with pytest.raises(ConfigError, match=r"Kafka 4\.3 does not have the setting"):
            BrokerConfig.from_text({name: "1"}, as_version="4.3")
    older, newer = (BrokerConfig.from_text(as_version=name) for name in ("4.3", "4.4"))
    assert newer.topic_keys.keys() - older.topic_keys.keys() == ADDED_BY_4_4 & topic_keys().keys()
    assert known & ADDED_BY_4_4
