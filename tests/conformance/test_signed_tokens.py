"""Kafka and kafkalite accept the same signed tokens, with the same principal and expiry.

Kafka's BrokerJwtValidator decides in one JVM.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalite.security.sasl.json_web_keys import ALGORITHMS, KeySet, parse_key_set
from kafkalite.security.sasl.oauthbearer import InvalidTokenError
from kafkalite.security.sasl.signed_tokens import SignedTokenRules, validate_signed_token
from tests.oracle.jars import compiled, java_command
from tests.oracle.releases import LATEST_PATCH
from tests.oracle.requirements import required
from tests.unit.security.sasl.token_signer import TokenSigner, section

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.oracle

_DEFAULT: Final = SignedTokenRules()
_AUDIENCE: Final = SignedTokenRules(audiences=("kafka", "other"))
_ISSUER: Final = SignedTokenRules(issuer="https://idp")
_REFUSED: Final = "refused"

_STRICTER: Final = ("standard alphabet", "padding", "no canonical end", "b64", "empty crit")
"""Tokens that only Kafka accepts."""


def times(now_s: int) -> Iterator[dict[str, Any]]:
    """Yield times that differ from those of a valid token."""
    value: Any
    for name in ("exp", "iat", "nbf"):
        for value in (
            *(..., None, True, "1", [1], {}, 1.9, -1, 0, 1e300, 10**30, (1 << 53)),
            *(now_s + delta for delta in (-3600, -40, -20, 20, 40, 59, 60, 61, 3600, 20.5, 60.5)),
        ):
            yield {name: value}
    for iat, exp in ((-5, 3600), (20, 20), (21, 20), (20.9, 20.1), (40, 50)):
        yield {"iat": now_s + iat, "exp": now_s + exp}


def names() -> Iterator[tuple[SignedTokenRules, dict[str, Any]]]:
    """Yield rules, and names that differ from those of a valid token."""
    value: Any
    for value in (..., None, "", " ", " bob ", 5, ["a"], "ü", "a b"):
        yield _DEFAULT, {"sub": value}
        yield SignedTokenRules(principal_claim="name"), {"name": value}
    for name in ("jti", "iss"):
        for value in (None, "", "x", 5, ["x"], {}):
            yield _DEFAULT, {name: value}
    for value in (..., None, "", "https://idp", "https://idp/", "HTTPS://idp", 5, ["https://idp"]):
        yield _ISSUER, {"iss": value}
    for rules in (_DEFAULT, _AUDIENCE):
        for value in (
            *(..., None, "", "kafka", "Kafka", "other", 5, {}, [], [""], ["kafka"]),
            *(["x", "kafka"], ["x", "y"], ["kafka", 5], [None], ["kafka", "kafka"]),
        ):
            yield rules, {"aud": value}
    for value in (
        *(..., None, "", " ", "a", "a b", 5, True, {}, [], ["a"], ["a", "b"], ["a", "a"]),
        *(["a", "a "], [""], [" "], ["a", 5], [None], [["a"]]),
    ):
        yield _DEFAULT, {"scope": value}
        yield SignedTokenRules(scope_claim="groups"), {"groups": value}


def other_tokens(now_s: int) -> Iterator[tuple[str, str]]:
    """Yield tokens with other headers, keys and forms, and their names."""
    signer, payload = TokenSigner(now_s=now_s), {"sub": "a", "iat": now_s, "exp": now_s + 60}
    valid = signer.token()
    signed, _, signature = valid.rpartition(".")
    for algorithm in ALGORITHMS:
        yield algorithm, TokenSigner(algorithm, f"key-{algorithm}", now_s).token()
    headers: tuple[dict[str, Any], ...] = (
        *({"alg": each} for each in ("none", "None", "HS256", "ES384", "RS256", "ES256K", None, 5)),
        *({"kid": each} for each in ("key-2", None, 5, "")),
        *({"typ": each} for each in ("JWT", "at+jwt", "x", 5)),
        {"crit": ["exp"], "exp": 1},
        {"crit": "exp"},
        {"jwk": TokenSigner("ES256", "other").public},
        {"jku": "http://127.0.0.1:1/"},
        {"x5u": "http://127.0.0.1:1/"},
        {"x5c": ["AAAA"]},
        {"cty": "JWT"},
        {"zip": "DEF"},
        {"enc": "A128GCM"},
    )
    for header in headers:
        yield f"header {header}", signer.token(header)
    yield "b64", signer.token({"crit": ["b64"], "b64": True})
    yield "empty crit", signer.token({"crit": []})
    yield "another key", TokenSigner("ES256", "other", now_s).token({"kid": "key-1"})
    yield "no key id", TokenSigner("ES256", None, now_s).sign({"alg": "ES256"}, payload)
    yield "truncated", f"{signed}.{signature[:80]}"
    yield "empty signature", f"{signed}."
    yield "two sections", signed
    yield "four sections", f"{valid}.AAAA"
    yield "five sections", f"{valid}.AAAA.AAAA"
    yield "empty", ""
    yield "padding", f"{valid}=="
    yield "no canonical end", valid[:-1] + chr(ord(valid[-1]) + 1)
    yield (
        "duplicate claim",
        signer.sign(
            {"alg": "ES256", "kid": "key-1"}, b'{"sub":"b",' + json.dumps(payload)[1:].encode()
        ),
    )
    yield "duplicate header", signer.sign(b'{"alg":"none","alg":"ES256","kid":"key-1"}', payload)
    for text in (b"", b"[]", b"5", b"{", b"\xff", b"null", b'{"exp":NaN,"iat":1,"sub":"a"}'):
        yield f"claims {text!r}", signer.sign({"alg": "ES256", "kid": "key-1"}, text)
    sections = f"{section({'alg': 'ES256', 'kid': 'key-1', 'x': 9 * '?'})}.{section(payload)}"
    assert "_" in sections
    yield "standard alphabet", signer.seal(sections.replace("_", "/"))


def key_set() -> bytes:
    signers = (TokenSigner(), *(TokenSigner(each, f"key-{each}") for each in ALGORITHMS))
    return json.dumps({"keys": [each.public for each in signers]}).encode()


def verdict(keys: KeySet, rules: SignedTokenRules, token: str, now_s: int) -> str:
    try:
        accepted = validate_signed_token(rules, keys, token, 1000 * now_s)
    except InvalidTokenError:
        return _REFUSED
    return f"{accepted.principal}\t{accepted.expires_at_ms}"


def line_of(rules: SignedTokenRules, token: str) -> str:
    audiences, issuer = ",".join(rules.audiences), rules.issuer or ""
    return f"{audiences}\t{issuer}\t{rules.principal_claim}\t{rules.scope_claim}\t{token}"


@pytest.mark.parametrize(
    ("release", "accepts_any_audience"),
    [(LATEST_PATCH["4.3"], False), (None, True)],
    ids=["4.3", "4.4"],
)
def test_kafka_accepts_the_same_tokens(
    tmp_path: Path, release: str | None, *, accepts_any_audience: bool
) -> None:
    with required():
        classes = compiled(Path(__file__).parent / "token_checker")
    path, now_s = tmp_path / "keys.json", int(time.time())
    path.write_bytes(key_set())
    signer = TokenSigner(now_s=now_s)
    changes = [*((_DEFAULT, each) for each in times(now_s)), *names()]
    cases = [(repr(change), rules, signer.token(**change)) for rules, change in changes]
    cases += [(name, _DEFAULT, token) for name, token in other_tokens(now_s)]
    cases = [
        (name, rules._replace(accepts_any_audience=accepts_any_audience), token)
        for name, rules, token in cases
    ]
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={path.as_uri()}"
    with required():
        command = java_command(
            "TokenChecker", path.as_uri(), classes=classes, log_level="off", release=release
        )
    completed = subprocess.run(
        [command[0], allowed, *command[1:]],
        input="".join(f"{line_of(rules, token)}\n" for _, rules, token in cases),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert completed.returncode == 0, completed.stderr
    keys = parse_key_set(key_set())
    expected = completed.stdout.splitlines()
    assert len(expected) == len(cases)
    differences = {
        name: (by_kafka, own)
        for (name, rules, token), by_kafka in zip(cases, expected, strict=True)
        if by_kafka != (own := verdict(keys, rules, token, now_s))
    }
    stricter = {name: differences.pop(name, None) for name in _STRICTER}
    assert differences == {}
    assert all(each is not None and each[1] == _REFUSED for each in stricter.values()), stricter
    assert len(cases) > 150
    assert len(set(expected)) > 10
