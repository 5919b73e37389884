"""The options of a test's identity provider, and invalid arguments."""

from __future__ import annotations

import pytest

from kafkalite.testing.identity_options import identity_options


def test_without_address_there_is_no_provider() -> None:
    assert identity_options(oidc=False, clients=None) is None


def test_text_is_the_address_and_true_a_free_port() -> None:
    free, given = identity_options(oidc=True, clients=None), identity_options("127.0.0.1:99", None)
    assert free is not None
    assert given is not None
    assert (free.address.port, given.address.port) == (0, 99)
    assert free.clients == ()


def test_clients_have_their_secrets() -> None:
    options = identity_options(oidc=True, clients={"a": "s"})
    assert options is not None
    assert [client.id for client in options.clients] == ["a"]


def test_clients_need_a_provider() -> None:
    with pytest.raises(ValueError, match="oidc_clients needs oidc"):
        identity_options(oidc=False, clients={"a": "s"})
    with pytest.raises(ValueError, match="secret"):
        identity_options(oidc=True, clients={"a": ""})
