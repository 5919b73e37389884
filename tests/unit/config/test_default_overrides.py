"""The default overrides are a configuration that Kafka would accept."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.default_overrides import (
    DEFAULTS_NAMES,
    IDENTITY,
    KAFKALITE_DEFAULTS,
    default_overrides,
)
from kafkalite.config.definitions import ConfigError, value_to_text
from kafkalite.config.keys import broker_keys


def test_every_override_differs_from_kafkas_default() -> None:
    same = [
        key
        for key, text in KAFKALITE_DEFAULTS.items()
        if value_to_text(broker_keys()[key].default) == text
    ]
    assert same == []


def test_the_overrides_are_valid_and_count_as_unset() -> None:
    config = BrokerConfig.from_text()
    assert config.static_text == IDENTITY
    assert config.default_text == KAFKALITE_DEFAULTS
    assert config.int("offsets.topic.replication.factor") == 1


@pytest.mark.parametrize(("node_count", "replication"), [(1, 1), (2, 2), (3, 3), (5, 3)])
def test_internal_topics_have_replicas_on_up_to_three_nodes(
    node_count: int, replication: int
) -> None:
    config = BrokerConfig.from_text(node_count=node_count)
    for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        assert config.int(f"{topic}.replication.factor") == replication
    assert default_overrides("kafka", node_count) == {}


def test_kafkas_defaults_can_be_selected() -> None:
    config = BrokerConfig.from_text(defaults="kafka")
    assert config.default_text == {}
    for key, definition in broker_keys().items():
        if key not in IDENTITY:
            assert config.get(key) == definition.default, key


def test_a_setting_has_precedence_over_both_defaults() -> None:
    for name in DEFAULTS_NAMES:
        config = BrokerConfig.from_text({"group.min.session.timeout.ms": "5"}, defaults=name)
        assert config.int("group.min.session.timeout.ms") == 5


@pytest.mark.parametrize("wrong", ["", "Kafka", "other"])
def test_an_unknown_name_is_rejected_with_the_known_names(wrong: str) -> None:
    with pytest.raises(ConfigError) as refused:
        default_overrides(wrong)
    assert refused.value.key == "defaults"
    assert str(refused.value).endswith("is not one of kafkalite, kafka")


@pytest.mark.parametrize(
    ("node_count", "replicas", "min_isr"), [(1, "1", "1"), (2, "2", "1"), (3, None, None)]
)
def test_replicas_of_internal_topics_depend_on_the_number_of_nodes(
    node_count: int, replicas: str | None, min_isr: str | None
) -> None:
    overrides = default_overrides("kafkalite", node_count)
    assert overrides.get("offsets.topic.replication.factor") == replicas
    for topic in ("transaction.state.log", "share.coordinator.state.topic"):
        assert overrides.get(f"{topic}.replication.factor") == replicas
        assert overrides.get(f"{topic}.min.isr") == min_isr
    assert overrides["group.initial.rebalance.delay.ms"] == "0"
    assert default_overrides("kafka", node_count) == {}
