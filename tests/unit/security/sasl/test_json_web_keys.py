"""KeySet: selection of keys, ignored keys, and key sets that cannot be used."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode

import pytest

from kafkalite.security.sasl.json_web_keys import (
    ALGORITHMS,
    MAX_KEY_SET_BYTES,
    KeySetError,
    check_library,
    parse_json,
    parse_key_set,
)
from tests.unit.security.sasl.token_signer import TokenSigner, section

SIGNED = b"header.payload"


def signature_of(signer: TokenSigner, signed: bytes = SIGNED) -> bytes:
    from joserfc.jws import JWSRegistry  # noqa: PLC0415 - as the code does

    return JWSRegistry.algorithms[signer.algorithm].sign(signed, signer.key)


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_a_signature_is_verified_by_the_key_that_made_it(algorithm: str) -> None:
    check_library()
    signer, other = TokenSigner(algorithm), TokenSigner(algorithm, "other")
    signature = signature_of(signer)
    assert signer.keys.verify(algorithm, "key-1", SIGNED, signature) is True
    assert signer.keys.verify(algorithm, None, SIGNED, signature) is True
    assert signer.keys.verify(algorithm, "other", SIGNED, signature) is None
    assert signer.keys.verify(algorithm, "key-1", SIGNED + b"x", signature) is False
    assert signer.keys.verify(algorithm, "key-1", SIGNED, signature[:-1]) is False
    assert signer.keys.verify(algorithm, "key-1", SIGNED, b"") is False
    assert other.keys.verify(algorithm, None, SIGNED, signature) is False


def test_the_key_is_selected_by_id_type_and_curve() -> None:
    signers = [TokenSigner(each, "same") for each in ("RS256", "ES256", "ES384", "EdDSA")]
    keys = parse_key_set(json.dumps({"keys": [each.public for each in signers]}).encode())
    assert keys.key_ids == {"same"}
    for signer in signers:
        assert keys.verify(signer.algorithm, "same", SIGNED, signature_of(signer)) is True
    assert keys.verify("ES512", "same", SIGNED, b"x") is None


@pytest.mark.parametrize(
    "change",
    [
        {"use": "enc"},
        {"key_ops": ["sign"]},
        {"key_ops": "verify"},
        {"alg": "ES384"},
        {"alg": ["ES256"]},
        {"crv": ["P-256"]},
        {"use": ["sig"]},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": "unknown"},
        {"kty": ["EC"]},
        {"crv": "P-384"},
        {"x": "AA"},
        {"x": 5},
        {"x": "\u00fc"},
    ],
)
def test_a_key_that_cannot_be_used_is_ignored(change: dict[str, object]) -> None:
    signer = TokenSigner()
    keys = parse_key_set(json.dumps({"keys": [{**signer.public, **change}]}).encode())
    assert keys.verify("ES256", "key-1", SIGNED, signature_of(signer)) is None


def test_a_short_key_of_rsa_is_ignored() -> None:
    modulus = urlsafe_b64encode(bytes([200]) * 128).decode().rstrip("=")
    for other in ({"n": modulus}, {"n": 5}, {}):
        keys = parse_key_set(json.dumps({"keys": [{"kty": "RSA", "e": "AQAB", **other}]}).encode())
        assert keys.verify("RS256", None, SIGNED, bytes(128)) is None


def test_private_members_of_a_key_are_not_used() -> None:
    signer = TokenSigner()
    private = signer.key.as_dict(private=True)
    keys = parse_key_set(json.dumps({"keys": [private, 5, None]}).encode())
    assert keys.verify("ES256", None, SIGNED, signature_of(signer)) is True
    assert "d" not in keys._keys[0].key.as_dict()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not valid JSON"),
        (b"<html>", "not valid JSON"),
        (b"\xff", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"keys":[],"keys":[]}', "not valid JSON"),
        (b"[]", "no list of keys"),
        (b'{"keys":{}}', "no list of keys"),
        (b'{"keys":[' + b"1," * 1000 + b"1]}", "more than 1000 keys"),
        (b" " * (MAX_KEY_SET_BYTES + 1), "larger than 1048576 bytes"),
    ],
)
def test_an_invalid_key_set_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(KeySetError, match=reason):
        parse_key_set(content)


@pytest.mark.parametrize("text", ["NaN", "Infinity", '{"a":1,"a":1}', "[" * 100_000, "1" * 5000])
def test_json_that_parsers_understand_differently_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(text.encode())


def test_a_section_is_base64url() -> None:
    assert section({"a": 1}) == "eyJhIjogMX0"
