"""A SCRAM client for tests, which can deviate from the protocol."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from functools import cache

from kafkalite.security.sasl.scram_credentials import ScramMechanism, salt_password

_salt_password = cache(salt_password)
"""As `salt_password`; a test makes many exchanges with the same password and salt."""


class ScramClient:
    """The client's side of one exchange."""

    def __init__(
        self, mechanism: ScramMechanism, name: str, password: str, nonce: str = "clientnonce"
    ) -> None:
        self.mechanism = mechanism
        self.password = password
        self.header = "n,,"
        self.bare = f"n={name},r={nonce}"
        self.channel = "biws"
        self.nonce_prefix = ""
        """Text before the nonce of the final message; librdkafka before 2.6.1 repeats its part."""
        self.server_signature = b""

    def first(self) -> bytes:
        """Return the client's first message."""
        return (self.header + self.bare).encode()

    def final(self, answer: bytes) -> bytes:
        """Return the client's final message, and set the signature that the server must send."""
        attributes = dict(pair.split("=", 1) for pair in answer.decode().split(","))
        without_proof = f"c={self.channel},r={self.nonce_prefix}{attributes['r']}"
        salted = _salt_password(
            self.mechanism, self.password, b64decode(attributes["s"]), int(attributes["i"])
        )
        hash_name = self.mechanism.hash_name
        message = f"{self.bare},{answer.decode()},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        stored_key = hashlib.new(hash_name, client_key).digest()
        signature = hmac.digest(stored_key, message, hash_name)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", hash_name)
        self.server_signature = hmac.digest(server_key, message, hash_name)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()
