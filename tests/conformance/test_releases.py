"""A broker that presents itself as a release has the ApiVersions response of that release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.config.releases import DEFAULT
from kafkalite.protocol._generated.messages.alter_configs import AlterConfigsRequest
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.testing import Broker
from tests.conformance.advertised import ApiVersions, api_versions
from tests.conformance.compare import differences
from tests.conformance.setup import create_topic
from tests.conformance.world import Entry, World
from tests.oracle.real_kafka import RealKafka
from tests.oracle.releases import LATEST_PATCH
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.oracle


def different_rows(real: ApiVersions, emulated: ApiVersions) -> set[str]:
    """Return the APIs of kafkalite and the features that differ."""
    rows = {f"API {ApiKey(key).name}" for key, versions in emulated.apis.items()
            if real.apis.get(key) != versions}  # fmt: skip
    for one, other in (
        (real.supported, emulated.supported),
        (real.finalized, emulated.finalized),
    ):
        rows |= {f"feature {name}" for name, _ in one.items() ^ other.items()}
    return rows


def compare(real_port: int, release: str, versions: Sequence[int] = (3, 4)) -> None:
    with Broker(as_version=release) as broker:
        for version in versions:
            real = api_versions(real_port, version)
            emulated = api_versions(int(broker.bootstrap_servers.rpartition(":")[2]), version)
            assert not different_rows(real, emulated)


def test_the_default_release_is_presented_like_kafka(real_kafka: RealKafka) -> None:
    compare(real_kafka.port, DEFAULT, (3, 4, 5))


@pytest.mark.endurance
def test_an_older_release_is_presented_like_kafka(tmp_path: Path) -> None:
    with required():
        kafka = RealKafka(tmp_path, release=LATEST_PATCH["4.2"])
        kafka.start()
    try:
        compare(kafka.port, "4.2")
    finally:
        kafka.kill()


_TOPIC, _BROKER, _GROUP = 2, 4, 32
_MESSAGE_FORMAT_KEYS = (
    "message.downconversion.enable",
    "message.format.version",
    "message.timestamp.difference.max.ms",
)
"""Settings of topics that Kafka 4.0 removed."""
_SHARE_DEFAULTS = {
    "group.share.heartbeat.interval.ms": "5000",
    "group.share.min.heartbeat.interval.ms": "5000",
    "group.share.min.session.timeout.ms": "45000",
    "group.share.min.record.lock.duration.ms": "15000",
}
"""Values for Kafka 3.9, which refuses kafkalite's own defaults of these settings."""


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


def _play_settings(port: int) -> list[Entry]:
    """Set and describe settings that only 3.9 has, and settings that only 4.0 has."""
    world = World(port, "settings-of-3-9")
    try:
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
        return world.transcript
    finally:
        world.close()


@pytest.mark.endurance
def test_settings_removed_in_4_0_are_those_of_3_9(tmp_path: Path) -> None:
    with required():
        kafka = RealKafka(tmp_path, _SHARE_DEFAULTS, release=LATEST_PATCH["3.9"])
        kafka.start()
    try:
        real = _play_settings(kafka.port)
    finally:
        kafka.kill()
    with Broker(as_version="3.9") as broker:
        emulated = _play_settings(int(broker.bootstrap_servers.rpartition(":")[2]))
    lines = differences(real, emulated)
    assert not lines, "\n".join(lines)
