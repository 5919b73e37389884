"""Access: how a broker is reached that wants TLS, a password, or both; the client's side of SASL.

Mechanisms are PLAIN and SCRAM (RFC 5802), as generators: each yields what the client says, and is
sent what the broker answered.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkalite.ports.entropy import SystemEntropy
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalite.protocol.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Generator, Mapping

    from kafkalite.protocol.message import Message

    Call = Callable[[Message, int], Awaitable[Any]]
    Exchange = Generator[bytes, bytes, None]

MOST_ITERATIONS: Final = 1_000_000
"""Rounds of hashing that a broker may ask for; Kafka's own default is 4,096."""

_HANDSHAKE_VERSION: Final = 1
"""From here on tokens are in requests of their own."""
_AUTHENTICATE_VERSION: Final = 1


class LoginError(Exception):
    """A broker that does not let us in, or is not who it says; the text is one line for people."""


@dataclass(frozen=True, slots=True)
class Login:
    """Who asks, and how that is proved."""

    mechanism: str
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Access:
    """What it takes to be let in."""

    tls: ssl.SSLContext | None = None
    login: Login | None = None

    @property
    def doubt(self) -> str:
        """What to ask oneself where a broker hangs up, or is silent, and does not say why."""
        return _DOUBTS[self.tls is not None, self.login is not None]


_DOUBTS: Final = {
    (False, False): "does it want TLS or a password?",
    (False, True): "does it want TLS, or no password?",
    (True, False): "does it speak TLS? does it want a password?",
    (True, True): "does it speak TLS? does it want a password at all?",
}
"""By whether we speak TLS, and whether we log in."""


OPEN: Final = Access()
"""A listener that takes anybody, in plain text."""


async def log_in(login: Login, call: Call) -> None:
    """Say who asks on a connection of which `call` sends a request in a version; LoginError."""
    mechanism = login.mechanism
    told = await call(SaslHandshakeRequest(mechanism=mechanism), _HANDSHAKE_VERSION)
    if told.error_code:
        known = ", ".join(told.mechanisms) or "none at all"
        raise LoginError(f"the broker does not take {mechanism}, but {known}")
    steps = MECHANISMS[mechanism](login, SystemEntropy().uuid4_text())
    said = next(steps)
    while True:
        told = await call(SaslAuthenticateRequest(auth_bytes=said), _AUTHENTICATE_VERSION)
        if told.error_code:
            why = told.error_message or ErrorCode(told.error_code).message
            raise LoginError(f"the broker refuses user {login.user!r}: {why}")
        try:
            said = steps.send(bytes(told.auth_bytes))
        except StopIteration:
            return


def plain(login: Login, nonce: str) -> Exchange:
    """Say the password as it is; RFC 4616."""
    del nonce
    yield f"\0{login.user}\0{login.password}".encode()


def scram(hash_name: str, login: Login, nonce: str) -> Exchange:
    """Prove that the password is known, and see that the broker knows it too."""
    name = login.user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}"
    answer = (yield f"n,,{first}".encode()).decode("utf-8", "replace")
    told = _attributes(answer)
    try:
        salt, iterations, whole_nonce = b64decode(told["s"]), int(told["i"]), told["r"]
    except (KeyError, ValueError):
        raise LoginError("the broker does not speak SCRAM") from None
    if not (whole_nonce.startswith(nonce) and 0 < iterations <= MOST_ITERATIONS):
        raise LoginError("the broker's part of SCRAM is not one for this login")
    last = f"c=biws,r={whole_nonce}"
    salted = hashlib.pbkdf2_hmac(hash_name, login.password.encode(), salt, iterations)
    both = f"{first},{answer},{last}".encode()

    def signed(key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, hash_name)

    client_key = signed(salted, b"Client Key")
    signature = signed(hashlib.new(hash_name, client_key).digest(), both)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    answer = (yield f"{last},p={b64encode(proof).decode()}".encode()).decode("utf-8", "replace")
    expected = b64encode(signed(signed(salted, b"Server Key"), both)).decode()
    if not hmac.compare_digest(_attributes(answer).get("v", "").encode(), expected.encode()):
        raise LoginError("the broker does not prove that it knows the password")


def _attributes(text: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in text.split(",")}


MECHANISMS: Final[Mapping[str, Callable[[Login, str], Exchange]]] = {
    "PLAIN": plain,
    "SCRAM-SHA-256": partial(scram, "sha256"),
    "SCRAM-SHA-512": partial(scram, "sha512"),
}
"""By name: what the client says."""
