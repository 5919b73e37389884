"""Delegation tokens: their principals, their expiry, and the secrets that are derived from them."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode

import pytest

from kafkalite.security.delegation_tokens import DelegationToken, token_credential, token_hmac
from kafkalite.security.sasl.scram_credentials import SCRAM_MECHANISMS, is_password_of

TOKEN = DelegationToken(
    "id", "User:alice", "User:admin", ("User:bob", "User:carol"), 1_000, 9_000, 5_000
)


@pytest.mark.parametrize(
    ("principal", "is_known", "may_renew"),
    [
        ("User:alice", True, True),
        ("User:admin", True, False),
        ("User:bob", True, True),
        ("User:carol", True, True),
        ("User:dave", False, False),
        ("Group:alice", False, False),
        ("alice", False, False),
    ],
)
def test_a_token_belongs_to_its_principals(
    principal: str, *, is_known: bool, may_renew: bool
) -> None:
    assert TOKEN.belongs_to({"User:erin", principal}) is is_known
    assert TOKEN.may_be_renewed_by(principal) is may_renew


def test_a_token_expires_after_its_times() -> None:
    assert [TOKEN.has_expired(now_ms) for now_ms in (1_000, 5_000, 5_001)] == [False, False, True]
    later = TOKEN._replace(expires_at_ms=99_000)
    assert [later.has_expired(now_ms) for now_ms in (9_000, 9_001)] == [False, True]


def test_the_name_of_the_owner_may_have_colons() -> None:
    assert TOKEN._replace(owner="User:a:b").owner_name == "a:b"
    assert TOKEN._replace(owner="User:").owner_name == ""


def test_the_hmac_is_that_of_the_id() -> None:
    expected = hmac.new("schlüssel".encode(), b"id", hashlib.sha512).digest()
    assert token_hmac("schlüssel", "id") == expected
    assert len(expected) == 64


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_the_password_of_a_client_is_the_base64_of_the_hmac(mechanism: object) -> None:
    credential = token_credential(mechanism, "key", "id", b"salt")  # type: ignore[arg-type]
    assert (credential.salt, credential.iterations) == (b"salt", 4096)
    password = b64encode(token_hmac("key", "id")).decode()
    assert is_password_of(mechanism, credential, password)  # type: ignore[arg-type]
    assert not is_password_of(mechanism, credential, password[:-1])  # type: ignore[arg-type]
