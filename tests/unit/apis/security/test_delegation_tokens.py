"""Delegation tokens over the wire: requests, refusals, logins by token, and their sessions."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.apis.security.delegation_tokens import handle_describe_delegation_token
from kafkalite.client.access import Access, Login
from kafkalite.client.client import KafkaClient
from kafkalite.metadata.delegation_tokens import MAX_RECORD_BYTES
from kafkalite.ports.workers import Worker
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
from kafkalite.protocol.acl_operations import Entity, Operation, Resource
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from kafkalite.security.delegation_tokens import token_credential
from kafkalite.security.sasl.scram_credentials import SCRAM_MECHANISMS, SCRAM_SHA_256
from kafkalite.server import sasl_listener
from kafkalite.server.addresses import Address
from kafkalite.testing import Broker
from tests.cluster.cluster import TestCluster
from tests.cluster.sasl import SaslClient, SaslCluster
from tests.unit.security.sasl.scram_client import ScramClient

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kafkalite.security.sasl.scram_credentials import ScramCredential, ScramMechanism

KEY = "the secret key"
TOKENS = {"delegation.token.secret.key": KEY}
USERS = {"alice": "a", "bob": "b", "carol": "c"}
DAY_MS = 86_400_000
Renewer = CreateDelegationTokenRequest.CreatableRenewers
Owner = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner

NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
DISABLED = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def wire_with(config: Mapping[str, str] = TOKENS) -> SaslCluster:
    return SaslCluster(config, users=USERS)


def client_of(wire: SaslCluster, name: str = "alice") -> SaslClient:
    client = wire.connect()
    assert client.log_in(USERS[name], name).error_code == 0
    return client


def create(client: SaslClient, *renewers: str, version: int = 3, **fields: Any) -> Any:  # noqa: ANN401 - any response
    """Create a token for the client, with renewers such as "User:bob"."""
    request = CreateDelegationTokenRequest(
        renewers=[
            Renewer(principal_type=kind, principal_name=name)
            for kind, _, name in (each.partition(":") for each in renewers)
        ],
        **{"owner_principal_type": None, "owner_principal_name": None, "max_lifetime_ms": -1}
        | fields,
    )
    return client.request(request, version)


def renew(client: SaslClient, hmac: bytes, period_ms: int = -1, version: int = 2) -> Any:  # noqa: ANN401 - any response
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    return client.request(request, version)


def expire(client: SaslClient, hmac: bytes, period_ms: int = -1, version: int = 2) -> Any:  # noqa: ANN401 - any response
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    return client.request(request, version)


def describe(client: SaslClient, *owners: str | None, version: int = 3) -> Any:  # noqa: ANN401 - any response
    """Describe the tokens of owners such as "User:bob", or with None all tokens."""
    named = [
        Owner(principal_type=kind, principal_name=name)
        for kind, _, name in (each.partition(":") for each in owners if each is not None)
    ]
    request = DescribeDelegationTokenRequest(owners=None if None in owners else named)
    return client.request(request, version)


def requester_of(token: Any) -> str:  # noqa: ANN401 - a response
    return str(token.token_requester_principal_name)


def start_login(
    client: SaslClient, mechanism: ScramMechanism, token_id: str, password: str
) -> tuple[ScramClient, Any]:
    scram = ScramClient(mechanism, token_id, password)
    scram.bare += ",tokenauth=true"
    client.handshake(mechanism.name)
    return scram, client.authenticate(scram.first())


def log_in_by_token(
    client: SaslClient,
    token: Any,  # noqa: ANN401 - a response
    mechanism: ScramMechanism = SCRAM_SHA_256,
) -> Any:  # noqa: ANN401 - any response
    """Return the response to the last token; None if the connection is closed later."""
    password = b64encode(bytes(token.hmac)).decode()
    scram, first = start_login(client, mechanism, token.token_id, password)
    return client.authenticate(scram.final(bytes(first.auth_bytes)))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_created_token_is_described(version: int) -> None:
    wire = wire_with()
    client, now_ms = client_of(wire), wire.clock.now_ms()
    token = create(client, "User:bob", "User:carol", version=version)
    assert token.error_code == 0
    assert (token.principal_type, token.principal_name) == ("User", "alice")
    assert (token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms) == (
        now_ms, now_ms + DAY_MS, now_ms + 7 * DAY_MS,
    )  # fmt: skip
    response = describe(client, None, version=version)
    (described,) = response.tokens
    assert (response.error_code, described.token_id) == (0, token.token_id)
    assert bytes(described.hmac) == bytes(token.hmac)
    assert len(token.hmac) == 64
    assert (described.principal_type, described.principal_name) == ("User", "alice")
    assert (described.issue_timestamp, described.expiry_timestamp, described.max_timestamp) == (
        now_ms, now_ms + DAY_MS, now_ms + 7 * DAY_MS,
    )  # fmt: skip
    assert [(each.principal_type, each.principal_name) for each in described.renewers] == [
        ("User", "bob"), ("User", "carol"),
    ]  # fmt: skip
    requester = ("User", "alice") if version == 3 else ("", "")
    for each in (token, described):
        assert requester == (
            each.token_requester_principal_type, each.token_requester_principal_name
        )  # fmt: skip


def test_a_token_is_created_for_another_owner() -> None:
    wire = wire_with()
    alice = client_of(wire)
    token = create(alice, owner_principal_type="User", owner_principal_name="bob")
    assert (token.error_code, token.principal_name) == (0, "bob")
    assert requester_of(token) == "alice"
    assert renew(alice, token.hmac).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renew(client_of(wire, "bob"), token.hmac).error_code == 0
    (described,) = describe(alice, "User:alice").tokens
    assert (described.principal_name, described.token_requester_principal_name) == ("bob", "alice")


def test_an_owner_without_a_type_is_an_error_as_in_kafka() -> None:
    token = create(client_of(wire_with()), owner_principal_name="bob")
    assert (token.error_code, token.principal_name) == (ErrorCode.UNKNOWN_SERVER_ERROR, "ANONYMOUS")
    assert (token.issue_timestamp_ms, token.token_id, bytes(token.hmac)) == (-1, "", b"")


def test_an_owner_with_an_empty_name_is_the_client() -> None:
    token = create(client_of(wire_with()), owner_principal_type="Group", owner_principal_name="")
    assert (token.principal_type, token.principal_name) == ("User", "alice")


@pytest.mark.parametrize("config", [TOKENS, {}])
def test_renewers_must_be_users(config: Mapping[str, str]) -> None:
    client = client_of(wire_with(config))
    token = create(client, "User:bob", "Group:carol")
    assert (token.error_code, token.principal_name) == (ErrorCode.INVALID_PRINCIPAL_TYPE, "alice")
    assert (token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms) == (
        -1, -1, -1,
    )  # fmt: skip
    assert describe(client, None).tokens == []


def test_without_a_secret_key_tokens_are_disabled() -> None:
    client = client_of(wire_with({}))
    token = create(client)
    assert (token.error_code, token.principal_name) == (DISABLED, "alice")
    # Kafka's controller does not set the times.
    assert (token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms) == (
        0,
        0,
        0,
    )
    for response in (renew(client, b"x"), expire(client, b"x")):
        assert (response.error_code, response.expiry_timestamp_ms) == (DISABLED, 0)
    assert describe(client, None).error_code == DISABLED
    assert describe(client).error_code == DISABLED


def test_the_owner_and_renewers_change_the_expiry() -> None:
    wire = wire_with()
    alice, bob, carol = (client_of(wire, name) for name in ("alice", "bob", "carol"))
    token, now_ms = create(alice, "User:bob"), wire.clock.now_ms()
    for version in (1, 2):
        response = renew(bob, token.hmac, 1_000, version)
        assert (response.error_code, response.expiry_timestamp_ms) == (0, now_ms + 1_000)
        response = expire(bob, token.hmac, 2_000, version)
        assert (response.error_code, response.expiry_timestamp_ms) == (0, now_ms + 2_000)
    for response in (renew(carol, token.hmac), expire(carol, token.hmac)):
        assert response.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert response.expiry_timestamp_ms == 0
    assert describe(alice, None).tokens[0].expiry_timestamp == now_ms + 2_000
    wire.clock.advance(2_001)
    assert renew(alice, token.hmac).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert expire(alice, token.hmac, 5).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert expire(alice, token.hmac).error_code == 0
    assert renew(alice, token.hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert describe(alice, None).tokens == []


@pytest.mark.parametrize("hmac", [b"", b"x" * 63, b"x" * 64, b"x" * 100_000])
def test_an_unknown_hmac_is_not_found(hmac: bytes) -> None:
    client = client_of(wire_with())
    for response in (renew(client, hmac), expire(client, hmac)):
        assert response.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_tokens_are_selected_by_their_principals() -> None:
    wire = wire_with()
    alice, bob = client_of(wire), client_of(wire, "bob")
    mine = create(alice).token_id
    renewed = create(alice, "User:carol").token_id
    of_bob = create(bob).token_id

    def selected(*owners: str | None) -> set[str]:
        return {each.token_id for each in describe(alice, *owners).tokens}

    # Without an authorizer, everyone may describe all tokens.
    assert selected(None) == {mine, renewed, of_bob}
    assert selected() == set()
    assert selected("User:alice") == {mine, renewed}
    assert selected("User:carol") == {renewed}
    assert selected("User:bob", "User:carol") == {renewed, of_bob}
    assert selected("Group:alice", "User:dave") == set()


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_a_client_logs_in_by_token_until_it_expires(mechanism: ScramMechanism) -> None:
    wire = wire_with()
    alice = client_of(wire)
    token = create(alice, max_lifetime_ms=60_000)
    client = wire.connect()
    answer = log_in_by_token(client, token, mechanism)
    assert (answer.error_code, answer.session_lifetime_ms) == (0, 60_000)
    assert client.context.principal == "User:alice"
    assert client.is_gated, "the session can expire"
    wire.clock.advance(60_001)
    assert describe(client, None) is None
    assert client.violation is not None
    assert "the session has expired" in client.violation


def test_a_client_authenticates_again_with_a_renewed_token() -> None:
    wire = wire_with(TOKENS | {"delegation.token.expiry.time.ms": "60000"})
    alice = client_of(wire)
    token = create(alice)
    client = wire.connect()
    log_in_by_token(client, token)
    wire.clock.advance(50_000)
    renew(alice, token.hmac)
    answer = log_in_by_token(client, token)
    assert (answer.error_code, answer.session_lifetime_ms) == (0, 60_000)
    wire.clock.advance(50_000)
    assert describe(client, None).error_code == NOT_ALLOWED, "the session is valid"


def test_a_client_that_logged_in_by_token_requests_no_tokens() -> None:
    wire = wire_with()
    alice = client_of(wire)
    token = create(alice)
    client = wire.connect()
    log_in_by_token(client, token)
    created = create(client, owner_principal_type="User", owner_principal_name="bob")
    assert (created.error_code, created.issue_timestamp_ms) == (NOT_ALLOWED, -1)
    assert (created.principal_name, created.token_requester_principal_name) == ("bob", "alice")
    for response in (renew(client, token.hmac), expire(client, token.hmac)):
        assert (response.error_code, response.expiry_timestamp_ms) == (NOT_ALLOWED, -1)
    assert (describe(client, None).error_code, describe(client, None).tokens) == (NOT_ALLOWED, [])
    entries = wire.node.history.about("127.0.0.1", of=Entity.CLIENT)
    assert [
        entry.facts["api"] for entry in entries if entry.facts["error"] == NOT_ALLOWED.name
    ] == [
        "CreateDelegationToken",
        "RenewDelegationToken",
        "ExpireDelegationToken",
        "DescribeDelegationToken",
    ]
    assert [each.token_id for each in describe(alice, None).tokens] == [token.token_id]


def test_an_expired_token_that_is_not_removed_gives_a_session_without_lifetime() -> None:
    wire = wire_with()
    token = create(client_of(wire), max_lifetime_ms=1)
    wire.clock.advance(10)
    client = wire.connect()
    answer = log_in_by_token(client, token)
    assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
    assert describe(client, None) is None, "also while the clock is stopped"
    assert client.violation is not None


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_wrong_and_unknown_tokens_get_the_same_answers(mechanism: ScramMechanism) -> None:
    wire = wire_with()
    alice = client_of(wire)
    token = create(alice)
    removed = create(alice)
    expire(alice, removed.hmac)
    answers = []
    for token_id, password in (
        (token.token_id, "wrong"),
        ("A" * 22, "wrong"),
        (removed.token_id, b64encode(bytes(removed.hmac)).decode()),
        ("alice", USERS["alice"]),
    ):
        client = wire.connect()
        scram, first = start_login(client, mechanism, token_id, password)
        attributes = dict(
            pair.split("=", 1) for pair in bytes(first.auth_bytes).decode().split(",")
        )
        assert client.authenticate(scram.final(bytes(first.auth_bytes))) is None
        (refusal,) = {client.fail_later()[-120:]}
        answers.append(
            (attributes["i"], len(attributes["s"]), refusal[4:], client.context.principal)
        )
        assert client.violation is not None
    assert len(set(answers)) == 1
    assert b"invalid credentials" in answers[0][2]


def test_keys_are_derived_once_for_a_token_and_not_for_unknown_ids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    derived = []

    def derive(mechanism: ScramMechanism, key: str, token_id: str, salt: bytes) -> ScramCredential:
        derived.append(token_id)
        return token_credential(mechanism, key, token_id, salt)

    monkeypatch.setattr(sasl_listener, "token_credential", derive)
    wire = wire_with()
    token = create(client_of(wire))
    for _ in range(3):
        start_login(wire.connect(), SCRAM_SHA_256, "A" * 22, "wrong")
        assert log_in_by_token(wire.connect(), token).error_code == 0
    assert derived == [token.token_id]


def test_the_salt_of_a_token_is_the_same_before_and_after_its_removal() -> None:
    wire = wire_with()
    alice = client_of(wire)
    token = create(alice)

    def salt() -> str:
        _, first = start_login(wire.connect(), SCRAM_SHA_256, token.token_id, "x")
        return bytes(first.auth_bytes).decode().split(",")[1]

    before = salt()
    expire(alice, token.hmac)
    assert salt() == before


def test_a_token_id_is_no_user_without_the_extension() -> None:
    wire = wire_with()
    token = create(client_of(wire))
    client = wire.connect()
    password = b64encode(bytes(token.hmac)).decode()
    assert client.log_in_by_scram(SCRAM_SHA_256, token.token_id, password) is None
    assert client.context.principal == "User:ANONYMOUS"


def test_a_token_of_another_type_of_principal_authenticates_the_user_of_this_name() -> None:
    """As in Kafka, where the name alone is the authorization id."""
    wire = wire_with()
    token = create(client_of(wire), owner_principal_type="Group", owner_principal_name="g:1")
    client = wire.connect()
    log_in_by_token(client, token)
    assert client.context.principal == "User:g:1"


def test_without_a_secret_key_no_client_logs_in_by_token() -> None:
    wire = wire_with({})
    client = wire.connect()
    scram, first = start_login(client, SCRAM_SHA_256, "A" * 22, "x")
    assert client.authenticate(scram.final(bytes(first.auth_bytes))) is None
    assert client.context.principal == "User:ANONYMOUS"


async def _use_a_token(broker: Broker) -> Any:  # noqa: ANN401 - a response
    """Send all requests of tokens as alice; return the response with the token."""
    access = Access(None, Login("SCRAM-SHA-512", "alice", USERS["alice"]))
    async with KafkaClient([Address.parse(broker.bootstrap_servers)], access) as client:
        token = await client.ask_any(
            CreateDelegationTokenRequest(max_lifetime_ms=-1), Versions(1, 3)
        )
        for request in (
            DescribeDelegationTokenRequest(owners=None),
            RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1),
            ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1),
            RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1),
        ):
            await client.ask_any(request, Versions(1, 2))
    return token


def test_captures_and_logs_contain_no_secrets(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Broker(
        security="SASL_PLAINTEXT", users=USERS, config=TOKENS, capture=tmp_path, log_level="debug"
    ) as broker:
        token = asyncio.run(_use_a_token(broker))
    output = capfd.readouterr()
    recorded = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))
    assert token.token_id.encode() in recorded
    written = recorded + (output.out + output.err).encode()
    hmac = bytes(token.hmac)
    for secret in (hmac, b64encode(hmac), hmac.hex().encode(), repr(hmac).encode(), KEY.encode()):
        assert secret not in written


# A cluster whose clients have the principals of certificates


AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
ALICE, BOB, ADMIN = "User:alice", "User:bob", "User:admin"


class CertificateClients:
    """Requests of clients that authenticate by TLS."""

    def __init__(self, path: Path, config: Mapping[str, str]) -> None:
        self.wire = TestCluster(path, config={**TOKENS, **config})

    def ask(self, principal: str, request: Any, version: int = 3) -> Any:  # noqa: ANN401 - any response
        self.wire.contexts[1].principal = principal
        return self.wire.ask(request, version)

    def create(self, principal: str, owner: str | None = None, renewers: int = 0) -> Any:  # noqa: ANN401 - any response
        renewer = Renewer(principal_type="User", principal_name="r" * 1_000)
        request = CreateDelegationTokenRequest(
            owner_principal_type="User",
            owner_principal_name=owner,
            renewers=[renewer] * renewers,
            max_lifetime_ms=-1,
        )
        return self.ask(principal, request)

    def described(self, principal: str) -> list[str]:
        response = self.ask(principal, DescribeDelegationTokenRequest(owners=None))
        assert response.error_code == 0
        return [each.token_id for each in response.tokens]

    def allow(self, principal: str, operation: Operation, resource: Resource, name: str) -> None:
        creation = CreateAclsRequest.AclCreation(
            resource_type=resource, resource_name=name, resource_pattern_type=3,
            principal=principal, host="*", operation=operation, permission_type=3,
        )  # fmt: skip
        (result,) = self.ask(ADMIN, CreateAclsRequest(creations=[creation])).results
        assert result.error_code == 0


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[CertificateClients]:
    clients = CertificateClients(tmp_path, AUTHORIZER)
    yield clients
    clients.wire.end()


def test_anonymous_clients_request_no_tokens(clients: CertificateClients) -> None:
    token = clients.create("User:ANONYMOUS", "bob")
    assert (token.error_code, token.principal_name) == (NOT_ALLOWED, "bob")
    assert requester_of(token) == "ANONYMOUS"
    for request in (
        RenewDelegationTokenRequest(hmac=b"x"),
        ExpireDelegationTokenRequest(hmac=b"x"),
        DescribeDelegationTokenRequest(owners=None),
    ):
        assert clients.ask("User:ANONYMOUS", request, 2).error_code == NOT_ALLOWED


def test_tokens_for_others_need_a_permission_on_the_owner(clients: CertificateClients) -> None:
    refused = clients.create(ALICE, "bob")
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "alice")
    assert clients.create(ALICE).error_code == 0
    assert clients.create(ALICE, "alice").error_code == 0
    assert clients.create(ADMIN, "bob").error_code == 0
    clients.allow(ALICE, Operation.CREATE_TOKENS, Resource.USER, BOB)
    assert clients.create(ALICE, "bob").error_code == 0
    assert clients.create(ALICE, "carol").error_code == refused.error_code


@pytest.mark.parametrize("by_owner", [True, False])
def test_tokens_of_others_are_described_by_permission(
    clients: CertificateClients, *, by_owner: bool
) -> None:
    mine, other = clients.create(ALICE).token_id, clients.create(BOB).token_id
    assert clients.described(ALICE) == [mine]
    assert clients.described(ADMIN) == [mine, other]
    assert clients.described("User:carol") == []
    if by_owner:
        clients.allow(ALICE, Operation.DESCRIBE_TOKENS, Resource.USER, BOB)
    else:
        clients.allow(ALICE, Operation.DESCRIBE, Resource.DELEGATION_TOKEN, other)
    assert clients.described(ALICE) == [mine, other]
    assert clients.described("User:carol") == []


def test_too_many_renewers_are_refused(clients: CertificateClients) -> None:
    token = clients.create(ALICE, renewers=MAX_RECORD_BYTES // 1_000)
    assert token.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (token.principal_name, token.issue_timestamp_ms) == ("ANONYMOUS", -1)
    assert clients.create(ALICE, renewers=2_000).error_code == 0


def test_tokens_survive_a_restart(clients: CertificateClients) -> None:
    token = clients.create(ALICE)
    clients.wire.restart()
    assert clients.described(ALICE) == [token.token_id]
    response = clients.ask(ALICE, RenewDelegationTokenRequest(hmac=token.hmac), 2)
    assert response.error_code == 0


def test_tokens_with_many_renewers_are_described_in_steps(clients: CertificateClients) -> None:
    for principal in (BOB, ALICE):
        clients.create(principal, renewers=200)
    responses: list[Any] = []
    request = DescribeDelegationTokenRequest(owners=None)
    worker = Worker()
    worker.task = lambda: responses.append(
        handle_describe_delegation_token(clients.wire.contexts[1].latest_call, request)
    )
    for _ in range(3):  # after each token, and among the renewers of the one that is described
        assert worker.take_turn(0.0) is worker
    assert worker.take_turn(0.0) is None
    assert [len(each.renewers) for each in responses[0].tokens] == [200]
