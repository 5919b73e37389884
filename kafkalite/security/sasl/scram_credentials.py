"""SCRAM mechanisms and credentials: the keys that a broker stores in place of a password."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from kafkalite.ports.named_tuples import NamedTuple


class ScramMechanism(NamedTuple):
    """One SCRAM mechanism; `number` is its number in requests and records."""

    name: str
    number: int
    hash_name: str


SCRAM_SHA_256: Final = ScramMechanism("SCRAM-SHA-256", 1, "sha256")
SCRAM_SHA_512: Final = ScramMechanism("SCRAM-SHA-512", 2, "sha512")

SCRAM_MECHANISMS: Final = (SCRAM_SHA_256, SCRAM_SHA_512)
SCRAM_BY_NAME: Final = {mechanism.name: mechanism for mechanism in SCRAM_MECHANISMS}
SCRAM_BY_NUMBER: Final = {mechanism.number: mechanism for mechanism in SCRAM_MECHANISMS}

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384

SALT_BYTES: Final = 26
"""The length of the salts that Kafka's tools generate."""


class ScramCredential(NamedTuple):
    """The stored keys of one user and mechanism (RFC 5802, section 3)."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        """Return a text without salt and keys."""
        return f"ScramCredential(iterations={self.iterations})"


def credential_of_salted_password(
    mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int
) -> ScramCredential:
    """Return the keys that are derived from a salted password."""
    client_key = hmac.digest(salted_password, b"Client Key", mechanism.hash_name)
    return ScramCredential(
        salt=salt,
        stored_key=hashlib.new(mechanism.hash_name, client_key).digest(),
        server_key=hmac.digest(salted_password, b"Server Key", mechanism.hash_name),
        iterations=iterations,
    )


def salt_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password: PBKDF2 of the password."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int = MIN_ITERATIONS
) -> ScramCredential:
    """Return the keys that are derived from a password."""
    salted_password = salt_password(mechanism, password, salt, iterations)
    return credential_of_salted_password(mechanism, salt, salted_password, iterations)


def is_password_of(mechanism: ScramMechanism, credential: ScramCredential, password: str) -> bool:
    """Return whether the credential was made from this password."""
    other = credential_of_password(mechanism, password, credential.salt, credential.iterations)
    return hmac.compare_digest(other.stored_key, credential.stored_key)


def substitute_credential(mechanism: ScramMechanism, secret: bytes, user: str) -> ScramCredential:
    """Return a credential that no password matches, the same for each request of a user.

    An exchange of an unknown user continues with it, so that the user looks like a known one with
    MIN_ITERATIONS. Another secret makes another salt, so all listeners must have the same one.
    """
    keys = hmac.digest(secret, user.encode("utf-8", "replace"), mechanism.hash_name)
    return ScramCredential(
        salt=hmac.digest(keys, b"salt", "sha512")[:SALT_BYTES],
        stored_key=hmac.digest(keys, b"stored", mechanism.hash_name),
        server_key=hmac.digest(keys, b"server", mechanism.hash_name),
        iterations=MIN_ITERATIONS,
    )
