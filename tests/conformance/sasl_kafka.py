"""A real Kafka with a listener for SASL, users of PLAIN, an authorizer and delegation tokens."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tests.oracle.real_kafka import RealKafka
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
PROTOCOLS: Final = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
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
) -> RealKafka:
    """Return a Kafka that is not started yet; its other listener is PLAINTEXT.

    `settings` are additional ones. `classes` is a directory with plug-ins of ours. With `tls_port`,
    there is a listener with TLS, too.
    """
    config = {**COMMON_CONFIG, **SETTINGS, **settings}
    kafka = RealKafka(directory, config, classes=classes, features=features)
    listeners = (
        f"PLAINTEXT://{kafka.bootstrap},CONTROLLER://{kafka.controller},"
        f"SASL_PLAINTEXT://127.0.0.1:{sasl_port}"
    )
    if tls_port is not None:
        listeners += f",SSL://127.0.0.1:{tls_port}"
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    config |= {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": PROTOCOLS if tls_port is None else f"{PROTOCOLS},SSL:SSL",
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
