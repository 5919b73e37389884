"""Settings that Kafka 4.0 removed, and settings that it added, as of Kafka 3.9."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.alter_configs import AlterConfigsRequest
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from tests.conformance.setup import create_topic

if TYPE_CHECKING:
    from tests.conformance.world import World

_TOPIC, _BROKER, _GROUP = 2, 4, 32
_MESSAGE_FORMAT_KEYS = (
    "message.downconversion.enable",
    "message.format.version",
    "message.timestamp.difference.max.ms",
)
"""Settings of topics that Kafka 4.0 removed."""


def _alter(world: World, resource_type: int, name: str, key: str, value: str) -> None:
    row = AlterConfigsRequest.AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[AlterConfigsRequest.AlterableConfig(name=key, value=value)],
    )
    world.ask(AlterConfigsRequest(resources=[row]), 2)
    incremental = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[IncrementalAlterConfigsRequest.AlterableConfig(name=key, value=value)],
    )
    world.ask(IncrementalAlterConfigsRequest(resources=[incremental]), 1)


def _described(resource_type: int, name: str, *keys: str) -> DescribeConfigsRequest:
    row = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=list(keys) or None
    )
    return DescribeConfigsRequest(resources=[row], include_synonyms=True)


def settings_of_3_9_are_set_and_described(world: World) -> None:
    """Set and describe settings that only 3.9 has, and settings that only 4.0 has."""
    create_topic(world, world.name)
    for version in ("2.8", "0.10.0", "3.9.1", "4.0-IV0", "4.0", "x", ""):
        _alter(world, _TOPIC, world.name, "message.format.version", version)
    for key, value in zip(_MESSAGE_FORMAT_KEYS, ("false", "2.8", "5"), strict=True):
        _alter(world, _TOPIC, world.name, key, value)
    world.call_until(
        _described(_TOPIC, world.name, *_MESSAGE_FORMAT_KEYS),
        4,
        lambda lines: lines.results[0].configs[-1].value == "5",
    )
    for key in ("consumer.session.timeout.ms", "share.session.timeout.ms", "no.such.key"):
        _alter(world, _GROUP, world.name, key, "50000")
    world.ask(_described(_GROUP, world.name), 4)
    answer = world.probe(_described(_BROKER, "1", "advertised.listeners"), 4)
    (listeners,) = answer.results[0].configs
    world.record("source of advertised.listeners", listeners.config_source)


SCENARIOS = (settings_of_3_9_are_set_and_described,)
