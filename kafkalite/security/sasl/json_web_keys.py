"""KeySet: the public keys of a JSON web key set (RFC 7517), which verify the signatures of tokens.

As in Kafka, keys that cannot be used are ignored. Only asymmetric algorithms are supported, so a
public key is never the secret of a symmetric one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kafkalite.ports.extras import install_command
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from joserfc.jwk import Key

MAX_KEY_SET_BYTES: Final = 1 << 20
"""The maximum size of a key set."""
_MAX_KEYS: Final = 1000
_MIN_RSA_BITS: Final = 2048


class KeySetError(ValueError):
    """A key set that cannot be used; the text is one line for users."""


class _Algorithm(NamedTuple):
    """The keys that an algorithm can use."""

    key_type: str
    curves: Sequence[str] = ()


ALGORITHMS: Final = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), _Algorithm("RSA")),
    "ES256": _Algorithm("EC", ("P-256",)),
    "ES384": _Algorithm("EC", ("P-384",)),
    "ES512": _Algorithm("EC", ("P-521",)),
    "EdDSA": _Algorithm("OKP", ("Ed25519", "Ed448")),
}
"""The asymmetric algorithms of jose4j on Java 17; ES256K needs an older Java."""


_KEY_TYPES: Final = ("RSA", "EC", "OKP")


class _PublicKey(NamedTuple):
    members: dict[str, Any]
    key: Key


class KeySet:
    """Public keys, selected by the header of a token."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Iterable[_PublicKey]) -> None:
        self._keys = tuple(keys)

    @property
    def key_ids(self) -> frozenset[str]:
        """The ids of the keys that have one."""
        ids = (each.members.get("kid") for each in self._keys)
        return frozenset(each for each in ids if isinstance(each, str))

    def verify(
        self, algorithm: str, key_id: str | None, signed: bytes, signature: bytes
    ) -> bool | None:
        """Return whether the signature is valid; None if no key fits.

        `algorithm` is one of ALGORITHMS. Without an id, the first key that the algorithm can use
        must have made the signature, as in Kafka.
        """
        from joserfc.jws import JWSRegistry  # noqa: PLC0415 - only with signed tokens

        public_key = self._find(algorithm, key_id)
        if public_key is None:
            return None
        try:
            return JWSRegistry.algorithms[algorithm].verify(signed, signature, public_key.key)
        except ValueError:  # such as a signature that has the wrong length
            return False

    def _find(self, algorithm: str, key_id: str | None) -> _PublicKey | None:
        key_type, curves = ALGORITHMS[algorithm]
        for each in self._keys:
            members = each.members
            if (
                members["kty"] == key_type
                and (not curves or members.get("crv") in curves)
                and members.get("alg") in (None, algorithm)
                and (key_id is None or members.get("kid") == key_id)
            ):
                return each
        return None


def parse_key_set(content: bytes) -> KeySet:
    """Return the usable keys of a key set in JSON; raises KeySetError."""
    if len(content) > MAX_KEY_SET_BYTES:
        raise KeySetError(f"the key set is larger than {MAX_KEY_SET_BYTES} bytes")
    try:
        key_set = parse_json(content)
    except ValueError as error:
        raise KeySetError("the key set is not valid JSON") from error
    keys = key_set.get("keys") if isinstance(key_set, dict) else None
    if not isinstance(keys, list):
        raise KeySetError("the key set has no list of keys")
    if len(keys) > _MAX_KEYS:
        raise KeySetError(f"the key set has more than {_MAX_KEYS} keys")
    return KeySet(filter(None, map(_public_key, keys)))


def check_library() -> None:
    """Check that the library for signatures is installed; raises ImportError with the command."""
    try:
        import joserfc.jws  # noqa: F401, PLC0415 - only with signed tokens
    except ImportError as error:
        raise ImportError(f"signed tokens need: {install_command('security')}") from error


def parse_json(content: bytes) -> object:
    """Return a JSON value; raises ValueError, also for repeated names, NaN and deep nesting."""
    try:
        value: object = json.loads(
            content.decode(), object_pairs_hook=_members, parse_constant=_refuse_constant
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name is repeated")
    return members


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _public_key(members: object) -> _PublicKey | None:
    """Return a key for signatures; None if it cannot be used."""
    from joserfc.errors import JoseError  # noqa: PLC0415 - only with signed tokens
    from joserfc.jwk import import_key  # noqa: PLC0415 - as above

    if not isinstance(members, dict) or members.get("kty") not in _KEY_TYPES:
        return None
    operations = members.get("key_ops", ["verify"])
    if members.get("use", "sig") != "sig" or not isinstance(operations, list):
        return None
    if "verify" not in operations or not _is_long_enough(members):
        return None
    public = {name: members[name] for name in ("kty", "crv", "n", "e", "x", "y") if name in members}
    try:
        key = import_key(public)
        # The key is decoded here, not in the event loop.
        key.get_op_key("verify")
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    return _PublicKey(members, key)


def _is_long_enough(members: dict[str, Any]) -> bool:
    """Return whether a key of RSA has the length that jose4j requires; others have one."""
    if members["kty"] != "RSA":
        return True
    modulus = members.get("n")
    # A digit of base64 has 6 bits; the library warns of short keys, so it does not see them.
    return isinstance(modulus, str) and len(modulus) * 6 >= _MIN_RSA_BITS
