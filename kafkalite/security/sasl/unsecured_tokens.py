"""Unsecured JSON web tokens for OAUTHBEARER: tokens without signature, for development.

As in Kafka, they are accepted if no other validator is configured. Every client can make one for
every user.
"""

from __future__ import annotations

import json
from base64 import b64decode
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Final

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.security.sasl.authenticator import MAX_TIME_MS
from kafkalite.security.sasl.oauthbearer import BearerToken, InvalidTokenError, principal_in

if TYPE_CHECKING:
    from collections.abc import Mapping

_OPTION_PREFIX: Final = "unsecuredValidator"
_SECTIONS: Final = 3
_TO_STANDARD_ALPHABET: Final = str.maketrans("-_", "+/")


class UnsecuredTokenRules(NamedTuple):
    """What a token must have: the names of its claims, its scope, and the clocks' difference."""

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    clock_skew_ms: int = 0

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> UnsecuredTokenRules:
        """Return the rules that options of a JAAS module set; raises ValueError if invalid."""

        def option(name: str) -> str:
            return options.get(f"{_OPTION_PREFIX}{name}", "").strip()

        skew = option("AllowableClockSkewMs") or "0"
        if not skew.isascii() or not skew.isdigit():
            raise ValueError(f"Allowable clock skew millis must not be negative: {skew}")
        return cls(
            option("PrincipalClaimName") or "sub",
            option("ScopeClaimName") or "scope",
            tuple(option("RequiredScope").split()),
            int(skew),
        )


def validate_unsecured_token(rules: UnsecuredTokenRules, token: str, now_ms: int) -> BearerToken:
    """Return the claims of a token; raises InvalidTokenError if the rules are not met."""
    claims = _claims_of(token)
    principal = principal_in(claims, rules.principal_claim)
    expiry_s, issued_s = _number(claims, "exp"), _number(claims, "iat")
    if expiry_s is None:
        raise InvalidTokenError("the token has no expiration time")
    if issued_s is not None and 1000 * issued_s > now_ms + rules.clock_skew_ms:
        raise InvalidTokenError("the token was issued in the future")
    if now_ms - rules.clock_skew_ms >= 1000 * expiry_s:
        raise InvalidTokenError("the token has expired")
    if issued_s is not None and expiry_s <= issued_s:
        raise InvalidTokenError("the token expires before it was issued")
    scope = _scope(claims.get(rules.scope_claim))
    if not scope.issuperset(rules.required_scope):
        raise InvalidTokenError(
            "the token does not have the required scope",
            status="insufficient_scope",
            scope=f"[{', '.join(rules.required_scope)}]",
        )
    return BearerToken(principal, round(min(expiry_s * 1000, MAX_TIME_MS)))


def _claims_of(token: str) -> dict[str, Any]:
    sections = token.split(".")
    if len(sections) != _SECTIONS or not sections[0] or not sections[1]:
        raise InvalidTokenError("the token does not have three sections")
    header, claims = _decode_section(sections[0]), _decode_section(sections[1])
    if header.get("alg") != "none":
        raise InvalidTokenError("the token is signed, but only unsecured ones are accepted")
    if sections[2]:
        raise InvalidTokenError("the unsecured token has a signature")
    return claims


def _decode_section(section: str) -> dict[str, Any]:
    """Return the members of a JSON object in base64, in either alphabet, with or without padding.

    A boolean is a text, as in Kafka.
    """
    text = section.rstrip("=").translate(_TO_STANDARD_ALPHABET)
    try:
        members = json.loads(
            b64decode(text + "=" * (-len(text) % 4), validate=True), parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError):
        # The error would contain the token.
        raise InvalidTokenError("a section of the token is not JSON in base64") from None
    if not isinstance(members, dict):
        return {}
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in members.items()
    }


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _number(claims: Mapping[str, Any], name: str) -> float | None:
    """Return a claim in seconds; None if it is missing."""
    value = claims.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float):
        raise InvalidTokenError(f"claim {name} of the token is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = inf
    if not isfinite(number):
        raise InvalidTokenError(f"claim {name} of the token is too large")
    return number


def _scope(claim: object) -> set[str]:
    """Return the elements of a scope; a text is one element, as in Kafka."""
    elements = claim if isinstance(claim, list) else [claim] if isinstance(claim, str) else []
    return {str(element).strip() for element in elements}
