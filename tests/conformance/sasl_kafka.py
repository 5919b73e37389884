"""Brokers with a listener for SASL, users of PLAIN, an authorizer and delegation tokens."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kafkalite.config.default_overrides import KAFKALITE_DEFAULTS
from tests.oracle.real_kafka import FAST_START, RealKafka
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import COMMON_CONFIG, NO_FEATURES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

USERS: Final = {name: f"{name}-secret" for name in ("admin", "alice", "bob", "carol")}
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SETTINGS: Final = {
    "delegation.token.secret.key": "signs-all-tokens",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}
_PROTOCOLS: Final = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
_JAAS: Final = "org.apache.kafka.common.security"
_NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


def kafka_with_sasl(
    directory: Path,
    sasl_port: int,
    *,
    settings: Mapping[str, str] = _NO_SETTINGS,
    classes: Path | None = None,
    features: Mapping[str, str] = NO_FEATURES,
    tls_port: int | None = None,
    flags: tuple[str, ...] = FAST_START,
) -> RealKafka:
    """Return a real Kafka that is not started yet; its other listener is PLAINTEXT.

    `settings` are additional ones. `classes` is a directory with plug-ins of ours. With `tls_port`,
    there is a listener with TLS, too. `flags` are options of Java.
    """
    config = {**COMMON_CONFIG, **SETTINGS, **settings}
    kafka = RealKafka(directory, config, classes=classes, features=features, flags=flags)
    listeners = (
        f"PLAINTEXT://{kafka.bootstrap},CONTROLLER://{kafka.controller},"
        f"SASL_PLAINTEXT://127.0.0.1:{sasl_port}"
    )
    protocols = _PROTOCOLS
    if tls_port is not None:
        protocols += ",SSL:SSL"
        listeners += f",SSL://127.0.0.1:{tls_port}"
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    config |= {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": protocols,
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f"{_JAAS}.plain.PlainLoginModule required {users};"
        ),
        **{
            f"listener.name.sasl_plaintext.{mechanism.lower()}.sasl.jaas.config": (
                f"{_JAAS}.scram.ScramLoginModule required;"
            )
            for mechanism in MECHANISMS[1:]
        },
    }
    return kafka


def kafkalite_with_sasl(
    directory: Path,
    sasl_port: int,
    controller: str,
    *,
    settings: Mapping[str, str] = _NO_SETTINGS,
) -> ServedKafkalite:
    """Return kafkalite with the settings and listeners of that Kafka; it is not started, either.

    `controller` is the address of the listener for controllers. `settings` are additional ones.
    """
    users = (f"--user={name}:{password}:PLAIN" for name, password in USERS.items())
    return ServedKafkalite(
        directory,
        {
            **KAFKALITE_DEFAULTS,
            **COMMON_CONFIG,
            **SETTINGS,
            **settings,
            "listener.security.protocol.map": _PROTOCOLS,
        },
        options=(
            *("--defaults", "kafka", "--controller-listen", controller),
            *("--listen", f"SASL_PLAINTEXT://127.0.0.1:{sasl_port}"),
            *users,
        ),
    )
