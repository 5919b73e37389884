"""Clients of the identity provider: options, JSON and invalid values."""

from __future__ import annotations

from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey

from kafkalite.identity.clients import (
    DEFAULT_CLIENT,
    OAuthClient,
    client_of,
    clients_of,
    lifetime_of,
    parse_clients,
)
from kafkalite.identity.errors import IdentityError
from tests.unit.identity.assertions import EC_KEY, RSA_KEY, public_pem


def test_options_are_parsed() -> None:
    assert parse_clients(["billing:a:b", "audit:s"]) == [
        OAuthClient("billing", "a:b"),
        OAuthClient("audit", "s"),
    ]
    assert parse_clients([]) == []


@pytest.mark.parametrize("texts", [["billing"], [":s"], ["billing:"], ["a:s", "a:t"], ["ä:s"]])
def test_invalid_options_are_refused(texts: list[str]) -> None:
    with pytest.raises(IdentityError):
        parse_clients(texts)


def test_json_is_parsed() -> None:
    client = client_of({
        "id": "billing",
        "secret": "s",
        "scopes": ["read", "write"],
        "subjects": ["alice"],
        "audience": "other",
        "token_lifetime_ms": 5000,
    })  # fmt: skip
    assert client == OAuthClient("billing", "s", None, ("read", "write"), ("alice",), "other", 5000)
    assert client_of({"id": "a", "secret": "s"}).scopes is None
    assert client_of({"id": "a", "secret": "s", "scopes": []}).scopes == ()


def test_public_keys_are_read_without_private_parts() -> None:
    for key in (RSA_KEY, EC_KEY):
        for value in (public_pem(key), key.as_dict(private=False), key.as_dict(private=True)):
            client = client_of({"id": "a", "public_key": value})
            assert client.public_key is not None
            assert client.public_key.as_dict(private=False)["kty"] == key.key_type
            assert not client.public_key.is_private


@pytest.mark.parametrize(
    "fields",
    [
        None,
        [],
        {},
        {"id": "a"},
        {"id": "", "secret": "s"},
        {"id": "a:b", "secret": "s"},
        {"id": 1, "secret": "s"},
        {"id": "a", "secret": "s\0"},
        {"id": "a", "secret": "s" * 1025},
        {"id": "a", "secret": "s", "color": 1},
        {"id": "a", "secret": "s", "scopes": "read"},
        {"id": "a", "secret": "s", "scopes": ["a b"]},
        {"id": "a", "secret": "s", "scopes": ["a"] * 101},
        {"id": "a", "secret": "s", "subjects": [1]},
        {"id": "a", "secret": "s", "token_lifetime_ms": 0},
        {"id": "a", "public_key": "text"},
        {"id": "a", "public_key": 1},
        {"id": "a", "public_key": {"kty": "RSA"}},
        {"id": "a", "public_key": "x" * 20_000},
        {"id": "a", "public_key": OctKey.generate_key(256).as_dict(private=True)},
        {"id": "a", "public_key": ECKey.generate_key("secp256k1").as_dict(private=False)},
    ],
)
def test_invalid_json_is_refused(fields: Any) -> None:  # noqa: ANN401 - any JSON
    with pytest.raises(IdentityError) as refused:
        client_of(fields)
    assert "s\0" not in str(refused.value)


@pytest.mark.filterwarnings("ignore")
def test_a_short_key_is_refused() -> None:
    with pytest.raises(IdentityError, match="2048"):
        client_of({"id": "a", "public_key": public_pem(RSAKey.generate_key(1024))})


@pytest.mark.parametrize("value", [True, 0, -1, 1.5, "5m", 10**15])
def test_an_invalid_lifetime_is_refused(value: object) -> None:
    with pytest.raises(IdentityError, match="token_lifetime_ms"):
        lifetime_of(value)


def test_clients_are_given_as_mapping_or_sequence() -> None:
    assert clients_of({"a": "s"}) == [OAuthClient("a", "s")]
    assert clients_of([DEFAULT_CLIENT]) == [DEFAULT_CLIENT]


def test_the_text_of_a_client_has_no_secret() -> None:
    assert repr(OAuthClient("a", "s3cr3t")) == "OAuthClient('a')"
