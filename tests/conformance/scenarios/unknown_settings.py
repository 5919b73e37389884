"""Dynamic settings that a release before Kafka 4.3 does not know, or refuses to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.scenarios.configs import (
    APPEND,
    BROKER,
    SET,
    SUBTRACT,
    TOPIC,
    alter,
    describe,
    settled,
)
from tests.conformance.setup import create_topic

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

_OF_LATER_RELEASES = ("cordoned.log.dirs", "max.decompressed.message.bytes", "no.such.key")
_NODES = ("1", "")


def _alter(cluster: ScenarioCluster, name: str, *change: tuple[str, int, str]) -> None:
    """Alter settings of brokers, and record the error with its text."""
    answer = cluster.connection("main").call(alter(BROKER, name, *change), 1).responses[0]
    cluster.record(f"{name!r} {change}", [int(answer.error_code), answer.error_message])


def settings_of_later_releases_are_unknown(cluster: ScenarioCluster) -> None:
    for name in _NODES:
        for key in _OF_LATER_RELEASES:
            _alter(cluster, name, (key, SET, "x"))
            _alter(cluster, name, (key, APPEND, "x"))
            _alter(cluster, name, (key, SUBTRACT, "x"))
    for name in _NODES:
        for key in _OF_LATER_RELEASES:
            cluster.call_until(
                describe(BROKER, name, [key]), 4, lambda answer: bool(answer.results[0].configs)
            )


def refused_changes_have_their_texts(cluster: ScenarioCluster) -> None:
    for name, key in (
        ("1", "log.dirs"),
        ("1", "ssl.keystore.type"),
        ("", "listener.name.x.ssl.keystore.type"),
        ("1", "log.retention.ms"),
    ):
        _alter(cluster, name, (key, SET, "x"))
        _alter(cluster, name, (key, APPEND, "x"))


def items_are_appended_to_an_empty_list(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for operation, value, expected in (
        (SET, "", ""),
        (APPEND, "compact", "compact"),
        (SUBTRACT, "compact,,", ""),
    ):
        cluster.ask(alter(TOPIC, cluster.name, ("cleanup.policy", operation, value)), 1)
        settled(cluster, "cleanup.policy", expected)


SCENARIOS = (
    settings_of_later_releases_are_unknown,
    refused_changes_have_their_texts,
    items_are_appended_to_an_empty_list,
)
