"""TokenSigner: signs tokens as an identity provider does, also invalid ones."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from functools import cache
from typing import TYPE_CHECKING, Any

from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from kafkalite.security.sasl.json_web_keys import KeySet, parse_key_set

if TYPE_CHECKING:
    from joserfc.jwk import Key

NOW_S = 1_700_000_000
"""The time at which a ManualClock begins."""


def section(content: object) -> str:
    """Return a section of a token: JSON, or bytes as they are."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return urlsafe_b64encode(data).decode().rstrip("=")


class TokenSigner:
    """A private key, and the key set with its public key."""

    def __init__(
        self, algorithm: str = "ES256", key_id: str | None = "key-1", now_s: int = NOW_S
    ) -> None:
        self.algorithm = algorithm
        self.key_id = key_id
        self.now_s = now_s
        self.key = _new_key(algorithm, key_id)

    @property
    def public(self) -> dict[str, Any]:
        """The public key as a member of a key set."""
        members = dict(self.key.as_dict(private=False))
        return members if self.key_id is None else {**members, "kid": self.key_id}

    @property
    def key_set(self) -> bytes:
        """The key set as JSON."""
        return json.dumps({"keys": [self.public]}).encode()

    @property
    def keys(self) -> KeySet:
        """The parsed key set."""
        return parse_key_set(self.key_set)

    def sign(self, header: object, payload: object) -> str:
        """Return a token with any header and payload: JSON, or bytes as they are."""
        return self.seal(f"{section(header)}.{section(payload)}")

    def seal(self, signed: str) -> str:
        """Return the sections with a signature."""
        signature = JWSRegistry.algorithms[self.algorithm].sign(signed.encode(), self.key)
        return f"{signed}.{section(signature)}"

    def token(self, header: dict[str, Any] | None = None, **claims: Any) -> str:  # noqa: ANN401 - any JSON
        """Return a token that is valid for a minute; a claim that is `...` is omitted."""
        members = {"sub": "alice", "iat": self.now_s, "exp": self.now_s + 60, **claims}
        kid = {} if self.key_id is None else {"kid": self.key_id}
        return self.sign(
            {"alg": self.algorithm, **kid, **(header or {})},
            {name: value for name, value in members.items() if value is not ...},
        )


@cache
def _new_key(algorithm: str, key_id: str | None) -> Key:
    """Return a key; the same for the same arguments, because keys of RSA are slow to make."""
    del key_id
    if algorithm == "EdDSA":
        return OKPKey.generate_key("Ed25519")
    if algorithm.startswith("ES"):
        return ECKey.generate_key({"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[algorithm])
    return RSAKey.generate_key(2048)
