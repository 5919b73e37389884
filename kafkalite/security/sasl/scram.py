"""SASL SCRAM (RFC 5802): the server's side of an exchange, with the limits that Kafka has.

As in Kafka, channel binding is not supported: the only flag that is accepted is "n". The client's
proof covers the channel binding data and the nonce of its final message.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Final

from kafkalite.security.sasl.mechanism import (
    SASL_NAME,
    SaslAuthenticationError,
    SaslError,
    reason_of_mismatch,
)
from kafkalite.security.sasl.scram_credentials import MIN_ITERATIONS, substitute_credential

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.security.sasl.scram_credentials import ScramCredential, ScramMechanism

    FindCredential = Callable[[str, bool], tuple[ScramCredential, str, int | None] | None]

_TOKEN_EXTENSION: Final = "tokenauth"  # noqa: S105 - a name
"""The extension of a client whose name is the id of a delegation token."""

_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"

_CLIENT_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization_id>{SASL_NAME}))?,(?:m={_VALUE},)?"
    rf"(?P<bare>n=(?P<name>{SASL_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL: Final = re.compile(
    rf"c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS},p=(?P<proof>{_BASE64})"
)


_MAX_MESSAGE_BYTES = 8 * 1024
"""Maximum length of a client's message; those of real clients have a few hundred characters.

The nonce of the first message is stored until the next one, and to match a long message takes long.
Clients that have not authenticated must neither fill the memory nor hold up others.
"""


class ScramServer:
    """One exchange.

    `find_credential(name, is_token)` returns the keys of a user or of a delegation token, the user
    that they authenticate, and the time at which they expire, if they do; None for an unknown name.
    `nonce` must be unpredictable and used once. `secret` makes substitutes for the keys of unknown
    users. With `accepts_suffix`, the nonce of the last message needs only to end with that of the
    broker.
    """

    __slots__ = (
        "_accepts_suffix",
        "_auth_message",
        "_credential",
        "_find_credential",
        "_is_known",
        "_mechanism",
        "_name",
        "_nonce",
        "_secret",
        "_step",
        "_user",
        "expires_at_ms",
        "is_complete",
        "is_token_authenticated",
        "user",
    )  # fmt: skip
    refusal = ""

    def __init__(
        self,
        mechanism: ScramMechanism,
        find_credential: FindCredential,
        nonce: str,
        secret: bytes,
        *,
        accepts_suffix: bool = False,
    ) -> None:
        self._mechanism = mechanism
        self._accepts_suffix = accepts_suffix
        self._find_credential = find_credential
        self._nonce = nonce
        self._secret = secret
        self._step: Callable[[str], str] = self._evaluate_first
        self._credential: ScramCredential
        self._is_known = False
        self._auth_message = ""
        self._name = ""
        """The name that the client sent: that of a user, or the id of a token."""
        self._user = ""
        self.user = ""
        self.is_complete = False
        self.is_token_authenticated = False
        self.expires_at_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Return the answer to the client's next message; raises SaslError if it is refused."""
        step, self._step = self._step, _refuse_message
        if len(token) > _MAX_MESSAGE_BYTES:
            raise SaslError(f"a SCRAM message of {len(token)} bytes")
        return step(token.decode("utf-8", "replace")).encode()

    def _evaluate_first(self, message: str) -> str:
        match = _CLIENT_FIRST.fullmatch(message)
        if match is None:
            raise SaslError("invalid SCRAM client first message")
        name = match["name"].replace("=2C", ",").replace("=3D", "=")
        # Kafka looks for the credential first, so its answer shows whether the user exists.
        if match["authorization_id"] not in {None, name}:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self._name = name
        self.is_token_authenticated = _has_token(match["extensions"])
        substitute = substitute_credential(self._mechanism, self._secret, name)
        found = self._find_credential(name, self.is_token_authenticated)
        self._is_known = found is not None
        if found is None:
            self._credential = substitute
        else:
            self._credential, self._user, self.expires_at_ms = found
        credential = self._credential
        if credential.iterations < MIN_ITERATIONS:
            raise SaslError(f"the credential has less than {MIN_ITERATIONS} iterations")
        self._nonce = match["nonce"] + self._nonce
        salt = b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._auth_message = f"{match['bare']},{answer}"
        self._step = self._evaluate_final
        return answer

    def _evaluate_final(self, message: str) -> str:
        match = _CLIENT_FINAL.fullmatch(message)
        if match is None:
            raise SaslError("invalid SCRAM client final message")
        nonce = match["nonce"]
        if nonce != self._nonce:
            has_suffix = nonce.endswith(self._nonce)
            if not (has_suffix and self._accepts_suffix):
                advice = (
                    ": the part of the client is sent twice, as by librdkafka before 2.6.1, which "
                    "Kafka 4 refuses"
                )
                raise SaslError(
                    f"invalid nonce in the SCRAM client final message{advice if has_suffix else ''}"
                )
        channel = b64encode(b64decode(match["channel"])).decode()
        auth_message = f"{self._auth_message},c={channel},r={nonce}".encode()
        credential, hash_name = self._credential, self._mechanism.hash_name
        signature = hmac.digest(credential.stored_key, auth_message, hash_name)
        proof = b64decode(match["proof"])
        # A proof of another length cannot match, but takes as long to check.
        padded = proof[: len(signature)].ljust(len(signature), b"\0")
        client_key = bytes(one ^ other for one, other in zip(signature, padded, strict=True))
        stored_key = hashlib.new(hash_name, client_key).digest()
        is_equal = hmac.compare_digest(stored_key, credential.stored_key)
        if not (is_equal and self._is_known and len(proof) == len(signature)):
            raise SaslError(f"invalid SCRAM credentials: {self._reason_of_mismatch()}")
        self.user = self._user
        self.is_complete = True
        server_signature = hmac.digest(credential.server_key, auth_message, hash_name)
        return f"v={b64encode(server_signature).decode()}"

    def _reason_of_mismatch(self) -> str:
        if not self.is_token_authenticated:
            return reason_of_mismatch(self._name, self._mechanism.name, is_known=self._is_known)
        if self._is_known:
            return "wrong HMAC of the delegation token"
        return "the delegation token does not exist, or has expired"


def _has_token(extensions: str) -> bool:
    pairs = dict(pair.split("=", 1) for pair in extensions.split(",") if pair)
    return pairs.get(_TOKEN_EXTENSION, "").lower() == "true"


def _refuse_message(_: str) -> str:
    raise SaslError("a SCRAM message after the end of the exchange")
