"""Signed JSON web tokens for OAUTHBEARER: the checks of Kafka's BrokerJwtValidator."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from typing import TYPE_CHECKING, Any, Final

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.security.sasl.authenticator import MAX_TIME_MS
from kafkalite.security.sasl.json_web_keys import ALGORITHMS, parse_json
from kafkalite.security.sasl.oauthbearer import BearerToken, InvalidTokenError, principal_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.security.sasl.json_web_keys import KeySet

_SECTIONS: Final = 3
_MAX_HEADER_LENGTH: Final = 64 * 1024
"""The maximum length of a header in base64. It is parsed before the signature is verified, so that
clients that have not authenticated could hold up others; with certificates it has some 10 KB."""
_NESTED_TYPES: Final = ("jwt", "application/jwt")
_TEXT_CLAIMS: Final = ("iss", "sub", "jti")
"""The claims that must be texts if they exist."""


class UnknownKeyError(InvalidTokenError):
    """A token whose key is not known; `key_id` is its id, None if it names no key."""

    def __init__(self, key_id: str | None) -> None:
        super().__init__("no key of the key set fits the header of the token")
        self.key_id = key_id


class SignedTokenRules(NamedTuple):
    """What a token must have: audience, issuer, the names of claims, and the clocks' difference."""

    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    principal_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_s: int = 30
    accepts_any_audience: bool = False
    """Whether the audience of tokens is ignored if none is expected."""


def validate_signed_token(
    rules: SignedTokenRules, keys: KeySet, token: str, now_ms: int
) -> BearerToken:
    """Return the claims of a token; raises InvalidTokenError.

    The error is an UnknownKeyError if another version of the key set may have the key.
    """
    claims = _verified_claims(keys, token)
    expiry_s = _check_times(claims, now_ms // 1000, rules.clock_skew_s)
    _check_names(claims, rules)
    _check_scope(claims.get(rules.scope_claim))
    principal = principal_in(claims, rules.principal_claim)
    return BearerToken(principal.strip(), min(1000 * expiry_s, MAX_TIME_MS))


def _verified_claims(keys: KeySet, token: str) -> dict[str, Any]:
    """Return the claims of a token whose signature is valid."""
    sections = token.split(".")
    if len(sections) != _SECTIONS:
        raise InvalidTokenError("the token does not have three sections")
    if len(sections[0]) > _MAX_HEADER_LENGTH:
        raise InvalidTokenError(f"the header of the token has {len(sections[0])} characters")
    content, payload, signature = map(_decode, sections)
    header = _parse(content)
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise InvalidTokenError("the token is not signed by an asymmetric algorithm")
    # Extensions that the recipient must understand. None is supported.
    if "crit" in header or "b64" in header:
        raise InvalidTokenError("the token has critical header parameters")
    if str(header.get("cty")).lower() in _NESTED_TYPES:
        raise InvalidTokenError("the token contains another token")
    if key_id is not None and not isinstance(key_id, str):
        raise InvalidTokenError("the key id of the token is not a text")
    signed = token[: token.rindex(".")].encode()
    is_valid = keys.verify(algorithm, key_id, signed, signature)
    if is_valid is None:
        raise UnknownKeyError(key_id)
    if not is_valid:
        raise InvalidTokenError("the signature of the token is not valid")
    return _parse(payload)


def _decode(section: str) -> bytes:
    """Return the bytes of a section in base64url, which has exactly one valid form."""
    try:
        content = urlsafe_b64decode(section + "=" * (-len(section) % 4))
    except (Base64Error, ValueError):
        content = b""
    if not content or urlsafe_b64encode(content).rstrip(b"=") != section.encode():
        # The error would contain the token.
        raise InvalidTokenError("a section of the token is not base64url")
    return content


def _parse(content: bytes) -> dict[str, Any]:
    try:
        members = parse_json(content)
    except ValueError:
        members = None
    if not isinstance(members, dict):
        raise InvalidTokenError("a section of the token is not a JSON object with unique names")
    return members


def _check_times(claims: Mapping[str, Any], now_s: int, skew_s: int) -> int:
    """Check exp, iat and nbf by the rules of jose4j, and return exp."""
    expiry_s, issued_s = _seconds(claims, "exp"), _seconds(claims, "iat")
    start_s = _seconds(claims, "nbf")
    if expiry_s is None:
        raise InvalidTokenError("the token has no expiration time")
    if issued_s is None:
        raise InvalidTokenError("the token has no time of issue")
    if now_s - skew_s >= expiry_s:
        raise InvalidTokenError("the token has expired")
    if expiry_s < issued_s:
        raise InvalidTokenError("the token expires before it was issued")
    if start_s is not None and expiry_s < start_s:
        raise InvalidTokenError("the token expires before it becomes valid")
    if start_s is not None and now_s + skew_s < start_s:
        raise InvalidTokenError("the token is not valid yet")
    if issued_s < 0:
        raise InvalidTokenError("claim iat of the token is negative")
    return expiry_s


def _seconds(claims: Mapping[str, Any], name: str) -> int | None:
    """Return a claim in whole seconds; None if it is missing."""
    value = claims.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidTokenError(f"claim {name} of the token is not a number")
    if abs(value) > MAX_TIME_MS:
        raise InvalidTokenError(f"claim {name} of the token is too large")
    return int(value)


def _check_names(claims: Mapping[str, Any], rules: SignedTokenRules) -> None:
    """Check issuer, audience and the types of other claims."""
    for name in _TEXT_CLAIMS:
        if not isinstance(claims.get(name, ""), str | None):
            raise InvalidTokenError(f"claim {name} of the token is not a text")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise InvalidTokenError("the token does not have the expected issuer")
    if rules.accepts_any_audience and not rules.audiences:
        return
    audience = claims.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience
    if audiences is None and not rules.audiences:
        return
    if not isinstance(audiences, list) or not all(isinstance(each, str) for each in audiences):
        raise InvalidTokenError("the token has no audience")
    if not rules.audiences:
        raise InvalidTokenError("the token has an audience, but no audience is expected")
    if not set(audiences).intersection(rules.audiences):
        raise InvalidTokenError("the token does not have an expected audience")


def _check_scope(scope: object) -> None:
    """Check the form of a scope: a text, a list of texts, or anything else, which is no scope."""
    elements = [scope] if isinstance(scope, str) else scope if isinstance(scope, list) else []
    if not all(isinstance(each, str) and each.strip() for each in elements):
        raise InvalidTokenError("the scope of the token has an element that is not a text")
    names = [each.strip() for each in elements]
    if len(set(names)) != len(names):
        raise InvalidTokenError("the scope of the token has an element twice")
