"""The identity provider in Python: clients, keys, tokens and failures."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.error import HTTPError

import pytest

from kafkalite.client.connection import UnreachableError
from kafkalite.testing import Broker
from kafkalite.testing.token_providers import OAuthLogin, request_token
from tests.unit.identity.assertions import EC_KEY, public_pem

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    config = {"connection.failed.authentication.delay.ms": 0}
    with Broker(oidc=True, config=config, log_level="error") as started:
        yield started


def refusal(login: OAuthLogin) -> int:
    """Return the HTTP status of a refused request."""
    with pytest.raises(HTTPError) as refused:
        request_token(login)
    refused.value.close()
    return refused.value.code


def test_clients_are_added_and_removed(broker: Broker) -> None:
    identity = broker.identity
    identity.add_client("a", "s", scopes=["read"])
    login = OAuthLogin(identity.token_endpoint, "a", "s")
    assert request_token(login)
    identity.remove_client("a")
    assert refusal(login) == 401
    identity.add_client("b", public_key=public_pem())
    identity.add_client("b", public_key=EC_KEY.as_dict(private=False))
    assert identity.client_ids == ["kafkalite", "b"]
    with pytest.raises(ValueError, match="secret"):
        identity.add_client("c")


def test_keys_are_rotated(broker: Broker) -> None:
    identity = broker.identity
    (first,) = identity.key_ids
    second = identity.add_key("ES256")
    assert identity.key_ids == [first, second]
    identity.retire_key(first)
    assert identity.key_ids == [second]
    with pytest.raises(ValueError, match="only key"):
        identity.retire_key(second)


def test_failures_end_with_their_block(broker: Broker) -> None:
    identity = broker.identity
    login = OAuthLogin(identity.token_endpoint, "kafkalite", "kafkalite-secret")
    with identity.fail("http_500") as failure:
        assert refusal(login) == 500
        assert failure.firings == 1
    assert request_token(login)
    assert failure.firings == 1
    failure.remove()
    identity.fail("malformed", times=1)
    with pytest.raises(ValueError, match="Unterminated"):
        request_token(login)
    identity.clear_failures()
    with pytest.raises(ValueError, match="slow needs"):
        identity.fail("slow")


def test_tokens_are_changed(broker: Broker) -> None:
    broker.identity.set_tokens(audience="x", token_lifetime_ms=1000)
    broker.identity.set_tokens(audience="kafka", token_lifetime_ms=3_600_000)
    with pytest.raises(ValueError, match="audience"):
        broker.identity.set_tokens(audience="")


def test_a_broker_without_provider_refuses() -> None:
    with Broker() as broker, pytest.raises(ValueError, match="--oidc"):
        broker.identity.add_key()
    with pytest.raises(ValueError, match="oidc_clients needs oidc"):
        Broker(oidc_clients={"a": "s"})


def test_producers_are_fenced_with_a_token(broker: Broker) -> None:
    (result,) = broker.fence_producers("t")
    assert result.error is None


def test_tokens_have_the_times_of_a_driven_clock() -> None:
    with Broker(oidc=True, clock="manual@2026-03-01") as broker:
        assert broker.fence_producers("t")
        broker.clock.advance(days=1)
        assert broker.fence_producers("t")


@pytest.mark.parametrize("failure", ["wrong_audience", "wrong_issuer", "wrong_key", "expired"])
def test_an_invalid_token_is_refused(broker: Broker, failure: str) -> None:
    with broker.identity.fail(failure), pytest.raises(UnreachableError, match="invalid_token"):
        broker.fence_producers("t")


def test_passwords_work_as_well() -> None:
    with Broker(oidc=True, users={"alice": "secret"}, config={"log.retention.ms": 1}) as broker:
        assert broker.fence_producers("t")
