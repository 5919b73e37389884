"""Key pairs of clients, and assertions that they sign."""

from __future__ import annotations

from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

RSA_KEY = RSAKey.generate_key(2048)
EC_KEY = ECKey.generate_key("P-256")


def assertion(claims: dict[str, Any], key: Any = EC_KEY, algorithm: str = "ES256") -> str:  # noqa: ANN401 - classes of keys
    """Return a signed assertion."""
    return jwt.encode({"alg": algorithm}, claims, key, algorithms=[algorithm])


def public_pem(key: Any = EC_KEY) -> str:  # noqa: ANN401 - as above
    """Return the public part of a key."""
    pem: bytes = key.as_pem(private=False)
    return pem.decode()
