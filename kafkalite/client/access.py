"""Access: TLS and SASL settings of a connection, and the client's side of SASL.

The mechanisms are PLAIN, SCRAM (RFC 5802) and OAUTHBEARER. Each is a generator: it yields the
client's tokens and receives the broker's.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkalite.ports.entropy import SystemEntropy
from kafkalite.protocol._generated.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Generator, Mapping

    from kafkalite.protocol.message import Message

    SendRequest = Callable[[Message, int], Awaitable[Any]]
    SaslExchange = Generator[bytes, bytes, None]

MAX_ITERATIONS: Final = 1_000_000
"""Maximum number of PBKDF2 iterations that a broker may request; Kafka's default is 4,096."""

_HANDSHAKE_VERSION: Final = 1
"""From this version on, tokens are sent in SaslAuthenticate requests."""
_AUTHENTICATE_VERSION: Final = 1


class LoginError(Exception):
    """The broker refuses the login or does not prove its identity; the text is one line."""


@dataclass(frozen=True, slots=True)
class Login:
    """A user and a password, and the SASL mechanism."""

    mechanism: str
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Access:
    """Settings of a connection to a broker: TLS and login, both optional, and the client id."""

    tls: ssl.SSLContext | None = None
    login: Login | None = None
    client_id: str = "kafkalite"

    @property
    def tls_question(self) -> str:
        """A question that helps the user if the broker may expect the other choice of TLS."""
        return "does it support TLS?" if self.tls else "does it require TLS?"

    @property
    def login_question(self) -> str:
        """A question that helps the user if the broker may expect the other choice of a login."""
        return "does it support passwords?" if self.login else "does it require a password?"


PLAINTEXT: Final = Access()
"""Neither TLS nor a login, as Kafka's security protocol PLAINTEXT."""


async def log_in(login: Login, call: SendRequest) -> None:
    """Log in on a connection; `call` sends a request in a version. Raises LoginError if refused."""
    mechanism = login.mechanism
    response = await call(SaslHandshakeRequest(mechanism=mechanism), _HANDSHAKE_VERSION)
    if response.error_code:
        enabled = ", ".join(response.mechanisms) or "no mechanism"
        raise LoginError(f"the broker does not support {mechanism}, but {enabled}")
    exchange = MECHANISMS[mechanism](login, SystemEntropy().uuid4_text())
    token = next(exchange)
    while True:
        response = await call(SaslAuthenticateRequest(auth_bytes=token), _AUTHENTICATE_VERSION)
        if response.error_code:
            reason = response.error_message or ErrorCode(response.error_code).message
            raise LoginError(f"the broker refuses user {login.user!r}: {reason}")
        try:
            token = exchange.send(bytes(response.auth_bytes))
        except StopIteration:
            return


def plain(login: Login, nonce: str) -> SaslExchange:
    """Send the password in plain text (RFC 4616)."""
    del nonce
    yield f"\0{login.user}\0{login.password}".encode()


def scram(hash_name: str, login: Login, nonce: str) -> SaslExchange:
    """Prove that the client knows the password, and check that the broker knows it too."""
    name = login.user.replace("=", "=3D").replace(",", "=2C")
    first_message = f"n={name},r={nonce}"
    answer = (yield f"n,,{first_message}".encode()).decode("utf-8", "replace")
    attributes = _attributes(answer)
    try:
        salt, iterations = b64decode(attributes["s"]), int(attributes["i"])
        combined_nonce = attributes["r"]
    except (KeyError, ValueError):
        raise LoginError("the broker sends an invalid SCRAM message") from None
    if not (combined_nonce.startswith(nonce) and 0 < iterations <= MAX_ITERATIONS):
        raise LoginError("the broker sends an invalid SCRAM nonce or iteration count")
    final_message = f"c=biws,r={combined_nonce}"
    salted_password = hashlib.pbkdf2_hmac(hash_name, login.password.encode(), salt, iterations)
    auth_message = f"{first_message},{answer},{final_message}".encode()

    def sign(key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, hash_name)

    client_key = sign(salted_password, b"Client Key")
    signature = sign(hashlib.new(hash_name, client_key).digest(), auth_message)
    proof = bytes(
        key_byte ^ signature_byte
        for key_byte, signature_byte in zip(client_key, signature, strict=True)
    )
    answer = (yield f"{final_message},p={b64encode(proof).decode()}".encode()).decode(
        "utf-8", "replace"
    )
    expected = b64encode(sign(sign(salted_password, b"Server Key"), auth_message)).decode()
    if not hmac.compare_digest(_attributes(answer).get("v", "").encode(), expected.encode()):
        raise LoginError("the broker does not prove that it knows the password")


def _attributes(text: str) -> dict[str, str]:
    """Return the attributes of a SCRAM message: letter → value."""
    return {part[:1]: part[2:] for part in text.split(",")}


def bearer_token(login: Login, nonce: str) -> SaslExchange:
    """Send the password, which is a token (RFC 7628)."""
    del nonce
    answer = yield f"n,,\x01auth=Bearer {login.password}\x01\x01".encode()
    if answer:
        # The broker answers to this message with the error, and ends the exchange.
        yield b"\x01"


MECHANISMS: Final[Mapping[str, Callable[[Login, str], SaslExchange]]] = {
    "PLAIN": plain,
    "OAUTHBEARER": bearer_token,
    "SCRAM-SHA-256": partial(scram, "sha256"),
    "SCRAM-SHA-512": partial(scram, "sha512"),
}
"""Mechanism → generator of the client's tokens."""
