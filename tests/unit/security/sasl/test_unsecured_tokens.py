"""Unsecured tokens: claims, times, scopes, and invalid tokens."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode

import pytest

from kafkalite.security.sasl.oauthbearer import BearerToken, InvalidTokenError
from kafkalite.security.sasl.unsecured_tokens import (
    UnsecuredTokenRules,
    validate_unsecured_token,
)

NOW_MS = 1_000_000
RULES = UnsecuredTokenRules()


def section(members: object) -> str:
    return urlsafe_b64encode(json.dumps(members).encode()).decode().rstrip("=")


def token_of(**claims: object) -> str:
    return f"{section({'alg': 'none'})}.{section({'sub': 'alice', 'exp': 2000, **claims})}."


def error_of(token: str, rules: UnsecuredTokenRules = RULES) -> tuple[str, str, str]:
    with pytest.raises(InvalidTokenError) as error:
        validate_unsecured_token(rules, token, NOW_MS)
    assert token[:20] not in str(error.value)
    return error.value.status, error.value.scope, str(error.value)


def test_a_token_without_signature_is_accepted() -> None:
    claims = validate_unsecured_token(RULES, token_of(iat=999, exp=1000.5), NOW_MS)
    assert claims == BearerToken("alice", 1_000_500)


@pytest.mark.parametrize("expiry", ["1e300", "1e306", str(1 << 63), "9e15"])
def test_a_late_expiry_is_the_latest_time_that_a_response_can_have(expiry: str) -> None:
    claims = urlsafe_b64encode(f'{{"sub":"alice","exp":{expiry}}}'.encode()).decode().rstrip("=")
    token = validate_unsecured_token(RULES, f"{_HEADER}.{claims}.", NOW_MS)
    assert NOW_MS < token.expires_at_ms <= (1 << 63) - 1


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" + 400 * "0"])
@pytest.mark.parametrize("claim", ["exp", "iat"])
def test_an_infinite_time_is_refused(claim: str, number: str) -> None:
    members = f'{{"sub":"alice","exp":2000,"{claim}":{number}}}'
    claims = urlsafe_b64encode(members.encode()).decode().rstrip("=")
    assert "too large" in error_of(f"{_HEADER}.{claims}.")[2]


def test_both_alphabets_of_base64_are_accepted() -> None:
    header = b64encode(b'{"alg":"none"}').decode()
    for encode in (b64encode, urlsafe_b64encode):
        claims = encode(json.dumps({"sub": "ü>?\u1234", "exp": 2000}, ensure_ascii=False).encode())
        token = f"{header}.{claims.decode()}."
        assert validate_unsecured_token(RULES, token, NOW_MS).principal == "ü>?\u1234"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"sub": None}, "has no claim sub"),
        ({"sub": " "}, "has no claim sub"),
        ({"sub": 5}, "has no claim sub"),
        ({"sub": "a\ud800"}, "sub of the token is not valid Unicode"),
        ({"exp": None}, "no expiration time"),
        ({"exp": "2000"}, "exp of the token is not a number"),
        ({"exp": True}, "exp of the token is not a number"),
        ({"exp": 10**400}, "exp of the token is too large"),
        ({"exp": 1000}, "has expired"),
        ({"iat": 1000.001}, "issued in the future"),
        ({"iat": []}, "iat of the token is not a number"),
    ],
)
def test_a_token_with_invalid_claims_is_refused(claims: dict[str, object], reason: str) -> None:
    status, scope, text = error_of(token_of(**claims))
    assert (status, scope) == ("invalid_token", "")
    assert reason in text


def test_the_clocks_may_differ_by_the_allowed_time() -> None:
    rules = UnsecuredTokenRules(clock_skew_ms=2000)
    for claims in ({"exp": 998.001}, {"iat": 1002}):
        assert validate_unsecured_token(rules, token_of(**claims), NOW_MS)
    assert "expired" in error_of(token_of(exp=998), rules)[2]
    assert "before it was issued" in error_of(token_of(exp=999, iat=999), rules)[2]


def test_a_required_scope_must_be_present() -> None:
    rules = UnsecuredTokenRules(required_scope=("a", "b"))
    assert validate_unsecured_token(rules, token_of(scope=["b", " a ", "c"]), NOW_MS)
    for scope in (["a"], "a", "a b", None, 5):
        assert error_of(token_of(scope=scope), rules)[:2] == ("insufficient_scope", "[a, b]")


def test_rules_are_options_of_a_login_module() -> None:
    options = {
        "unsecuredValidatorPrincipalClaimName": "user",
        "unsecuredValidatorScopeClaimName": "scp",
        "unsecuredValidatorRequiredScope": "a b",
        "unsecuredValidatorAllowableClockSkewMs": "5",
    }
    rules = UnsecuredTokenRules.from_options(options)
    assert rules == UnsecuredTokenRules("user", "scp", ("a", "b"), 5)
    assert UnsecuredTokenRules.from_options({}) == RULES
    with pytest.raises(ValueError, match="must not be negative: -1"):
        UnsecuredTokenRules.from_options({"unsecuredValidatorAllowableClockSkewMs": "-1"})


_HEADER = section({"alg": "none"})


@pytest.mark.parametrize(
    "token",
    [
        "",
        "..",
        f"{_HEADER}..",
        f"{_HEADER}.{section({})}",
        f"{_HEADER}.{section({'sub': 'a', 'exp': 2000})}.c2ln",
        f"{_HEADER}.{section({'sub': 'a', 'exp': 2000})}..",
        f"{section({'alg': 'HS256'})}.{section({'sub': 'a', 'exp': 2000})}.",
        f"{section({'alg': None})}.{section({'sub': 'a', 'exp': 2000})}.",
        f"{section([])}.{section({'sub': 'a', 'exp': 2000})}.",
        f"{_HEADER}.{section([])}.",
        f"{_HEADER}.!!!.",
        f"{_HEADER}.e30x.",
        f"{_HEADER}.{b64encode(b'[' * 100_000).decode()}.",
        f"{_HEADER}.{section({'sub': 'a', 'exp': float('nan')})}.",
    ],
)
def test_a_malformed_or_signed_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidTokenError):
        validate_unsecured_token(RULES, token, NOW_MS)
