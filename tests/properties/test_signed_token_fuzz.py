"""Random and mutated signed tokens: none is accepted, and none causes another exception."""

from __future__ import annotations

import json
import random
from base64 import urlsafe_b64decode
from typing import Any

import pytest

from kafkalite.security.sasl.json_web_keys import KeySetError, parse_key_set
from kafkalite.security.sasl.oauthbearer import InvalidTokenError
from kafkalite.security.sasl.signed_tokens import SignedTokenRules, validate_signed_token
from tests.effort import examples
from tests.unit.security.sasl.token_signer import NOW_S, TokenSigner, section

RULES = SignedTokenRules(audiences=("kafka",), issuer="https://idp")
SIGNERS = [TokenSigner(each, f"key-{each}") for each in ("ES256", "RS256", "PS256", "EdDSA")]
KEY_SET = json.dumps({"keys": [each.public for each in SIGNERS]}).encode()
KEYS = parse_key_set(KEY_SET)
VALID = [each.token(aud="kafka", iss="https://idp") for each in SIGNERS]
UNTRUSTED = TokenSigner("ES256", "untrusted")
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1e308,
    "",
    "none",
    "HS256",
    "ES256",
    "key-ES256",
    [],
    {},
    ["exp"],
    "x",
)
NAMES = ("alg", "kid", "crit", "b64", "jwk", "jku", "typ", "sub", "exp", "iat", "nbf", "aud", "iss")
ALPHABET = b"ABCDEFabcdef0123456789-_.=+/ \n\xc3"


def mutated(source: random.Random, data: bytes) -> bytes:
    """Return bytes with one to four random changes."""
    changed = bytearray(data)
    for _ in range(source.randint(1, 4)):
        position = source.randrange(len(changed) + 1)
        kind = source.randrange(4)
        if kind == 0:
            changed[position:position] = bytes([source.choice(ALPHABET)])
        elif kind == 1:
            del changed[position : position + source.randint(1, 40)]
        elif changed and kind == 2:
            changed[position % len(changed)] = source.choice(ALPHABET)
        elif changed:
            changed[position % len(changed)] ^= 1 << source.randrange(8)
    return bytes(changed)


def changed_members(source: random.Random, text: str) -> str:
    """Return a section whose members differ."""
    members = json.loads(urlsafe_b64decode(text + "=="))
    members[source.choice(NAMES)] = source.choice(VALUES)
    return section(members)


def hostile_token(source: random.Random) -> str:
    """Return a token that no key has signed."""
    header, claims, signature = source.choice(VALID).split(".")
    kind = source.randrange(5)
    if kind == 0:
        text = mutated(source, f"{header}.{claims}.{signature}".encode())
        return text.decode("utf-8", "replace")
    if kind == 1:
        return f"{changed_members(source, header)}.{claims}.{signature}"
    if kind == 2:
        return f"{header}.{changed_members(source, claims)}.{signature}"
    if kind == 3:
        sections = [each for token in VALID for each in token.split(".")]
        return ".".join(source.choice(sections) for _ in range(source.randint(2, 4)))
    return UNTRUSTED.seal(f"{changed_members(source, header)}.{claims}")


def attack(count: int, seed: int) -> None:
    source = random.Random(seed)  # noqa: S311 - reproducible
    reasons = set()
    for _ in range(count):
        token = hostile_token(source)
        if token in VALID:
            continue
        with pytest.raises(InvalidTokenError) as error:
            validate_signed_token(RULES, KEYS, token, 1000 * NOW_S)
        reasons.add(str(error.value))
    assert len(reasons) >= 6
    for token in VALID:
        assert validate_signed_token(RULES, KEYS, token, 1000 * NOW_S).principal == "alice"


@pytest.mark.parametrize("seed", range(4))
def test_no_mutated_token_is_accepted(seed: int) -> None:
    attack(examples(500), seed)


@pytest.mark.endurance
@pytest.mark.parametrize("seed", range(100, 110))
def test_no_token_of_many_is_accepted(seed: int) -> None:
    attack(examples(10_000), seed)


def test_a_mutated_key_set_causes_no_other_exception() -> None:
    source = random.Random(5)  # noqa: S311 - reproducible
    refused = 0
    for _ in range(examples(300)):
        try:
            keys = parse_key_set(mutated(source, KEY_SET))
        except KeySetError:
            refused += 1
            continue
        for token in VALID:
            try:
                accepted = validate_signed_token(RULES, keys, token, 1000 * NOW_S)
            except InvalidTokenError:
                continue
            assert accepted.principal == "alice"
    assert refused > 0
