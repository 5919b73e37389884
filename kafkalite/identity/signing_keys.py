"""SigningKeys: the key pairs of the identity provider, and their rotation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from kafkalite.identity.errors import IdentityError, UnknownIdentityError
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from joserfc.jwk import Key

    from kafkalite.ports.entropy import Entropy

DEFAULT_ALGORITHM: Final = "RS256"
ALGORITHMS: Final = ("RS256", "ES256")
MAX_KEYS: Final = 16
_RSA_BITS: Final = 2048

KeyPair: TypeAlias = "Key"
"""A key of the library with its private part."""


class SigningKey(NamedTuple):
    """A key pair: its id, its algorithm, and the key with its private part."""

    id: str
    algorithm: str
    key: Key

    def __repr__(self) -> str:
        """Return a text without the private key."""
        return f"SigningKey({self.id!r}, {self.algorithm})"

    @property
    def public(self) -> dict[str, Any]:
        """The public part as a JSON web key (RFC 7517)."""
        return {
            **self.key.as_dict(private=False),
            "kid": self.id,
            "alg": self.algorithm,
            "use": "sig",
        }


class SigningKeys:
    """The published keys, oldest first; the newest one signs."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._keys: list[SigningKey] = []
        self._unpublished: dict[str, Key] = {}
        """Algorithm → a key that is never published."""
        self.version = 0
        """Grows with each change of the published keys."""
        self.add(DEFAULT_ALGORITHM)

    def __iter__(self) -> Any:  # noqa: ANN401 - an iterator
        return iter(tuple(self._keys))

    @property
    def current(self) -> SigningKey:
        """The key that signs."""
        return self._keys[-1]

    def check_addition(self, algorithm: str) -> None:
        """Raise IdentityError for an unknown algorithm, or if there are too many keys."""
        if algorithm not in ALGORITHMS:
            raise IdentityError(
                f"algorithm {algorithm[:40]!r} is not one of {', '.join(ALGORITHMS)}"
            )
        if len(self._keys) >= MAX_KEYS:
            raise IdentityError(f"there are {MAX_KEYS} keys already: retire one")

    def add(self, algorithm: str, key: KeyPair | None = None) -> SigningKey:
        """Sign with a new key from now on; the other keys remain published.

        `key` is a result of `new_key`; the key is made here if it is None. Raises IdentityError as
        `check_addition`.
        """
        self.check_addition(algorithm)
        key_id = self._entropy.uuid4_text()
        added = SigningKey(key_id, algorithm, new_key(algorithm) if key is None else key)
        self._keys.append(added)
        self.version += 1
        return added

    def retire(self, key_id: str) -> SigningKey:
        """Publish a key no longer; tokens that it signed become invalid.

        Raises IdentityError for an unknown key, and for the only one.
        """
        for key in self._keys:
            if key.id == key_id:
                if len(self._keys) == 1:
                    raise IdentityError("the only key cannot be retired: add another one first")
                self._keys.remove(key)
                self.version += 1
                return key
        raise UnknownIdentityError(f"there is no key {key_id[:60]!r}")

    def public_keys(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return the published keys as a JSON web key set."""
        return {"keys": [key.public for key in self._keys]}

    def sign(self, claims: Mapping[str, Any], *, with_published_key: bool = True) -> str:
        """Return a token with these claims, signed by the current key.

        Without `with_published_key`, another key of the same algorithm signs, but the token names
        the current key.
        """
        current = self.current
        key = current.key if with_published_key else self._unpublished_key(current.algorithm)
        header = {"alg": current.algorithm, "kid": current.id}
        return jwt.encode(header, dict(claims), key, algorithms=[current.algorithm])

    def set_unpublished(self, algorithm: str, key: KeyPair) -> None:
        """Use a result of `new_key` as the key that is never published."""
        self._unpublished[algorithm] = key

    def _unpublished_key(self, algorithm: str) -> KeyPair:
        if algorithm not in self._unpublished:
            self._unpublished[algorithm] = new_key(algorithm)
        return self._unpublished[algorithm]


def new_key(algorithm: str) -> KeyPair:
    """Return a new key pair. OpenSSL makes it with its own randomness.

    A key of RSA takes some 50 ms, in which other threads run.
    """
    if algorithm == DEFAULT_ALGORITHM:
        return RSAKey.generate_key(_RSA_BITS)
    return ECKey.generate_key("P-256")
