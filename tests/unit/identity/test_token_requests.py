"""Token requests: authentication of clients, grants, scopes, and every refusal."""

from __future__ import annotations

from base64 import b64encode
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.identity.clients import OAuthClient, client_of
from kafkalite.identity.errors import OAuthError
from kafkalite.identity.token_requests import (
    ASSERTION_TYPE,
    CLIENT_CREDENTIALS,
    JWT_BEARER,
    Grant,
    grant,
    parse_token_request,
)
from tests.unit.identity.assertions import EC_KEY, RSA_KEY, assertion, public_pem

ISSUER = "http://idp.test:9098"
AUDIENCES = (ISSUER, f"{ISSUER}/token")
NOW_MS = 1_000_000_000
NOW_S = NOW_MS // 1000
CLIENTS = {
    client.id: client
    for client in (
        OAuthClient("a", "s:e+c r%3At"),
        OAuthClient("scoped", "s", scopes=("read", "write")),
        client_of({"id": "signer", "public_key": public_pem(EC_KEY), "subjects": ["alice"]}),
        client_of({"id": "rsa", "public_key": public_pem(RSA_KEY), "secret": "s"}),
    )
}
CLAIMS = {"iss": "signer", "sub": "signer", "aud": ISSUER, "exp": NOW_S + 60, "nbf": NOW_S}
UNKNOWN = "the client is unknown, or its secret or signature is wrong"


def basic(client_id: str, secret: str) -> str:
    return f"Basic {b64encode(f'{client_id}:{secret}'.encode()).decode()}"


def requested(parameters: dict[str, str], authorization: str | None = None) -> Grant:
    request = parse_token_request(urlencode(parameters).encode(), authorization)
    return grant(request, CLIENTS, AUDIENCES, NOW_MS)


def refusal(parameters: dict[str, str], authorization: str | None = None) -> str:
    with pytest.raises(OAuthError) as refused:
        requested(parameters, authorization)
    return f"{refused.value.code}: {refused.value.description}"


def credentials(**parameters: str) -> dict[str, str]:
    return {"grant_type": CLIENT_CREDENTIALS, **parameters}


def bearer(claims: dict[str, Any], **parameters: str) -> dict[str, str]:
    return {"grant_type": JWT_BEARER, "assertion": assertion(claims), **parameters}


def test_secrets_are_accepted_in_the_header_and_in_the_body() -> None:
    secret = CLIENTS["a"].secret
    assert secret is not None
    for authorization in (
        basic("a", secret),
        basic("a", quote(secret)),
        basic("a", secret).lower()[:6] + basic("a", secret)[6:],
    ):
        assert requested(credentials(), authorization) == Grant(CLIENTS["a"], "a", "")
    assert requested(credentials(client_id="a", client_secret=secret)).subject == "a"


@pytest.mark.parametrize(
    "authorization",
    [
        basic("a", "wrong"),
        basic("a", ""),
        basic("b", "s:e+c r%3At"),
        basic("signer", "the secret of a client that does not exist"),
        basic("unknown", "the secret of a client that does not exist"),
    ],
)
def test_a_wrong_secret_and_an_unknown_client_have_one_answer(authorization: str) -> None:
    assert refusal(credentials(), authorization) == f"invalid_client: {UNKNOWN}"


@pytest.mark.parametrize(
    ("authorization", "reason"),
    [
        ("Bearer abc", "scheme Basic"),
        ("Basic", "malformed"),
        ("Basic !!", "malformed"),
        ("Basic " + b64encode(b"no colon").decode(), "malformed"),
        ("Basic " + b64encode(b"\xff:\xff").decode(), "malformed"),
    ],
)
def test_a_malformed_header_is_refused(authorization: str, reason: str) -> None:
    text = refusal(credentials(), authorization)
    assert text.startswith("invalid_client: ")
    assert reason in text


def test_requests_that_are_no_token_requests_are_refused() -> None:
    assert refusal({}).startswith("invalid_request: the parameter grant_type")
    assert refusal({"grant_type": "password"}).startswith("unsupported_grant_type: ")
    assert refusal(credentials()).startswith("invalid_client: the request has no client auth")
    assert refusal(credentials(client_id="a")).startswith("invalid_client: the request has no")
    both = refusal(credentials(client_id="a", client_secret="s"), basic("a", "s"))  # noqa: S106
    assert both.startswith("invalid_request: the request authenticates its client in several")
    assert refusal({"grant_type": JWT_BEARER}).startswith("invalid_request: the parameter assert")


@pytest.mark.parametrize(
    "body", [b"a", b"grant_type=x&grant_type=x", b"\xff=1", b"a=%ff", b"a=1&" * 100]
)
def test_a_body_that_is_no_form_is_refused(body: bytes) -> None:
    with pytest.raises(OAuthError) as refused:
        parse_token_request(body, None)
    assert refused.value.code == "invalid_request"


def test_scopes_are_granted_if_the_client_may_request_them() -> None:
    everything = basic("a", "s:e+c r%3At")
    assert requested(credentials(scope="x  y x"), everything).scope == "x y"
    scoped = basic("scoped", "s")
    assert requested(credentials(), scoped).scope == "read write"
    assert requested(credentials(scope="write"), scoped).scope == "write"
    assert refusal(credentials(scope="write admin"), scoped).startswith("invalid_scope: ")


@pytest.mark.parametrize("audience", [ISSUER, f"{ISSUER}/token", ["x", ISSUER]])
def test_an_assertion_grants_a_token(audience: object) -> None:
    assert requested(bearer({**CLAIMS, "aud": audience}, scope="x")) == Grant(
        CLIENTS["signer"], "signer", "x"
    )
    assert requested(bearer({**CLAIMS, "sub": "alice"})).subject == "alice"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"iss": "unknown"}, UNKNOWN),
        ({"iss": "a"}, UNKNOWN),
        ({"iss": "rsa"}, UNKNOWN),
        ({"iss": 1}, UNKNOWN),
        ({"aud": "http://other"}, "the audience of the assertion must be http://idp.test:9098"),
        ({"aud": None}, "the audience"),
        ({"aud": [["x"]]}, "the audience"),
        ({"exp": NOW_S - 31}, "the assertion has expired"),
        ({"exp": None}, "the assertion needs exp"),
        ({"exp": "1"}, "the assertion needs exp"),
        ({"nbf": NOW_S + 31}, "the assertion is not valid yet"),
        ({"sub": None}, "the assertion needs a subject"),
        ({"sub": "bob"}, "the client may not request tokens for this subject"),
    ],
)
def test_an_invalid_assertion_is_refused(changes: dict[str, Any], reason: str) -> None:
    assert refusal(bearer({**CLAIMS, **changes})).startswith(f"invalid_grant: {reason}")


@pytest.mark.parametrize("text", ["", "a", "a.b.c", "..", "a.e30.c", f"{'x' * 60_000}"])
def test_a_malformed_assertion_is_refused(text: str) -> None:
    parameters = {"grant_type": JWT_BEARER, "assertion": text}
    assert refusal(parameters).startswith(("invalid_grant: ", "invalid_request: "))


def test_an_assertion_with_another_algorithm_is_refused() -> None:
    unsigned = "eyJhbGciOiJub25lIn0." + assertion(CLAIMS).split(".")[1] + "."
    assert refusal({"grant_type": JWT_BEARER, "assertion": unsigned}).endswith(UNKNOWN)


def test_assertions_authenticate_clients() -> None:
    def parameters(claims: dict[str, Any], **more: str) -> dict[str, str]:
        text = assertion(claims, RSA_KEY, "RS256")
        return credentials(client_assertion_type=ASSERTION_TYPE, client_assertion=text, **more)

    claims = {**CLAIMS, "iss": "rsa", "sub": "rsa"}
    assert requested(parameters(claims)).client.id == "rsa"
    assert requested(parameters(claims, client_id="rsa")).client.id == "rsa"
    assert refusal(parameters(claims, client_id="a")).startswith("invalid_client: ")
    assert refusal(parameters({**claims, "sub": "x"})).startswith("invalid_client: ")
    assert refusal(parameters({**claims, "exp": 1})) == "invalid_client: the assertion has expired"
    wrong_type = {**parameters(claims), "client_assertion_type": "x"}
    assert refusal(wrong_type).startswith("invalid_request: client_assertion_type")


def test_an_assertion_of_another_client_is_refused() -> None:
    text = refusal(bearer(CLAIMS), basic("rsa", "s"))
    assert text == "unauthorized_client: the assertion is of another client"
    assert refusal(bearer(CLAIMS), basic("rsa", "x")).startswith("invalid_client: ")


def test_the_claimed_client_is_found_in_every_kind_of_request() -> None:
    def claimed(parameters: dict[str, str], authorization: str | None = None) -> str | None:
        body = urlencode(parameters).encode()
        return parse_token_request(body, authorization).claimed_client_id

    assert claimed({}, basic("a", "x")) == "a"
    assert claimed({"client_id": "b"}) == "b"
    assert claimed(bearer(CLAIMS)) == "signer"
    assert claimed({"assertion": "x"}) is None
    assert claimed({}) is None


@given(st.binary(max_size=200), st.text(max_size=50) | st.none())
def test_random_requests_are_refused(body: bytes, authorization: str | None) -> None:
    with pytest.raises(OAuthError):
        grant(parse_token_request(body, authorization), CLIENTS, AUDIENCES, NOW_MS)


@given(st.data())
def test_mutated_assertions_are_refused(data: st.DataObject) -> None:
    text = assertion(CLAIMS)
    position = data.draw(st.integers(0, len(text) - 1))
    character = data.draw(st.sampled_from("ABab01-_."))
    mutated = text[:position] + character + text[position + 1 :]
    if mutated == text or position == len(text) - 1:  # unused bits of the last character
        return
    assert refusal({"grant_type": JWT_BEARER, "assertion": mutated}).startswith("invalid_grant: ")


def test_the_text_of_a_request_has_no_secrets() -> None:
    request = parse_token_request(b"client_id=a&client_secret=s3cr3t", None)
    assert repr(request) == "TokenRequest(client_id, client_secret)"
