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
    from tests.conformance.scenario_cluster import ScenarioCluster

_TOPIC, _BROKER, _GROUP = 2, 4, 32
_MESSAGE_FORMAT_KEYS = (
    "message.downconversion.enable",
    "message.format.version",
    "message.timestamp.difference.max.ms",
)
"""Settings of topics that Kafka 4.0 removed."""

_CHANGED_DEFAULTS = (
    "group.consumer.assignors",
    "group.coordinator.append.linger.ms",
    "group.coordinator.rebalance.protocols",
    "group.coordinator.threads",
    "group.share.partition.max.record.locks",
    "log.message.timestamp.after.max.ms",
    "metric.reporters",
    "num.recovery.threads.per.data.dir",
    "remote.log.manager.thread.pool.size",
)


def _alter(cluster: ScenarioCluster, resource_type: int, name: str, key: str, value: str) -> None:
    row = AlterConfigsRequest.AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[AlterConfigsRequest.AlterableConfig(name=key, value=value)],
    )
    cluster.ask(AlterConfigsRequest(resources=[row]), 2)
    incremental = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[IncrementalAlterConfigsRequest.AlterableConfig(name=key, value=value)],
    )
    cluster.ask(IncrementalAlterConfigsRequest(resources=[incremental]), 1)


def _described(resource_type: int, name: str, *keys: str) -> DescribeConfigsRequest:
    row = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=list(keys) or None
    )
    return DescribeConfigsRequest(resources=[row], include_synonyms=True)


def settings_of_3_9_are_set_and_described(cluster: ScenarioCluster) -> None:
    """Set and describe settings that only 3.9 has, and settings that only 4.0 has."""
    create_topic(cluster, cluster.name)
    for version in ("2.8", "0.10.0", "3.9.1", "4.0-IV0", "4.0", "x", ""):
        _alter(cluster, _TOPIC, cluster.name, "message.format.version", version)
    for key, value in zip(_MESSAGE_FORMAT_KEYS, ("false", "2.8", "5"), strict=True):
        _alter(cluster, _TOPIC, cluster.name, key, value)
    cluster.call_until(
        _described(_TOPIC, cluster.name, *_MESSAGE_FORMAT_KEYS),
        4,
        lambda lines: lines.results[0].configs[-1].value == "5",
    )
    for key in ("consumer.session.timeout.ms", "share.session.timeout.ms", "no.such.key"):
        _alter(cluster, _GROUP, cluster.name, key, "50000")
    cluster.ask(_described(_GROUP, cluster.name), 4)
    answer = cluster.probe(_described(_BROKER, "1", "advertised.listeners"), 4)
    (listeners,) = answer.results[0].configs
    cluster.record("source of advertised.listeners", listeners.config_source)


def defaults_that_4_0_changed_are_described(cluster: ScenarioCluster) -> None:
    """Describe settings of brokers that have other defaults in 3.9."""
    cluster.ask(_described(_BROKER, "1", *_CHANGED_DEFAULTS), 4)


SCENARIOS = (settings_of_3_9_are_set_and_described, defaults_that_4_0_changed_are_described)
