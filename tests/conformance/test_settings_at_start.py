"""Kafka and kafkalite start with the same settings and refuse the same settings.

Kafka's own classes decide in one JVM: it parses the settings as a broker does, but starts nothing.
"""

from __future__ import annotations

import subprocess
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.definitions import ConfigError, ConfigType
from kafkalite.config.keys import broker_keys
from kafkalite.config.tables.kafkalite import KEYS
from kafkalite.server.addresses import AddressError
from kafkalite.server.settings import Settings, SettingsError
from tests.oracle.jars import compiled, java_command
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

pytestmark = pytest.mark.oracle

_BASE: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "log.dirs": "/data",
}
_BROKER_ALONE: Final = {"process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:9092"}
_RENAMED: Final = {
    "listeners": "A://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "listener.security.protocol.map": "a:PLAINTEXT,controller:PLAINTEXT",
}
_MEBIBYTE: Final = 1 << 20

_NUMBERS: Final = (
    *(-2, -1, 0, 1, 2, 3, 99, 100, 101, 1000, 1001, 14_999, 30_001, 65_536),
    *(_MEBIBYTE - 1, _MEBIBYTE, _MEBIBYTE + 1, 2 * _MEBIBYTE, 1 << 27, (1 << 31) - 1),
)
_TEXTS: Final = ("", "x", "a,a", "a,,b")

_KAFKALITE_KEYS: Final = frozenset(
    line.split()[0] for line in KEYS.splitlines() if line[:1].strip()
)
_STRICTER: Final = _KAFKALITE_KEYS | {
    # Kafka starts with any value, and refuses to create the topic when it is needed.
    "offsets.topic.segment.bytes",
    "share.coordinator.state.topic.segment.bytes",
    "transaction.state.log.segment.bytes",
    # Java classes, which Kafka loads after it parses its settings.
    "authorizer.class.name",
    "config.providers",
    "group.share.persister.class.name",
    "replica.selector.class",
    "security.providers",
}
_MORE_LENIENT: Final = frozenset(
    # There is no controller quorum here.
    ("controller.quorum.bootstrap.servers",)
)


def values_to_try(config_type: ConfigType) -> tuple[str, ...]:
    """Return the values to test for a key of this type."""
    if config_type in (ConfigType.INT, ConfigType.LONG, ConfigType.SHORT, ConfigType.DOUBLE):
        return (*map(str, _NUMBERS), str((1 << 63) - 1))
    if config_type in (ConfigType.STRING, ConfigType.LIST):
        return _TEXTS
    return ("", "yes", "TRUE")


def _single_settings() -> Iterator[dict[str, str]]:
    """Yield every setting with values around common limits of settings."""
    for key, definition in broker_keys().items():
        if key not in _STRICTER | _MORE_LENIENT:
            yield from ({key: value} for value in values_to_try(definition.type))


def _cleaning() -> Iterator[dict[str, str]]:
    for threads, extra in product((0, 1, 2, 3, 4), (-1, 0, 1, 2, 3, 4)):
        yield {
            "log.cleaner.threads": str(threads),
            "log.cleaner.dedupe.buffer.size": str(max(threads, 1) * _MEBIBYTE + extra),
        }


def _tiered() -> Iterator[dict[str, str]]:
    numbers = ("-2", "-1", "0", "5", "7")
    for subject in ("ms", "bytes"):
        for total, local, enabled in product(numbers, numbers, ("true", "false")):
            yield {
                "remote.log.storage.system.enable": enabled,
                f"log.retention.{subject}": total,
                f"log.local.retention.{subject}": local,
            }


def _groups() -> Iterator[dict[str, str]]:
    subjects = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
    for group_type, subject in product(("consumer", "share", "streams"), subjects):
        for values in product(("9999", "10000", "10001"), repeat=3):
            prefixes = ("", "min.", "max.")
            keys = (f"group.{group_type}.{prefix}{subject}" for prefix in prefixes)
            yield {
                f"group.{group_type}.min.session.timeout.ms": "5000",
                f"group.{group_type}.min.heartbeat.interval.ms": "5000",
                **dict(zip(keys, values, strict=True)),
            }
    for subject, values in (
        ("delivery.count.limit", ("5", "6", "7")),
        ("partition.max.record.locks", ("500", "600", "700")),
        ("record.lock.duration.ms", ("29999", "30000", "30001")),
    ):
        for value, minimum, maximum in product(values, repeat=3):
            yield {
                f"group.share.{subject}": value,
                f"group.share.min.{subject}": minimum,
                f"group.share.max.{subject}": maximum,
            }


_OVERRIDES: Final = (
    *("", "h:1", "a b:1", "::1:5", "h:+3", "h:-3", "h:x", "h", "h :4", "h: 4", ",", "h:1,"),
    *("h:1,,k:2", "[::1]:2", "h:99999999999", "a_b:1", "\u00fc:1"),
)

_COMBINATIONS: Final[Sequence[Mapping[str, str]]] = (
    {"broker.id": "1"},
    {"broker.id": "2"},
    {"node.id": "5", "broker.id": "5"},
    {"listeners": "INSIDE://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"},
    {"listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://127.0.0.1:9093"},
    {"listeners": "PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9093"},
    {"listeners": "PLAINTEXT://:9092,PLAINTEXT://:9094,CONTROLLER://127.0.0.1:9093"},
    {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"},
    {"advertised.listeners": "OTHER://h:9092"},
    {"advertised.listeners": "PLAINTEXT://h:9092"},
    {"controller.listener.names": "x"},
    {"inter.broker.listener.name": "PLAINTEXT"},
    {"inter.broker.listener.name": "plaintext"},
    {"inter.broker.listener.name": "CONTROLLER"},
    {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
    {"security.inter.broker.protocol": "SSL"},
    {"security.inter.broker.protocol": "SASL_SSL", "sasl.enabled.mechanisms": "PLAIN"},
    _RENAMED,
    {**_RENAMED, "inter.broker.listener.name": "a"},
    {"early.start.listeners": "PLAINTEXT"},
    {"early.start.listeners": "CONTROLLER"},
    {"controller.quorum.voters": "1@h:1"},
    {"controller.quorum.voters": "2@h:1"},
    {"controller.quorum.voters": "1@h:1,2@h:2"},
    _BROKER_ALONE,
    {"process.roles": "broker"},
    {**_BROKER_ALONE, "controller.quorum.voters": "1@h:1"},
    {**_BROKER_ALONE, "controller.quorum.voters": "3@h:1"},
    {**_BROKER_ALONE, "controller.quorum.auto.join.enable": "true"},
    {"controller.quorum.auto.join.enable": "true"},
    {"log.cleaner.min.compaction.lag.ms": "10", "log.cleaner.max.compaction.lag.ms": "9"},
    {"log.cleaner.min.compaction.lag.ms": "10", "log.cleaner.max.compaction.lag.ms": "10"},
    {"log.retention.ms": "-7", "log.retention.hours": "0"},
    {"log.roll.ms": "5", "log.roll.hours": "1"},
    {"cordoned.log.dirs": "*"},
    {"cordoned.log.dirs": "*,/data"},
    {"cordoned.log.dirs": "/data"},
    {"group.coordinator.rebalance.protocols": "consumer"},
    {"group.coordinator.rebalance.protocols": "classic"},
    {"group.min.session.timeout.ms": "9", "group.max.session.timeout.ms": "8"},
    {"queued.max.request.bytes": str(100 * _MEBIBYTE - 1)},
    {"queued.max.request.bytes": str(100 * _MEBIBYTE)},
    {"replica.fetch.wait.max.ms": "600", "replica.socket.timeout.ms": "599"},
    {"replica.fetch.wait.max.ms": "600", "replica.lag.time.max.ms": "600"},
    {"group.share.max.size": "300", "group.share.max.share.sessions": "299"},
    {"group.share.max.size": "300", "group.share.max.share.sessions": "300"},
    *(
        {"max.connections.per.ip": limit, "max.connections.per.ip.overrides": text}
        for limit, text in product(("0", "1"), _OVERRIDES)
    ),
)


def kafka_refusals(cases: Sequence[Mapping[str, str]]) -> list[str]:
    """Return for each case the reason for which Kafka would not start; empty if it would."""
    with required():
        classes = compiled(Path(__file__).parent / "settings_checker")
        command = java_command(
            "SettingsChecker", classes=classes, log_level="off", flags=("-Dfile.encoding=UTF-8",)
        )
    settings_text = "".join(
        "".join(f"{key}={value}\n" for key, value in {**_BASE, **case}.items()) + "\n"
        for case in cases
    )
    completed = subprocess.run(
        command, input=settings_text.encode(), capture_output=True, timeout=120, check=True
    )
    return completed.stdout.decode(errors="replace").split("\n")[:-1]


def kafkalite_refusal(case: Mapping[str, str]) -> str:
    """Return the reason for which kafkalite would not start; empty if it would."""
    config = {**_BASE, **case}
    try:
        settings = Settings(config=config)
        assert settings.node_ids
        assert settings.listeners
        BrokerConfig.from_text(config, defaults="kafka")
    except (AddressError, ConfigError, SettingsError) as refusal:
        return str(refusal)
    return ""


@pytest.mark.parametrize(
    "cases_of", [_single_settings, _cleaning, _tiered, _groups, lambda: iter(_COMBINATIONS)]
)
def test_kafkalite_starts_with_the_settings_that_kafka_starts_with(cases_of: object) -> None:
    assert callable(cases_of)
    cases = list(cases_of())
    reasons = kafka_refusals(cases)
    assert len(reasons) == len(cases)
    differences = [
        f"{dict(case)}: Kafka {kafka_reason!r}, kafkalite {kafkalite_reason!r}"
        for case, kafka_reason in zip(cases, reasons, strict=True)
        if bool(kafka_reason) is not bool(kafkalite_reason := kafkalite_refusal(case))
    ]
    assert not differences, "\n".join(differences)
    assert any(reasons)
    assert not all(reasons)
