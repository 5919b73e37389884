"""Random and mutated authentications by a client that does not know the password of a user.

`python -m tests.properties.authentication_attacks` makes a million of them, and prints why they
failed.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from base64 import b64encode, urlsafe_b64encode
from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalite.metadata.delegation_tokens import TokenRequest
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.security.sasl.scram_credentials import SCRAM_MECHANISMS
from kafkalite.security.sasl.users import LOGIN_MODULES
from tests.cluster.sasl import SaslClient, SaslCluster
from tests.unit.frames import framed, request_frame
from tests.unit.security.sasl.scram_client import ScramClient

if TYPE_CHECKING:
    from collections.abc import Callable

PASSWORD: Final = "correct horse battery staple"  # noqa: S105 - of a test
OTHER: Final = "x" * len(PASSWORD)
OWN_PASSWORD: Final = "of mallory"  # noqa: S105 - of a test
SCOPE: Final = "produce-and-consume"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
VALID_PLAIN_TOKENS: Final = frozenset(
    f"{authorization_id}\0alice\0{PASSWORD}".encode() for authorization_id in ("", "alice")
)
_PREFIX: Final = "listener.name.outside."
_CONFIG: Final = {
    f"{_PREFIX}sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "delegation.token.secret.key": "signs all tokens",
    f"{_PREFIX}oauthbearer.sasl.jaas.config": f"{LOGIN_MODULES['OAUTHBEARER']} required "
    f'unsecuredValidatorRequiredScope="{SCOPE}";',
}
_SESSION_CONFIG: Final = {**_CONFIG, f"{_PREFIX}connections.max.reauth.ms": "3600000"}
_REASON_LENGTH: Final = 50
_EXCHANGES_PER_HMAC: Final = 50
_PRINTED_REASONS: Final = 25
EXPECTED_REASONS: Final = frozenset(
    reason[:_REASON_LENGTH]
    for reason in (
        "SASL authentication: SCRAM-SHA-256: invalid nonce in the SCRAM client final message",
        "SASL authentication: SCRAM-SHA-256: invalid SCRAM credentials",
        "SASL authentication: SCRAM-SHA-512: Authentication failed: Client requested",
        'SASL authentication: OAUTHBEARER: {"status":"insufficient_scope"',
        "SASL authentication: the first bytes are no request",
        "SASL authentication: Unsupported SASL mechanism GSSAPI",
        "SASL authentication: Unexpected Kafka request of type METADATA during SASL handshake",
        "SASL re-authentication: PLAIN: Cannot change principals during re-authentication",
        "SASL re-authentication: the SASL mechanism of a re-authentication differs",
    )
)
"""Reasons that the exchanges reach; without them, they would not test much."""

VERSIONS: Final = request_frame(
    ApiVersionsRequest(client_software_name="fuzz", client_software_version="1"), 3
)
METADATA: Final = request_frame(MetadataRequest(topics=[]), 9)


class Attacker:
    """A client with an account of its own, which has seen valid exchanges of another user."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - reproducible
        users = {"alice": PASSWORD, "mallory": OWN_PASSWORD}
        self.wire = SaslCluster(_CONFIG, users=users, seed=seed)
        self.session_wire = SaslCluster(_SESSION_CONFIG, users=users, seed=seed)
        """A listener on which clients must authenticate again."""
        self.reasons: Counter[str] = Counter()
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
            self.mutate_a_bearer_token,
            self.guess_a_proof,
            self.send_a_proof_of_another_connection,
            self.use_the_own_password_for_another_user,
            self.shuffle_requests,
            self.mutate_a_stream,
            self.send_random_bytes,
            self.authenticate_again_as_another_user,
        )

    def mutated(self, data: bytes) -> bytes:
        """Return bytes with one to four random changes."""
        changed = bytearray(data)
        for _ in range(self.random.randint(1, 4)):
            position = self.random.randrange(len(changed) + 1)
            kind = self.random.randrange(5)
            if kind == 0:
                changed[position:position] = self.random.randbytes(self.random.randint(1, 3))
            elif kind == 1:
                del changed[position : position + self.random.randint(1, 3)]
            elif kind == 2 and not self.random.randrange(4):
                del changed[position:]
            elif changed:
                position %= len(changed)
                if kind == 3:
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
        """Send a token as after a handshake of this version; return the broker's token, if any."""
        if version == 0:
            return client.send(framed(token))[4:]
        response = client.authenticate(token, self.random.randrange(3))
        return b"" if response is None else bytes(response.auth_bytes)

    def send_scram(self, client: SaslClient, version: int, scram: ScramClient) -> None:
        """Send both messages of a client, unless the first is refused."""
        first = self.send_token(client, version, scram.first())
        if first:
            self.send_token(client, version, scram.final(first))

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

    def mutate_a_bearer_token(self, client: SaslClient) -> None:
        """Send a token without the required scope, which no mutation adds."""
        version = self.handshake(client, "OAUTHBEARER")
        expires_s = self.wire.clock.now_ms() // 1000 + self.random.choice((-1, 0, 3600))
        claims = {"sub": "alice", "exp": expires_s, "scope": self.random.choice(("", "consume"))}
        header, body = (
            urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
            for part in ({"alg": "none"}, claims)
        )
        token = b"n,,\x01auth=Bearer " + header + b"." + body + b".\x01\x01"
        self.send_token(client, version, self.mutated(token) if self.random.randrange(4) else token)
        self.send_token(client, version, self.random.choice((b"\x01", token)))

    def guess_a_proof(self, client: SaslClient) -> None:
        mechanism = self.random.choice(sorted(self.seen))
        version = self.handshake(client, mechanism)
        name = self.random.choice(("alice", "bob"))
        first = self.send_token(client, version, f"n,,n={name},r=x".encode())
        nonce = first[first.find(b"r=") + 2 :].partition(b",")[0]
        proof = b64encode(self.random.randbytes(self.random.choice((0, 1, 32, 64))))
        self.send_token(client, version, b"c=biws,r=" + nonce + b",p=" + proof)

    def guess_an_hmac(self, client: SaslClient) -> None:
        """Log in by a delegation token whose HMAC is unknown."""
        mechanism = self.random.choice(SCRAM_MECHANISMS)
        hmac = self.random.randbytes(self.random.choice((0, 63, 64)))
        password = self.random.choice((b64encode(hmac).decode(), PASSWORD))
        scram = ScramClient(mechanism, self.random.choice(self.token_ids), password)
        scram.bare += self.random.choice((",tokenauth=true", ",TOKENAUTH=true", ",tokenauth=TRUE"))
        if scram.bare.startswith("n=alice,") and password == PASSWORD:
            scram.bare = scram.bare.replace("TOKENAUTH", "tokenauth")  # another one is ignored
        self.send_scram(client, self.handshake(client, mechanism.name), scram)

    def send_a_proof_of_another_connection(self, client: SaslClient) -> None:
        """Send the proof that a user has made for another connection at the same time."""
        mechanism = self.random.choice(SCRAM_MECHANISMS)
        scram = ScramClient(mechanism, "alice", PASSWORD, f"nonce{self.random.randrange(10)}")
        other = self.wire.connect()
        answers = []
        for each in (client, other):
            each.handshake(mechanism.name)
            answers.append(bytes(each.authenticate(scram.first()).auth_bytes))
        own, others = answers
        final = scram.final(others)
        if self.random.randrange(2):  # with the nonce of this connection
            final = final.replace(nonce_of(others), nonce_of(own))
        self.send_token(client, 1, final)
        other.session.close()

    def use_the_own_password_for_another_user(self, client: SaslClient) -> None:
        kind = self.random.randrange(5)
        if kind == 0:
            version = self.handshake(client, "PLAIN")
            self.send_token(client, version, f"alice\0mallory\0{OWN_PASSWORD}".encode())
            return
        mechanism = self.random.choice(SCRAM_MECHANISMS)
        scram = ScramClient(mechanism, "mallory" if kind == 1 else "alice", OWN_PASSWORD)
        if kind == 1:
            scram.header = "n,a=alice,"
        elif kind == 2:
            scram.bare += ",tokenauth=true"
        elif kind == 3:  # the proof of a mechanism for another
            mechanism = SCRAM_MECHANISMS[SCRAM_MECHANISMS.index(mechanism) - 1]
        self.send_scram(client, self.handshake(client, mechanism.name), scram)

    def authenticate_again_as_another_user(self, client: SaslClient) -> None:
        """Authenticate as mallory, and then with the password of alice, which a user knows."""
        assert client.log_in(OWN_PASSWORD, "mallory").error_code == 0
        mechanism = self.random.choice((*MECHANISMS, "GSSAPI"))
        version = self.handshake(client, mechanism)
        token = f"\0alice\0{PASSWORD}".encode()
        self.send_token(client, version, self.mutated(token) if self.random.randrange(2) else token)

    def requests(self) -> list[bytes]:
        """Return the requests of an authentication with another password, in order."""
        mechanism = self.random.choice((*MECHANISMS, "GSSAPI"))
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
        """Make one exchange; raises AssertionError if the client has become another user."""
        # Both sides derive keys from each HMAC, which takes milliseconds.
        is_hmac = not self.random.randrange(_EXCHANGES_PER_HMAC)
        plan = self.guess_an_hmac if is_hmac else self.random.choice(self.plans)
        is_again = plan == self.authenticate_again_as_another_user
        client = (self.session_wire if is_again else self.wire).connect()
        plan(client)
        client.send(METADATA)
        principal = "User:mallory" if is_again else "User:ANONYMOUS"
        assert client.context.principal == principal, plan.__name__
        assert client.is_gated, plan.__name__
        authenticator = client.context.authenticator
        if authenticator is not None and authenticator.failure is not None:
            self.reasons[authenticator.failure.reason[:_REASON_LENGTH]] += 1
        client.session.close()
        # The delays of refused clients end from time to time.
        if not self.random.randrange(100):
            self.wire.clock.advance(1000)
            self.session_wire.clock.advance(1000)


def nonce_of(server_first: bytes) -> bytes:
    """Return the nonce of a server's first message."""
    return server_first[2:].partition(b",")[0]


def attack(exchanges: int, seed: int) -> Counter[str]:
    """Make exchanges that must fail, and return why they failed; raises AssertionError.

    Afterwards the user can authenticate.
    """
    attacker = Attacker(seed)
    for _ in range(exchanges):
        attacker.attack()
    client = attacker.wire.connect()
    assert client.log_in(PASSWORD).error_code == 0
    assert client.context.principal == "User:alice"
    assert not client.is_gated
    return attacker.reasons


def main() -> None:
    """Make the requested exchanges, and print why they failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exchanges", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    start_s = time.monotonic()
    reasons = attack(arguments.exchanges, arguments.seed)
    duration_s = time.monotonic() - start_s
    print(f"{arguments.exchanges} exchanges, 0 admitted, in {duration_s:.0f} s")  # noqa: T201
    for reason, count in reasons.most_common(_PRINTED_REASONS):
        print(f"{count:9} {reason}")  # noqa: T201 - the output of a program


if __name__ == "__main__":
    main()
