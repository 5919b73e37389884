"""Keys that can differ between nodes, and the reasons of those that cannot."""

from __future__ import annotations

import pytest

from kafkalite.config.keys import broker_keys
from kafkalite.config.node_keys import SHARED, can_differ, refusal


@pytest.mark.parametrize(
    "key",
    [
        "listeners",
        "num.partitions",
        "group.max.size",
        "group.share.record.lock.duration.ms",
        "offsets.retention.minutes",
        "offsets.topic.replication.factor",
        "transaction.state.log.min.isr",
        "sasl.enabled.mechanisms",
        "connections.max.reauth.ms",
        "listener.name.external.plain.sasl.jaas.config",
        "ssl.keystore.location",
        "num.io.threads",
        "log.dirs",
        "log.retention.ms",
        "message.max.bytes",
        "min.insync.replicas",
        "auto.leader.rebalance.enable",
        "quota.window.num",
    ],
)
def test_a_key_can_differ_if_its_effect_is_that_of_a_node(key: str) -> None:
    assert can_differ(key)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("offsets.topic.num.partitions", "every node finds coordinators by the number"),
        ("group.version", "all nodes share its level"),
        ("node.id", "it names the node or its role"),
        ("authorizer.class.name", "all nodes authorize by the same ACLs"),
        ("delegation.token.secret.key", "all nodes check delegation tokens with the same key"),
        ("queued.max.request.bytes", "the nodes are one process with one memory for requests"),
        ("kafkalite.partition.epochs", "it configures what the nodes share"),
    ],
)
def test_a_refusal_has_the_reason(key: str, reason: str) -> None:
    assert not can_differ(key)
    text = refusal(key)
    assert text.startswith(f"{key} cannot differ between nodes, because {reason}")
    assert text.endswith(": set it for all nodes")


def test_patterns_are_of_existing_keys() -> None:
    keys = list(broker_keys())
    for patterns in SHARED.values():
        for pattern in patterns.split():
            assert any(not can_differ(key) for key in keys if _is_like(key, pattern)), pattern


def _is_like(key: str, pattern: str) -> bool:
    first, _, last = pattern.partition("*")
    return key.startswith(first) and key.endswith(last.rpartition("*")[2])
