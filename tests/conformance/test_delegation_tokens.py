"""Delegation tokens: kafkalite and a real Kafka give the same answers, with and without ACLs.

Ids and HMACs are random, so their lengths are compared. Times are compared relative to the issue of
the token, in steps of a minute.
"""

from __future__ import annotations

import time
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalite.protocol._generated.messages.create_acls import CreateAclsRequest
from kafkalite.protocol._generated.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.security.sasl.scram_credentials import SCRAM_MECHANISMS
from kafkalite.testing import Broker
from tests.conformance.raw import ConnectionClosedError, RawClient
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG, free_port
from tests.unit.security.sasl.scram_client import ScramClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafkalite.protocol.message import Message
    from kafkalite.security.sasl.scram_credentials import ScramMechanism

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(300)]

USERS: Final = {name: f"{name}-secret" for name in ("admin", "alice", "bob", "carol")}
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
JAAS: Final = "org.apache.kafka.common.security"
DAY_MS: Final = 86_400_000
MAX_MS: Final = (1 << 63) - 1
SETTINGS: Final = {
    "delegation.token.secret.key": "signs-all-tokens",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}
_SETTLE_S: Final = 0.3
_TIMEOUT_S: Final = 10.0
_STEP_MS: Final = 60_000
Renewer = CreateDelegationTokenRequest.CreatableRenewers
Owner = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner


class Side:
    """One of the two brokers, with connections that are logged in by PLAIN."""

    def __init__(self, sasl_port: int, plain_port: int, *, is_kafka: bool) -> None:
        self._sasl_port, self._plain_port = sasl_port, plain_port
        self._is_kafka = is_kafka
        self._clients: dict[str, RawClient] = {}
        self.issued_ms = 0

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def client(self, name: str) -> RawClient:
        """Return the connection of a user, or that of the PLAINTEXT listener."""
        client = self._clients.get(name)
        if client is None:
            client = RawClient(self._sasl_port if name in USERS else self._plain_port)
            self._clients[name] = client
            if name in USERS:
                client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
                token = f"\0{name}\0{USERS[name]}".encode()
                assert not client.call(SaslAuthenticateRequest(auth_bytes=token), 2).error_code
        return client

    def _await(self, hmac: bytes, expires_ms: int | None) -> None:
        """Wait until a real Kafka knows a change of a token; None stands for its removal."""
        if not self._is_kafka:
            return
        deadline = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < deadline:
            tokens = {
                bytes(t.hmac): t.expiry_timestamp for t in self.describe("admin", None).tokens
            }
            if tokens.get(hmac) == expires_ms:
                break
            time.sleep(0.02)
        # The controller has a cache of its own.
        time.sleep(_SETTLE_S)

    def ask(self, name: str, request: Message, version: int) -> Any:  # noqa: ANN401 - any response
        response = self.client(name).call(request, version)
        response.throttle_time_ms = 0
        return response

    def create(self, name: str = "alice", version: int = 3, **fields: Any) -> Any:  # noqa: ANN401 - any response
        defaults = {
            "owner_principal_name": None,
            "owner_principal_type": None,
            "max_lifetime_ms": -1,
        }
        response = self.ask(name, CreateDelegationTokenRequest(**(defaults | fields)), version)
        if not response.error_code:
            self.issued_ms = response.issue_timestamp_ms
            self._await(bytes(response.hmac), response.expiry_timestamp_ms)
        return response

    def renew(self, name: str, hmac: bytes, period_ms: int = -1, version: int = 2) -> Any:  # noqa: ANN401 - any response
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
        response = self.ask(name, request, version)
        if not response.error_code:
            self._await(bytes(hmac), response.expiry_timestamp_ms)
        return response

    def expire(self, name: str, hmac: bytes, period_ms: int = -1, version: int = 2) -> Any:  # noqa: ANN401 - any response
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        response = self.ask(name, request, version)
        if not response.error_code:
            self._await(bytes(hmac), None if period_ms < 0 else response.expiry_timestamp_ms)
        return response

    def describe(self, name: str, *owners: tuple[str, str] | None, version: int = 3) -> Any:  # noqa: ANN401 - any response
        named = [Owner(principal_type=o[0], principal_name=o[1]) for o in owners if o is not None]
        request = DescribeDelegationTokenRequest(owners=None if None in owners else named)
        response = self.ask(name, request, version)
        response.tokens.sort(key=lambda each: (each.issue_timestamp, each.max_timestamp))
        return response

    def remove_all(self) -> None:
        """Remove all tokens."""
        for token in self.describe("admin", None).tokens:
            self.expire(token.principal_name, bytes(token.hmac))

    def allow(self, user: str, operation: Operation, resource: Resource, name: str) -> None:
        creation = CreateAclsRequest.AclCreation(
            resource_type=resource, resource_name=name, resource_pattern_type=3,
            principal=f"User:{user}", host="*", operation=operation, permission_type=3,
        )  # fmt: skip
        response = self.ask("admin", CreateAclsRequest(creations=[creation]), 3)
        assert not response.results[0].error_code
        if self._is_kafka:
            time.sleep(_SETTLE_S)

    def log_in(self, mechanism: ScramMechanism, token: Any, password: str) -> tuple[RawClient, Any]:  # noqa: ANN401 - a response
        """Log in by token; return the connection and the last answer."""
        client = RawClient(self._sasl_port)
        scram = ScramClient(mechanism, token.token_id, password)
        scram.bare += ",tokenauth=true"
        client.call(SaslHandshakeRequest(mechanism=mechanism.name), 1)
        first = client.call(SaslAuthenticateRequest(auth_bytes=scram.first()), 2)
        final = scram.final(bytes(first.auth_bytes))
        return client, client.call(SaslAuthenticateRequest(auth_bytes=final), 2)


def tree(side: Side, value: Any) -> Any:  # noqa: ANN401 - any part of a response
    """Return a response as a tree that both brokers can have."""
    if isinstance(value, list):
        return [tree(side, each) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    fields = {name: getattr(value, name) for name in value.__slots__ if name != "unknown_tags"}
    for name, field in fields.items():
        if "timestamp" in name and field > 0:
            fields[name] = f"issue + {round((field - side.issued_ms) / _STEP_MS)}"
        elif name == "token_id":
            fields[name] = f"{len(field)} characters"
        elif isinstance(field, list | bytes | bytearray | memoryview):
            fields[name] = tree(side, field)
    return fields


def renewers(*principals: tuple[str, str]) -> list[Renewer]:
    return [Renewer(principal_type=kind, principal_name=name) for kind, name in principals]


def owner(kind: str | None, name: str | None) -> dict[str, Any]:
    return {"owner_principal_type": kind, "owner_principal_name": name}


def versions(side: Side) -> Iterator[Any]:
    for version in (1, 2, 3):
        token = side.create(version=version, renewers=renewers(("User", "bob"), ("User", "bob")))
        yield token
        yield side.describe("alice", None, version=version)
        yield side.renew("bob", token.hmac, 3_600_000, min(version, 2))
        yield side.expire("bob", token.hmac, 7_200_000, min(version, 2))
        yield side.describe("bob", ("User", "alice"), version=version)
        yield side.expire("alice", token.hmac, -1, min(version, 2))
        yield side.describe("alice", None, version=version)


def owners(side: Side) -> Iterator[Any]:
    yield side.create(**owner(None, None))
    yield side.create(**owner("Group", ""))
    yield side.create(**owner("User", "alice"))
    yield side.create(**owner(None, "bob"))
    yield side.create(**owner("User", "bob"))
    yield side.create(**owner("Group", "alice"))
    yield side.create("admin", **owner("Group", "g"))
    yield side.create("admin", **owner("User", "bob"))
    yield side.describe("bob", None)
    yield side.describe("admin", None)


def renewer_types(side: Side) -> Iterator[Any]:
    yield side.create(renewers=renewers(("Group", "g")))
    yield side.create(renewers=renewers(("User", "bob"), ("user", "carol")))
    yield side.create(renewers=renewers(("", "bob")))
    yield side.create(renewers=renewers(("User", "")))
    yield side.create(renewers=renewers(("Group", "g")), **owner("User", "bob"))
    yield side.describe("alice", None)


def lifetimes(side: Side) -> Iterator[Any]:
    for lifetime_ms in (-MAX_MS - 1, 0, 120_000, DAY_MS * 2, DAY_MS * 30, MAX_MS):
        token = side.create(max_lifetime_ms=lifetime_ms)
        yield token
        for period_ms in (-MAX_MS - 1, 0, 180_000, MAX_MS):
            yield side.renew("alice", token.hmac, period_ms)
        for period_ms in (MAX_MS, 180_000, 0):
            yield side.expire("alice", token.hmac, period_ms)
        time.sleep(0.01)
        yield side.renew("alice", token.hmac).error_code
        yield side.expire("alice", token.hmac, 5).error_code
        yield side.expire("bob", token.hmac, 5).error_code
        yield side.expire("alice", token.hmac, -MAX_MS - 1).error_code


def hmacs(side: Side) -> Iterator[Any]:
    token = side.create(renewers=renewers(("User", "bob")))
    valid = bytes(token.hmac)
    for hmac in (b"", b"x", valid[:-1], valid + b"\0", bytes(64), valid):
        yield side.renew("carol", hmac)
        yield side.expire("carol", hmac, 1_200_000)
        yield side.renew("admin", hmac)
        yield side.expire("bob", hmac, 1_200_000)


def requesters(side: Side) -> Iterator[Any]:
    """Ask for a token of another owner, which its requester sees but may not renew."""
    token = side.create("admin", **owner("User", "bob"), renewers=renewers(("User", "carol")))
    yield token
    for name in ("admin", "bob", "carol"):
        yield side.renew(name, token.hmac)
        yield side.describe(name, ("User", name))
        yield side.describe(name, ("User", "admin"))


def descriptions(side: Side) -> Iterator[Any]:
    tokens = [side.create(renewers=renewers(("User", "carol"))), side.create("bob")]
    for name in ("alice", "bob", "carol", "admin"):
        yield side.describe(name, None)
        yield side.describe(name)
        yield side.describe(name, ("User", "alice"))
        yield side.describe(name, ("User", "bob"), ("User", "unknown"))
        yield side.describe(name, ("Group", "alice"))
    side.allow("carol", Operation.DESCRIBE, Resource.DELEGATION_TOKEN, tokens[1].token_id)
    yield side.describe("carol", None)
    side.allow("alice", Operation.DESCRIBE_TOKENS, Resource.USER, "User:bob")
    yield side.describe("alice", None)
    yield side.create(**owner("User", "carol"))
    side.allow("alice", Operation.CREATE_TOKENS, Resource.USER, "User:carol")
    yield side.create(**owner("User", "carol"))


def plaintext(side: Side) -> Iterator[Any]:
    yield side.create("anonymous")
    yield side.create("anonymous", **owner("User", "bob"), renewers=renewers(("Group", "g")))
    yield side.create("anonymous", version=1)
    yield side.renew("anonymous", b"x")
    yield side.expire("anonymous", b"x")
    yield side.describe("anonymous", None)
    yield side.describe("anonymous")


def logins(side: Side) -> Iterator[Any]:
    for mechanism in SCRAM_MECHANISMS:
        token = side.create(max_lifetime_ms=600_000)
        password = b64encode(bytes(token.hmac)).decode()
        client, answer = side.log_in(mechanism, token, password)
        yield (answer.error_code, round(answer.session_lifetime_ms / _STEP_MS))
        for request, version in (
            (CreateDelegationTokenRequest(max_lifetime_ms=-1), 3),
            (RenewDelegationTokenRequest(hmac=token.hmac), 2),
            (ExpireDelegationTokenRequest(hmac=token.hmac), 2),
            (DescribeDelegationTokenRequest(owners=None), 3),
        ):
            yield client.call(request, version)
        client.close()
        client, answer = side.log_in(mechanism, token, "wrong")
        yield (answer.error_code, answer.error_message)
        client.close()
        side.expire("alice", token.hmac, 0)
        time.sleep(0.01)
        client, answer = side.log_in(mechanism, token, password)
        yield (answer.error_code, answer.session_lifetime_ms)
        time.sleep(0.01)
        try:
            yield client.call(DescribeDelegationTokenRequest(owners=None), 3)
        except ConnectionClosedError:
            yield "closed"
        client.close()


def many_renewers(side: Side) -> Iterator[Any]:
    yield side.create(renewers=renewers(("User", "r" * 1_000)) * 9_000)
    yield side.create(renewers=renewers(("User", "r" * 1_000)) * 1_000)


SCENARIOS: Final[tuple[Callable[[Side], Iterator[Any]], ...]] = (
    versions, owners, renewer_types, lifetimes, hmacs, requesters, descriptions, plaintext, logins,
    many_renewers,
)  # fmt: skip


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    with required():
        kafka = _real_kafka(tmp_path_factory.mktemp("kafka"), sasl_port := free_port())
        kafka.start()
    side = Side(sasl_port, kafka.port, is_kafka=True)
    try:
        yield side
    finally:
        side.close()
        kafka.kill()


def _real_kafka(directory: Path, sasl_port: int) -> RealKafka:
    config = {**COMMON_CONFIG, **SETTINGS}
    kafka = RealKafka(directory, config)
    listeners = (
        f"PLAINTEXT://{kafka.bootstrap},CONTROLLER://{kafka.controller},"
        f"SASL_PLAINTEXT://127.0.0.1:{sasl_port}"
    )
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    config |= {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": (
            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f"{JAAS}.plain.PlainLoginModule required {users};"
        ),
        **{
            f"listener.name.sasl_plaintext.{mechanism.lower()}.sasl.jaas.config": (
                f"{JAAS}.scram.ScramLoginModule required;"
            )
            for mechanism in MECHANISMS[1:]
        },
    }
    return kafka


@pytest.fixture(scope="module")
def kafkalite() -> Iterator[Side]:
    with (
        Broker(security="SASL_PLAINTEXT", users=USERS, config=SETTINGS, log_level="error") as sasl,
        Broker(config=SETTINGS, log_level="error") as plain,
    ):
        side = Side(_port(sasl), _port(plain), is_kafka=False)
        yield side
        side.close()


def _port(broker: Broker) -> int:
    return int(broker.bootstrap_servers.rpartition(":")[2])


def answers(side: Side, scenario: Callable[[Side], Iterator[Any]]) -> list[Any]:
    """Run a scenario, and return its answers as trees."""
    side.remove_all()
    return [
        tree(side, each) if hasattr(each, "__slots__") and not isinstance(each, tuple | str | int)
        else each
        for each in scenario(side)
    ]  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_answers_are_those_of_kafka(
    kafka: Side, kafkalite: Side, scenario: Callable[[Side], Iterator[Any]]
) -> None:
    assert answers(kafkalite, scenario) == answers(kafka, scenario)


def test_an_unknown_token_is_refused(kafka: Side, kafkalite: Side) -> None:
    """Kafka refuses it at the first message, and kafkalite at the last one."""
    for side in (kafkalite, kafka):
        client = RawClient(side._sasl_port)
        client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        scram = ScramClient(SCRAM_MECHANISMS[0], "A" * 22, "x")
        scram.bare += ",tokenauth=true"
        answer = client.call(SaslAuthenticateRequest(auth_bytes=scram.first()), 2)
        if side is kafkalite:
            final = scram.final(bytes(answer.auth_bytes))
            answer = client.call(SaslAuthenticateRequest(auth_bytes=final), 2)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "invalid credentials with SASL mechanism SCRAM-SHA-256" in answer.error_message
        client.close()
