"""Keys that can differ between nodes, and the reasons of those that cannot."""

from __future__ import annotations

import pytest

from kafkalite.config.keys import broker_keys
from kafkalite.config.node_keys import SHARED, can_differ, is_of_coordinators, refusal


@pytest.mark.parametrize(
    "key",
    [
        "listeners",
        "num.partitions",
        "group.max.size",
        "group.consumer.session.timeout.ms",
        "group.share.max.size",
        "offsets.retention.minutes",
        "transactional.id.expiration.ms",
        "sasl.enabled.mechanisms",
        "connections.max.reauth.ms",
        "listener.name.external.plain.sasl.jaas.config",
        "ssl.keystore.location",
        "num.io.threads",
        "log.dirs",
    ],
)
def test_a_key_can_differ_if_its_effect_is_that_of_a_node(key: str) -> None:
    assert can_differ(key)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("log.retention.ms", "the replicas of a partition share one log"),
        ("group.share.record.lock.duration.ms", "all nodes share the records that share groups"),
        ("offsets.topic.num.partitions", "all nodes share the internal topic"),
        ("group.version", "all nodes share its level"),
        ("node.id", "it names the node or its role"),
        ("controller.quota.window.num", "it configures what the nodes share"),
    ],
)
def test_a_refusal_has_the_reason(key: str, reason: str) -> None:
    assert not can_differ(key)
    text = refusal(key)
    assert text.startswith(f"{key} cannot differ between nodes, because {reason}")
    assert text.endswith(": set it for all nodes")


def test_patterns_are_of_existing_keys_and_no_shared_key_is_of_coordinators() -> None:
    keys = list(broker_keys())
    for patterns in SHARED.values():
        for pattern in patterns.split():
            assert any(not can_differ(key) for key in keys if _is_like(key, pattern)), pattern
    assert sum(map(is_of_coordinators, keys)) > 60


def _is_like(key: str, pattern: str) -> bool:
    first, _, last = pattern.partition("*")
    return key.startswith(first) and key.endswith(last.rpartition("*")[2])
