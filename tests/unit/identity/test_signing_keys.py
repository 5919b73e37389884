"""Signing keys: rotation, publication and signatures."""

from __future__ import annotations

import pytest
from joserfc import jwt
from joserfc.errors import BadSignatureError
from joserfc.jwk import KeySet

from kafkalite.identity.errors import IdentityError, UnknownIdentityError
from kafkalite.identity.signing_keys import MAX_KEYS, SigningKeys
from kafkalite.ports.seeded_entropy import SeededEntropy

ALGORITHMS = ["RS256", "ES256"]


@pytest.fixture
def keys() -> SigningKeys:
    return SigningKeys(SeededEntropy())


def key_set(keys: SigningKeys) -> KeySet:
    return KeySet.import_key_set(keys.public_keys())  # type: ignore[arg-type]


def test_published_keys_verify_tokens(keys: SigningKeys) -> None:
    for algorithm in ALGORITHMS:
        keys.add(algorithm)
        token = jwt.decode(keys.sign({"sub": "a"}), key_set(keys), algorithms=ALGORITHMS)
        assert token.claims == {"sub": "a"}
        assert token.header == {"typ": "JWT", "alg": algorithm, "kid": keys.current.id}


def test_published_keys_have_no_private_parts(keys: SigningKeys) -> None:
    keys.add("ES256")
    rsa, ec = keys.public_keys()["keys"]
    assert rsa.keys() == {"kty", "n", "e", "kid", "alg", "use"}
    assert ec.keys() == {"kty", "crv", "x", "y", "kid", "alg", "use"}
    assert "PRIVATE" not in repr(keys.current)


def test_rotated_keys_verify_until_they_are_retired(keys: SigningKeys) -> None:
    first, before = keys.current.id, keys.version
    old_token = keys.sign({})
    second = keys.add("ES256").id
    assert [key.id for key in keys] == [first, second]
    jwt.decode(old_token, key_set(keys), algorithms=ALGORITHMS)
    assert keys.retire(first).id == first
    with pytest.raises(Exception, match="key"):
        jwt.decode(old_token, key_set(keys), algorithms=ALGORITHMS)
    assert keys.version == before + 2


def test_the_unpublished_key_has_the_id_of_the_current_one(keys: SigningKeys) -> None:
    for algorithm in ALGORITHMS:
        keys.add(algorithm)
        with pytest.raises(BadSignatureError):
            jwt.decode(
                keys.sign({}, with_published_key=False), key_set(keys), algorithms=ALGORITHMS
            )


def test_invalid_changes_are_refused(keys: SigningKeys) -> None:
    with pytest.raises(IdentityError, match="only key"):
        keys.retire(keys.current.id)
    with pytest.raises(UnknownIdentityError, match="no key 'x'"):
        keys.retire("x")
    with pytest.raises(IdentityError, match="HS256"):
        keys.add("HS256")
    for _ in range(MAX_KEYS - 1):
        keys.add("ES256")
    with pytest.raises(IdentityError, match="retire one"):
        keys.add("ES256")
