"""The preset is a configuration that Kafka itself would take."""

from __future__ import annotations

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.definitions import value_to_text
from kafkalite.config.keys import broker_keys
from kafkalite.config.preset import PRESET


def test_every_preset_key_differs_from_its_default() -> None:
    same = [
        key for key, text in PRESET.items() if value_to_text(broker_keys()[key].default) == text
    ]
    assert same == []


def test_the_preset_alone_is_valid() -> None:
    assert BrokerConfig.from_text().static_text == PRESET
