"""Signed tokens: valid ones, and hostile ones by signature, header, claims and form."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest
from joserfc.jwk import ECKey

from kafkalite.security.sasl.json_web_keys import ALGORITHMS
from kafkalite.security.sasl.oauthbearer import BearerToken, InvalidTokenError
from kafkalite.security.sasl.signed_tokens import (
    SignedTokenRules,
    UnknownKeyError,
    validate_signed_token,
)
from tests.unit.security.sasl.token_signer import NOW_S, TokenSigner, section

RULES = SignedTokenRules()
SIGNER = TokenSigner()
HEADER = {"alg": "ES256", "kid": "key-1"}
CLAIMS = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 60}
JSON_CLAIMS = json.dumps(CLAIMS)


def validated(
    token: str, rules: SignedTokenRules = RULES, now_ms: int = 1000 * NOW_S
) -> BearerToken:
    return validate_signed_token(rules, SIGNER.keys, token, now_ms)


def reason_of(token: str, rules: SignedTokenRules = RULES, now_ms: int = 1000 * NOW_S) -> str:
    """Return the reason of a refusal, which has no part of the token."""
    with pytest.raises(InvalidTokenError) as error:
        validated(token, rules, now_ms)
    assert (error.value.status, error.value.scope) == ("invalid_token", "")
    assert all(each not in str(error.value) for each in token.split(".") if len(each) > 5)
    return str(error.value)


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_a_token_is_accepted_by_each_algorithm(algorithm: str) -> None:
    signer = TokenSigner(algorithm)
    claims = validate_signed_token(RULES, signer.keys, signer.token(), 1000 * NOW_S)
    assert claims == BearerToken("alice", 1000 * (NOW_S + 60))


@pytest.mark.parametrize(
    ("claims", "rules"),
    [
        ({"scope": "a b"}, RULES),
        ({"scope": ["a", "b"]}, RULES),
        ({"scope": 5}, RULES),
        ({"scope": []}, RULES),
        ({"sub": " alice "}, RULES),
        ({"exp": NOW_S + 60.9}, RULES),
        ({"iat": NOW_S + 60}, RULES),
        ({"nbf": NOW_S + 30}, RULES),
        ({"exp": NOW_S + 60, "nbf": None, "aud": None, "iss": None}, RULES),
        ({"aud": "kafka"}, SignedTokenRules(audiences=("other", "kafka"))),
        ({"aud": ["x", "kafka"]}, SignedTokenRules(audiences=("kafka",))),
        ({"iss": "https://idp"}, SignedTokenRules(issuer="https://idp")),
        ({"iss": "any"}, RULES),
        ({"sub": ..., "name": "alice"}, SignedTokenRules(principal_claim="name")),
        ({"groups": ["a"]}, SignedTokenRules(scope_claim="groups")),
    ],
)
def test_a_token_with_these_claims_is_accepted(
    claims: dict[str, Any], rules: SignedTokenRules
) -> None:
    assert validated(SIGNER.token(**claims), rules) == BearerToken("alice", 1000 * (NOW_S + 60))


@pytest.mark.parametrize(
    ("skew_s", "after_ms", "is_accepted"),
    [
        (0, 59_999, True),
        (0, 60_000, False),
        (30, 89_999, True),
        (30, 90_000, False),
    ],
)
def test_a_token_expires_by_the_clock(skew_s: int, after_ms: int, *, is_accepted: bool) -> None:
    rules, now_ms = SignedTokenRules(clock_skew_s=skew_s), 1000 * NOW_S + after_ms
    if is_accepted:
        validated(SIGNER.token(), rules, now_ms)
    else:
        assert reason_of(SIGNER.token(), rules, now_ms) == "the token has expired"


def test_a_token_becomes_valid_by_the_clock() -> None:
    token, rules = SIGNER.token(nbf=NOW_S + 10), SignedTokenRules(clock_skew_s=5)
    assert reason_of(token, rules, 1000 * NOW_S + 4999) == "the token is not valid yet"
    assert validated(token, rules, 1000 * NOW_S + 5000).principal == "alice"


AUDIENCE = SignedTokenRules(audiences=("kafka",))
ISSUER = SignedTokenRules(issuer="https://idp")


@pytest.mark.parametrize(
    ("claims", "rules", "reason"),
    [
        ({"exp": ...}, RULES, "has no expiration time"),
        ({"exp": None}, RULES, "has no expiration time"),
        ({"exp": "1700000060"}, RULES, "exp of the token is not a number"),
        ({"exp": True}, RULES, "exp of the token is not a number"),
        ({"exp": [1]}, RULES, "exp of the token is not a number"),
        ({"exp": 10**400}, RULES, "exp of the token is too large"),
        ({"exp": 1e300}, RULES, "exp of the token is too large"),
        ({"exp": -1, "iat": -5}, RULES, "has expired"),
        ({"iat": ...}, RULES, "has no time of issue"),
        ({"iat": "x"}, RULES, "iat of the token is not a number"),
        ({"iat": -1}, RULES, "iat of the token is negative"),
        ({"iat": NOW_S + 61}, RULES, "expires before it was issued"),
        ({"nbf": NOW_S + 31}, RULES, "is not valid yet"),
        ({"nbf": NOW_S + 61}, RULES, "expires before it becomes valid"),
        ({"nbf": {}}, RULES, "nbf of the token is not a number"),
        ({"sub": ...}, RULES, "no claim sub with a name"),
        ({"sub": ""}, RULES, "no claim sub with a name"),
        ({"sub": " "}, RULES, "no claim sub with a name"),
        ({"sub": "a\ud800"}, RULES, "claim sub of the token is not valid Unicode"),
        ({"sub": 5}, RULES, "claim sub of the token is not a text"),
        ({"name": 5}, SignedTokenRules(principal_claim="name"), "no claim name with a name"),
        ({"jti": 5}, RULES, "claim jti of the token is not a text"),
        ({"iss": 5}, RULES, "claim iss of the token is not a text"),
        ({}, ISSUER, "the expected issuer"),
        ({"iss": "https://idp/"}, ISSUER, "the expected issuer"),
        ({}, AUDIENCE, "has no audience"),
        ({"aud": []}, AUDIENCE, "an expected audience"),
        ({"aud": "Kafka"}, AUDIENCE, "an expected audience"),
        ({"aud": ["kafka", 5]}, AUDIENCE, "has no audience"),
        ({"aud": {"kafka": 1}}, AUDIENCE, "has no audience"),
        ({"aud": "kafka"}, RULES, "no audience is expected"),
        ({"scope": ["a", 5]}, RULES, "an element that is not a text"),
        ({"scope": " "}, RULES, "an element that is not a text"),
        ({"scope": ["a", "a "]}, RULES, "an element twice"),
    ],
)
def test_a_token_with_invalid_claims_is_refused(
    claims: dict[str, Any], rules: SignedTokenRules, reason: str
) -> None:
    assert reason in reason_of(SIGNER.token(**claims), rules)


def hmac_token(secret: bytes) -> str:
    """Return a token that is signed with the public key as the secret."""
    signed = f"{section({'alg': 'HS256', 'kid': 'key-1'})}.{section(CLAIMS)}"
    return f"{signed}.{section(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


def self_signed(**header: object) -> str:
    """Return a token of another key, which its header refers to."""
    return TokenSigner("ES256", "other").token({"kid": "key-1", **header})


VALID = SIGNER.token()
SIGNED, _, SIGNATURE = VALID.rpartition(".")

assert isinstance(SIGNER.key, ECKey)
PEM = SIGNER.key.as_pem(private=False)

HOSTILE = {
    "without signature": (f"{section({'alg': 'none'})}.{section(CLAIMS)}.", "base64url"),
    "alg none": (f"{section({'alg': 'none'})}.{section(CLAIMS)}.AAAA", "asymmetric algorithm"),
    "alg None": (SIGNER.token({"alg": "None"}), "asymmetric algorithm"),
    "alg null": (SIGNER.token({"alg": None}), "asymmetric algorithm"),
    "alg of another type": (SIGNER.token({"alg": ["ES256"]}), "asymmetric algorithm"),
    "no alg": (SIGNER.sign({"kid": "key-1"}, CLAIMS), "asymmetric algorithm"),
    "alg of encryption": (SIGNER.token({"alg": "RSA-OAEP"}), "asymmetric algorithm"),
    "HS256 with the key set": (hmac_token(SIGNER.key_set), "asymmetric algorithm"),
    "HS256 with the PEM": (hmac_token(PEM), "asymmetric algorithm"),
    "algorithm of another type of key": (SIGNER.token({"alg": "RS256"}), "no key"),
    "algorithm of another curve": (SIGNER.token({"alg": "ES384"}), "no key"),
    "unknown key id": (SIGNER.token({"kid": "key-2"}), "no key"),
    "key id of another type": (SIGNER.token({"kid": 5}), "key id of the token is not a text"),
    "another key": (self_signed(), "signature of the token is not valid"),
    "embedded jwk": (self_signed(jwk=TokenSigner("ES256", "other").public), "signature"),
    "jku": (self_signed(jku="http://localhost/keys"), "signature"),
    "x5u": (self_signed(x5u="http://localhost/certificate"), "signature"),
    "x5c": (self_signed(x5c=["AAAA"]), "signature"),
    "crit": (SIGNER.token({"crit": ["exp"], "exp": 1}), "critical header parameters"),
    "empty crit": (SIGNER.token({"crit": []}), "critical header parameters"),
    "b64": (SIGNER.token({"b64": False, "crit": ["b64"]}), "critical header parameters"),
    "truncated": (f"{SIGNED}.{SIGNATURE[:80]}", "signature of the token is not valid"),
    "without last section": (SIGNED, "three sections"),
    "empty signature": (f"{SIGNED}.", "base64url"),
    "empty claims": (f"{section(HEADER)}..{SIGNATURE}", "base64url"),
    "five sections": (f"{VALID}.AAAA.AAAA", "three sections"),
    "empty": ("", "three sections"),
    "dots": (".." , "base64url"),
    "padding": (f"{VALID}==", "base64url"),
    "standard alphabet": (f"{SIGNED}.{'/' * len(SIGNATURE)}", "base64url"),
    "blank": (f" {VALID}", "base64url"),
    "other digits": (f"{VALID}\u0661", "base64url"),
    "a megabyte": (f"{SIGNED}.{'A' * 1_000_000}", "signature of the token is not valid"),
    "a megabyte of claims": (TokenSigner("ES256", "x").token(a="a" * 1_000_000), "no key"),
    "a large header": (SIGNER.token({"x": "a" * 50_000}), "the header of the token has"),
    "duplicate claim": (SIGNER.sign(HEADER, f'{{"sub":"bob",{JSON_CLAIMS[1:]}'.encode()), "unique"),
    "duplicate header": (
        SIGNER.sign(b'{"alg":"none","alg":"ES256","kid":"key-1"}', CLAIMS),
        "unique",
    ),
    "NaN": (SIGNER.token(exp=float("nan")), "not a JSON object"),
    "Infinity": (SIGNER.token(exp=float("inf")), "not a JSON object"),
    "1e400": (SIGNER.sign(HEADER, JSON_CLAIMS.replace(str(NOW_S + 60), "1e400").encode()), "large"),
    "claims of another type": (SIGNER.sign(HEADER, [CLAIMS]), "not a JSON object"),
    "header of another type": (SIGNER.sign(["ES256"], CLAIMS), "not a JSON object"),
    "no JSON": (SIGNER.sign(HEADER, b"{"), "not a JSON object"),
    "no UTF-8": (SIGNER.sign(HEADER, b"\xff\xff"), "not a JSON object"),
    "deep nesting": (SIGNER.sign(HEADER, b"[" * 100_000), "not a JSON object"),
    "many digits": (SIGNER.sign(HEADER, b'{"exp":' + b"1" * 5000 + b"}"), "not a JSON object"),
    "nested token": (SIGNER.sign({**HEADER, "cty": "JWT"}, VALID.encode()), "another token"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_token_is_refused(name: str) -> None:
    token, reason = HOSTILE[name]
    assert reason in reason_of(token)


def test_the_id_of_an_unknown_key_is_reported() -> None:
    for header, key_id in (({"kid": "key-2"}, "key-2"), ({"kid": None, "alg": "RS256"}, None)):
        with pytest.raises(UnknownKeyError) as error:
            validated(SIGNER.token(header))
        assert error.value.key_id == key_id
