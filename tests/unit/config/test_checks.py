"""Settings that are fine alone and impossible together."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.definitions import ConfigError

IMPOSSIBLE = [
    (
        {"group.min.session.timeout.ms": "9", "group.max.session.timeout.ms": "8"},
        (
            "group.max.session.timeout.ms must be greater than or equal to "
            "group.min.session.timeout.ms"
        ),
    ),
    (
        {"log.cleaner.threads": "200"},
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    ),
    (
        {"log.retention.ms": "0"},
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    ),
    ({"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
    ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be greater than or equal to 0"),
    (
        {"log.cleaner.threads": "0"},
        "log.cleaner.threads must be at least 1, for logs are always cleaned",
    ),
    (
        {"max.connections.per.ip": "0"},
        (
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides "
            "property is set."
        ),
    ),
    (
        {"queued.max.request.bytes": "5"},
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    ),
    (
        {"group.consumer.session.timeout.ms": "500"},
        (
            "group.consumer.session.timeout.ms must be greater than or equal to "
            "group.consumer.min.session.timeout.ms"
        ),
    ),
    (
        {"group.share.session.timeout.ms": "60001"},
        (
            "group.share.session.timeout.ms must be less than or equal to "
            "group.share.max.session.timeout.ms"
        ),
    ),
    (
        {"group.streams.min.heartbeat.interval.ms": "15001"},
        (
            "group.streams.max.heartbeat.interval.ms must be greater than or equal to "
            "group.streams.min.heartbeat.interval.ms"
        ),
    ),
    (
        {
            "group.consumer.session.timeout.ms": "1000",
            "group.consumer.heartbeat.interval.ms": "1000",
        },
        "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms",
    ),
]


@pytest.mark.parametrize(("text", "complaint"), IMPOSSIBLE)
def test_impossible_combinations_are_refused(text: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        BrokerConfig.from_text(text)
    assert refusal.value.message == f"requirement failed: {complaint}"


def test_negative_retention_means_for_ever() -> None:
    assert BrokerConfig.from_text({"log.retention.ms": "-5"}).int("log.retention.ms") == -5


def test_limits_per_address_name_an_address_and_a_number() -> None:
    assert BrokerConfig.from_text({"max.connections.per.ip.overrides": "h:1, 10.0.0.1:2"})
    with pytest.raises(ConfigError, match="Error parsing configuration property"):
        BrokerConfig.from_text({"max.connections.per.ip.overrides": "h"})
