"""The identity provider: tokens, discovery, failures and limits."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from joserfc import jwt
from joserfc.errors import BadSignatureError
from joserfc.jwk import KeySet

from kafkalite.identity.clients import OAuthClient
from kafkalite.identity.errors import IdentityError, UnknownIdentityError
from kafkalite.identity.failures import failure_of
from kafkalite.identity.provider import MAX_CLIENTS, IdentityProvider, Reply
from kafkalite.ports.clock import SteppedClock
from kafkalite.ports.seeded_entropy import SeededEntropy

ISSUER = "http://127.0.0.1:9098"
NOW_MS = 1_772_323_200_500
NOW_S = NOW_MS // 1000
BASIC = f"Basic {b64encode(b'kafkalite:kafkalite-secret').decode()}"
REQUEST = b"grant_type=client_credentials"


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock(NOW_MS)


@pytest.fixture
def provider(clock: SteppedClock) -> IdentityProvider:
    return IdentityProvider(ISSUER, clock, SeededEntropy())


def body_of(reply: Reply, status: int = 200) -> dict[str, Any]:
    assert reply.status == status
    body: dict[str, Any] = json.loads(reply.body)
    return body


def claims_of(provider: IdentityProvider, request: bytes = REQUEST) -> dict[str, Any]:
    token = body_of(provider.token(request, BASIC))["access_token"]
    keys = KeySet.import_key_set(body_of(provider.jwks()))  # type: ignore[arg-type]
    return jwt.decode(token, keys, algorithms=["RS256", "ES256"]).claims


def fail(provider: IdentityProvider, failure: str, **fields: object) -> None:
    provider.failures.add(failure_of({"failure": failure, **fields}))


def test_the_default_client_gets_a_token(provider: IdentityProvider) -> None:
    body = body_of(provider.token(REQUEST, BASIC))
    assert body.pop("access_token").count(".") == 2
    assert body == {"token_type": "Bearer", "expires_in": 3600}
    claims = claims_of(provider, REQUEST + b"&scope=a+b")
    assert len(claims.pop("jti")) == 36
    assert claims == {
        "iss": ISSUER,
        "sub": "kafkalite",
        "aud": "kafka",
        "iat": NOW_S,
        "exp": NOW_S + 3600,
        "client_id": "kafkalite",
        "scope": "a b",
    }


def test_tokens_have_the_times_of_the_clock(
    provider: IdentityProvider, clock: SteppedClock
) -> None:
    clock.advance(86_400_000)
    assert claims_of(provider)["iat"] == NOW_S + 86_400


def test_ids_come_from_the_entropy(clock: SteppedClock) -> None:
    first, second = (IdentityProvider(ISSUER, clock, SeededEntropy()) for _ in range(2))
    assert first.keys.current.id == second.keys.current.id
    assert claims_of(first)["jti"] == claims_of(second)["jti"]


def test_audience_and_lifetime_are_changed(provider: IdentityProvider) -> None:
    provider.change(audience="other", token_lifetime_ms=60_000)
    claims = claims_of(provider)
    assert (claims["aud"], claims["exp"] - claims["iat"]) == ("other", 60)
    provider.put_client(
        OAuthClient("kafkalite", "kafkalite-secret", audience="own", token_lifetime_ms=1000)
    )
    claims = claims_of(provider)
    assert (claims["aud"], claims["exp"] - claims["iat"]) == ("own", 1)
    for audience in ("", "x" * 2000, "\ud800", 5):
        with pytest.raises(IdentityError):
            provider.change(audience=audience)


def test_an_error_is_that_of_the_rfc(provider: IdentityProvider) -> None:
    reply = provider.token(REQUEST, "Basic eDp5")
    assert body_of(reply, 401)["error"] == "invalid_client"
    assert reply.refusal is not None
    assert "of client 'x'" in reply.refusal
    assert body_of(provider.token(b"", None), 400)["error"] == "invalid_request"
    assert body_of(provider.token(b"x", None), 400)["error"] == "invalid_request"


@pytest.mark.parametrize(
    ("failure", "claim"), [("wrong_audience", "aud"), ("wrong_issuer", "iss"), ("expired", "exp")]
)
def test_a_claim_is_wrong(provider: IdentityProvider, failure: str, claim: str) -> None:
    right = claims_of(provider)
    fail(provider, failure, times=1)
    wrong = claims_of(provider)
    ignored = {"jti", "iat"}
    assert {key for key in right if right[key] != wrong[key]} - ignored == {claim}
    assert claims_of(provider)[claim] == right[claim]
    if failure == "expired":
        assert wrong["iat"] < wrong["exp"] == NOW_S - 3600


def test_the_key_is_wrong(provider: IdentityProvider) -> None:
    fail(provider, "wrong_key")
    with pytest.raises(BadSignatureError):
        claims_of(provider)


def test_responses_fail(provider: IdentityProvider) -> None:
    fail(provider, "slow", delay_ms=500)
    fail(provider, "malformed", client="kafkalite")
    reply = provider.token(REQUEST, BASIC)
    assert (reply.status, reply.delay_ms) == (200, 500)
    with pytest.raises(ValueError, match="Unterminated"):
        json.loads(reply.body)
    assert provider.token(b"", None).status == 400
    fail(provider, "http_500")
    for body in (REQUEST, b"grant_type=x", b"%"):
        reply = provider.token(body, BASIC)
        assert (reply.status, reply.body, reply.delay_ms) == (500, b"", 500)
    assert provider.jwks().status == 200


def test_keys_fail(provider: IdentityProvider) -> None:
    fail(provider, "http_500", endpoint="jwks", times=1)
    assert [provider.jwks().status for _ in range(2)] == [500, 200]


def test_failures_of_tokens_do_not_count_refused_requests(provider: IdentityProvider) -> None:
    fail(provider, "expired", times=1)
    provider.token(REQUEST, "Basic eDp5")
    assert [state.firings for state in provider.failures] == [0]


def test_discovery_has_the_host_of_the_client(provider: IdentityProvider) -> None:
    metadata = provider.discovery("http://idp:9098")
    assert metadata["issuer"] == ISSUER
    assert metadata["token_endpoint"] == "http://idp:9098/token"  # noqa: S105 - an URL
    assert metadata["jwks_uri"] == "http://idp:9098/jwks"
    assert metadata["id_token_signing_alg_values_supported"] == ["RS256"]


def test_clients_are_added_and_removed(provider: IdentityProvider) -> None:
    provider.put_client(OAuthClient("a", "s"))
    assert [client.id for client in provider.clients] == ["kafkalite", "a"]
    provider.remove_client("kafkalite")
    assert provider.token(REQUEST, BASIC).status == 401
    with pytest.raises(UnknownIdentityError, match="'kafkalite'"):
        provider.remove_client("kafkalite")
    for number in range(MAX_CLIENTS - 1):
        provider.put_client(OAuthClient(f"{number}", "s"))
    with pytest.raises(IdentityError, match="remove one"):
        provider.put_client(OAuthClient("one more", "s"))
    provider.put_client(OAuthClient("a", "t"))


def test_the_text_of_a_reply_has_no_token(provider: IdentityProvider) -> None:
    reply = provider.token(REQUEST, BASIC)
    assert repr(reply) == "Reply(200, delay_ms=0, refusal=None)"
