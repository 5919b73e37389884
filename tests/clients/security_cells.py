"""The settings with which each client connects to a secured listener, and the listeners."""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalite.client.access import Login
from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.security.sasl.users import LOGIN_MODULES
from kafkalite.testing import Broker
from kafkalite.testing.client_settings import ClientAccess, client_settings
from tests.clients.security_matrix import (
    CELLS,
    CLIENTS,
    MECHANISMS,
    OAUTHBEARER,
    SCOPE,
    Cell,
    Fault,
    other_mechanism,
    topic_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

USER: Final = "alice"
PASSWORD: Final = 'correct horse, battery="staple"'  # noqa: S105 - of a test
WRONG_PASSWORD: Final = "wrong"  # noqa: S105 - of a test
_TOKEN_LIFETIME_S: Final = 3600


class Listener(NamedTuple):
    """The security settings of a broker."""

    protocol: str
    mechanisms: tuple[str, ...] = ()
    client_auth: str = "none"
    as_version: str | None = None

    def broker(self) -> Broker:
        """Return a broker with this listener and the topics of all clients."""
        prefix = f"listener.name.{self.protocol.lower()}."
        config = {f"{prefix}ssl.client.auth": self.client_auth}
        if self.mechanisms:
            config[f"{prefix}sasl.enabled.mechanisms"] = ",".join(self.mechanisms)
        if OAUTHBEARER in self.mechanisms:
            # A token of librdkafka may be refused in the millisecond of its creation otherwise.
            config[f"{prefix}oauthbearer.sasl.jaas.config"] = (
                f"{LOGIN_MODULES[OAUTHBEARER]} required "
                f"unsecuredValidatorRequiredScope={SCOPE} "
                "unsecuredValidatorAllowableClockSkewMs=1000;"
            )
        users = {USER: PASSWORD} if self.mechanisms else None
        return Broker(
            security=self.protocol,
            users=users,
            topics={topic_of(client, cell): 1 for client in CLIENTS for cell in CELLS},
            config=config,
            log_level="error",
            as_version=self.as_version,
        )


def listener_of(cell: Cell, as_version: str | None = None) -> Listener:
    """Return the listener that a cell's client connects to, of a broker of a release."""
    if not cell.mechanism:
        return Listener(cell.protocol, client_auth=cell.client_auth or "none")
    if cell.fault is Fault.MECHANISM:
        return Listener(cell.protocol, (other_mechanism(cell.mechanism),))
    return Listener(cell.protocol, MECHANISMS, as_version=as_version)


class Connection(NamedTuple):
    """The facts from which a client's settings are made; `scope` is that of a bearer token."""

    access: ClientAccess
    scope: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the connection as JSON."""
        access = self.access._asdict()
        login = self.access.login
        access["protocol"] = self.access.protocol.value
        access["login"] = None if login is None else [login.mechanism, login.user, login.password]
        return {"access": access, "scope": self.scope}

    @classmethod
    def from_json(cls, connection: dict[str, Any]) -> Connection:
        """Return the connection that `to_json` wrote."""
        access = dict(connection["access"])
        access["protocol"] = SecurityProtocol[access["protocol"]]
        access["login"] = None if access["login"] is None else Login(*access["login"])
        return cls(ClientAccess(**access), connection["scope"])

    def settings(self, library: str) -> dict[str, Any]:
        """Return the settings of a library."""
        settings = client_settings(library, self.access)
        if self.scope is not None:
            settings |= _BEARER_SETTINGS[library](self.scope)
        return settings


def connection_of(cell: Cell, broker: Broker, other_authority: Path) -> Connection:
    """Return the connection of a cell; `other_authority` did not issue the broker's certificate."""
    files = broker.client_config("kafka-python")
    authority, certificate = files.get("ssl_cafile"), files.get("ssl_certfile")
    if cell.fault is Fault.AUTHORITY:
        authority = str(other_authority)
    if cell.client_auth != "required" or cell.fault is Fault.CERTIFICATE:
        certificate = None
    login, scope = None, None
    if cell.mechanism == OAUTHBEARER:
        scope = "other" if cell.fault is Fault.TOKEN else SCOPE
    elif cell.mechanism:
        password = WRONG_PASSWORD if cell.fault is Fault.PASSWORD else PASSWORD
        login = Login(cell.mechanism, USER, password)
    access = ClientAccess(
        broker.bootstrap_servers, SecurityProtocol[cell.protocol], authority, certificate, login
    )
    return Connection(access, scope)


def unsecured_token(scope: str) -> str:
    """Return an unsecured JSON Web Token of the user."""
    now_s = int(time.time())
    claims = {"sub": USER, "scope": scope, "iat": now_s, "exp": now_s + _TOKEN_LIFETIME_S}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return "".join(base64.urlsafe_b64encode(part).decode().rstrip("=") + "." for part in parts)


def _librdkafka(scope: str) -> dict[str, Any]:
    return {
        "sasl.mechanisms": OAUTHBEARER,
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": f"principal={USER} scope={scope}",
    }


def _java(scope: str) -> dict[str, Any]:
    options = f'unsecuredLoginStringClaim_sub="{USER}" unsecuredLoginStringClaim_scope="{scope}"'
    return {
        "sasl.mechanism": OAUTHBEARER,
        "sasl.jaas.config": f"{LOGIN_MODULES[OAUTHBEARER]} required {options};",
    }


def _python(scope: str) -> dict[str, Any]:
    """Return the settings; the client's driver makes a token provider of the token."""
    return {
        "sasl_mechanism": OAUTHBEARER,
        "sasl_oauth_token_provider": unsecured_token(scope),
    }


def _kafkajs(scope: str) -> dict[str, Any]:
    return {"sasl": {"mechanism": "oauthbearer", "token": unsecured_token(scope)}}


def _franz_go(scope: str) -> dict[str, Any]:
    return {"sasl": {"mechanism": OAUTHBEARER, "token": unsecured_token(scope)}}


_BEARER_SETTINGS: Final[Mapping[str, Callable[[str], dict[str, Any]]]] = {
    "librdkafka": _librdkafka,
    "java": _java,
    "aiokafka": _python,
    "kafka-python": _python,
    "kafkajs": _kafkajs,
    "franz-go": _franz_go,
}
"""Library → function that returns the settings of OAUTHBEARER for a scope."""
