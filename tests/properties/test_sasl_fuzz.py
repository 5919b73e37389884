"""Random and mutated authentications: none is accepted, and none causes an exception."""

from __future__ import annotations

import random
from base64 import b64encode
from typing import TYPE_CHECKING

import pytest

from kafkalite.metadata.delegation_tokens import TokenRequest
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.security.sasl.scram_credentials import SCRAM_MECHANISMS
from tests.effort import examples
from tests.unit.frames import framed, request_frame
from tests.unit.sasl_wire import SaslClient, SaslWire
from tests.unit.security.sasl.scram_client import ScramClient

if TYPE_CHECKING:
    from collections.abc import Callable

PASSWORD = "correct horse battery staple"  # noqa: S105 - of a test
OTHER = "x" * len(PASSWORD)
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
VALID_PLAIN_TOKENS = frozenset(
    f"{authorization_id}\0alice\0{PASSWORD}".encode() for authorization_id in ("", "alice")
)
EXPECTED_REASONS = {
    reason[:50]
    for reason in (
        "SASL authentication: SCRAM-SHA-256: invalid nonce in the SCRAM client final message",
        "SASL authentication: SCRAM-SHA-256: invalid SCRAM credentials",
        "SASL authentication: the first bytes are no request",
        "SASL authentication: Unsupported SASL mechanism GSSAPI",
        "SASL authentication: Unexpected Kafka request of type METADATA during SASL handshake",
    )
}
"""Reasons that the exchanges reach; without them, they would not test much."""

VERSIONS = request_frame(
    ApiVersionsRequest(client_software_name="fuzz", client_software_version="1"), 3
)
METADATA = request_frame(MetadataRequest(topics=[]), 9)


class Attacker:
    """A client without the password, which has seen a valid exchange of each mechanism."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - reproducible
        self.wire = SaslWire(
            {
                "listener.name.outside.sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "delegation.token.secret.key": "signs all tokens",
            },
            users={"alice": PASSWORD},
            seed=seed,
        )
        self.reasons: set[str] = set()
        """The starts of the reasons why connections were closed."""
        self.seen: dict[str, tuple[bytes, bytes]] = {}
        for mechanism in SCRAM_MECHANISMS:
            client, scram = self.wire.connect(), ScramClient(mechanism, "alice", PASSWORD)
            client.handshake(mechanism.name)
            first = client.authenticate(scram.first())
            self.seen[mechanism.name] = (scram.first(), scram.final(bytes(first.auth_bytes)))
        token = self.wire.metadata.create_delegation_token(
            TokenRequest("User:alice", "User:alice", (), -1)
        )
        self.token_ids = (token.token_id, "A" * 22, "alice")
        """The id of a token, an unknown id, and a user."""
        self.plans: tuple[Callable[[SaslClient], None], ...] = (
            self.mutate_a_plain_token,
            self.mutate_a_seen_exchange,
            self.guess_a_proof,
            self.shuffle_requests,
            self.mutate_a_stream,
            self.send_random_bytes,
        )

    def mutated(self, data: bytes) -> bytes:
        """Return bytes with one to four random changes."""
        changed = bytearray(data)
        for _ in range(self.random.randint(1, 4)):
            position = self.random.randrange(len(changed) + 1)
            kind = self.random.randrange(4)
            if kind == 0:
                changed[position:position] = self.random.randbytes(self.random.randint(1, 3))
            elif kind == 1:
                del changed[position : position + self.random.randint(1, 3)]
            elif changed:
                position %= len(changed)
                if kind == 2:
                    changed[position] ^= 1 << self.random.randrange(8)
                else:
                    changed[position] = self.random.choice(b"\0,=nar\x01")
        return bytes(changed)

    def handshake(self, client: SaslClient, mechanism: str) -> int:
        """Choose a mechanism, and return the version of the handshake."""
        version = self.random.randrange(2)
        client.send(request_frame(SaslHandshakeRequest(mechanism=mechanism), version))
        return version

    def send_token(self, client: SaslClient, version: int, token: bytes) -> bytes:
        """Send a token as after a handshake of this version; return the answer."""
        if version == 0:
            return client.send(framed(token))
        return client.send(
            request_frame(SaslAuthenticateRequest(auth_bytes=token), self.random.randrange(3))
        )

    def mutate_a_plain_token(self, client: SaslClient) -> None:
        version = self.handshake(client, "PLAIN")
        token = self.mutated(self.random.choice(sorted(VALID_PLAIN_TOKENS)))
        if token not in VALID_PLAIN_TOKENS:
            self.send_token(client, version, token)

    def mutate_a_seen_exchange(self, client: SaslClient) -> None:
        mechanism = self.random.choice(sorted(self.seen))
        version = self.handshake(client, mechanism)
        for message in self.seen[mechanism]:
            changed = self.mutated(message) if self.random.randrange(2) else message
            self.send_token(client, version, changed)

    def guess_a_proof(self, client: SaslClient) -> None:
        mechanism = self.random.choice(sorted(self.seen))
        version = self.handshake(client, mechanism)
        name = self.random.choice(("alice", "bob"))
        first = self.send_token(client, version, f"n,,n={name},r=x".encode())
        nonce = first[first.find(b"r=") + 2 :].partition(b",")[0]
        proof = b64encode(self.random.randbytes(self.random.choice((0, 1, 32, 64))))
        self.send_token(client, version, b"c=biws,r=" + nonce + b",p=" + proof)

    def guess_an_hmac(self, client: SaslClient) -> None:
        mechanism = self.random.choice(SCRAM_MECHANISMS)
        version = self.handshake(client, mechanism.name)
        hmac = self.random.randbytes(self.random.choice((0, 63, 64)))
        password = self.random.choice((b64encode(hmac).decode(), PASSWORD))
        scram = ScramClient(mechanism, self.random.choice(self.token_ids), password)
        scram.bare += self.random.choice((",tokenauth=true", ",TOKENAUTH=true", ",tokenauth=TRUE"))
        if scram.bare.startswith("n=alice,") and password == PASSWORD:
            scram.bare = scram.bare.replace("TOKENAUTH", "tokenauth")  # another one is ignored
        first = self.send_token(client, version, scram.first())
        start = first.find(b"r=")
        if start >= 0:
            answer = first[start:].partition(b"i=4096")
            self.send_token(client, version, scram.final(b"".join(answer[:2])))

    def requests(self) -> list[bytes]:
        """Return the requests of an authentication with another password, in order."""
        mechanism = self.random.choice((*MECHANISMS, "GSSAPI", "OAUTHBEARER"))
        version = self.random.randrange(2)
        tokens: tuple[bytes, ...] = self.seen.get(mechanism, (f"\0alice\0{OTHER}".encode(),))
        authenticate = [
            framed(token)
            if version == 0
            else request_frame(SaslAuthenticateRequest(auth_bytes=token), 2)
            for token in tokens
        ]
        handshake = request_frame(SaslHandshakeRequest(mechanism=mechanism), version)
        return [VERSIONS, handshake, *authenticate, METADATA]

    def shuffle_requests(self, client: SaslClient) -> None:
        requests = self.requests()
        for _ in range(len(requests)):
            client.send(self.random.choice(requests))

    def mutate_a_stream(self, client: SaslClient) -> None:
        client.send(self.mutated(b"".join(self.requests())))

    def send_random_bytes(self, client: SaslClient) -> None:
        data = self.random.randbytes(self.random.randrange(60))
        client.send(framed(data) if self.random.randrange(2) else data)

    def attack(self) -> None:
        """Make one exchange that must fail."""
        client = self.wire.connect()
        # Both sides derive keys from each HMAC, which takes milliseconds.
        plan = (
            self.guess_an_hmac if not self.random.randrange(50) else self.random.choice(self.plans)
        )
        plan(client)
        client.send(METADATA)
        assert client.call.principal == "User:ANONYMOUS", plan.__name__
        assert client.is_gated, plan.__name__
        authenticator = client.call.authenticator
        if authenticator is not None and authenticator.failure is not None:
            self.reasons.add(authenticator.failure.reason[:50])
        client.session.close()
        # The delays of refused clients end from time to time.
        if not self.random.randrange(100):
            self.wire.clock.advance(1000)


def attack(exchanges: int, seed: int) -> None:
    """Make exchanges that must fail; afterwards the user can authenticate."""
    attacker = Attacker(seed)
    for _ in range(exchanges):
        attacker.attack()
    assert attacker.reasons >= EXPECTED_REASONS
    client = attacker.wire.connect()
    assert client.log_in(PASSWORD).error_code == 0
    assert client.call.principal == "User:alice"
    assert not client.is_gated


@pytest.mark.parametrize("seed", range(4))
def test_no_mutated_authentication_is_accepted(seed: int) -> None:
    attack(examples(500), seed)


@pytest.mark.endurance
@pytest.mark.parametrize("seed", range(100, 140))
def test_no_authentication_of_a_million_is_accepted(seed: int) -> None:
    attack(25_000, seed)
