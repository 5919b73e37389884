"""The endpoints of the identity provider: headers, limits, hosts and delays."""

from __future__ import annotations

import asyncio
import json

import pytest

from kafkalite.control.request_body import MAX_BODY_BYTES
from kafkalite.identity.failures import failure_of
from tests.unit.control.asgi_client import ask
from tests.unit.control.identity_service import BASIC, FORM, ISSUER, REQUEST, IdentityService

TOKEN = "/token"  # noqa: S105 - a path
ENDPOINTS = [
    ("POST", TOKEN),
    ("GET", "/jwks"),
    ("GET", "/.well-known/openid-configuration"),
    ("OPTIONS", TOKEN),
    ("GET", "/unknown"),
]


@pytest.fixture
def service() -> IdentityService:
    return IdentityService()


async def test_a_token_is_not_stored(service: IdentityService) -> None:
    answer = await ask(service.app, TOKEN, method="POST", body=REQUEST, headers={**FORM, **BASIC})
    assert answer.status == 200
    assert answer.body["token_type"] == "Bearer"  # noqa: S105 - no password
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["pragma"] == "no-cache"
    assert answer.headers["content-type"] == "application/json"
    assert "www-authenticate" not in answer.headers


async def test_a_client_that_is_not_authenticated_gets_a_challenge(
    service: IdentityService,
) -> None:
    body = REQUEST + b"&client_id=kafkalite&client_secret=s3cr3t"
    answer = await ask(service.app, TOKEN, method="POST", body=body, headers=FORM)
    assert (answer.status, answer.body["error"]) == (401, "invalid_client")
    assert answer.headers["www-authenticate"] == 'Basic realm="kafkalite"'
    assert answer.headers["cache-control"] == "no-store"
    (line,) = service.lines.getvalue().splitlines()
    assert json.loads(line)["event"] == "a token request is refused"
    assert "'kafkalite'" in line
    assert "s3cr3t" not in line


async def test_repeated_refusals_are_counted_in_the_log(service: IdentityService) -> None:
    for _ in range(3):
        await ask(service.app, TOKEN, method="POST", body=REQUEST, headers=FORM)
    assert len(service.lines.getvalue().splitlines()) == 1
    service.clock.advance(60_000)
    _, line = service.lines.getvalue().splitlines()
    assert json.loads(line)["repeated"] == 2


async def test_keys_and_metadata_are_public(service: IdentityService) -> None:
    keys = await ask(service.app, "/jwks")
    assert keys.body == service.provider.keys.public_keys()
    assert keys.headers["cache-control"] == "no-cache"
    path = "/.well-known/openid-configuration"
    for host, base in (
        ("idp:9098", "http://idp:9098"),
        ("[::1]:9098", "http://[::1]:9098"),
        ("idp/x", ISSUER),
        ("a" * 300, ISSUER),
    ):
        metadata = (await ask(service.app, path, headers={"host": host})).body
        assert metadata["issuer"] == ISSUER
        assert metadata["token_endpoint"] == f"{base}/token"


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
@pytest.mark.parametrize("hosts", [None, ("127.0.0.1",)])
async def test_web_pages_are_refused(method: str, path: str, hosts: tuple[str, ...] | None) -> None:
    service = IdentityService(hosts)
    headers = {**FORM, **BASIC, "origin": "http://page.test"}
    answer = await ask(service.app, path, method=method, body=REQUEST, headers=headers)
    assert (answer.status, answer.body["error"]) == (403, "invalid_request")
    assert "web pages" in answer.body["error_description"]
    assert answer.headers["connection"] == "close"
    assert not [name for name in answer.headers if name.startswith("access-control-")]
    (line,) = service.lines.getvalue().splitlines()
    assert json.loads(line)["event"] == "identity provider request refused"


@pytest.mark.parametrize(("method", "path"), ENDPOINTS[:3])
async def test_host_names_are_checked_if_only_this_machine_reaches_the_address(
    method: str, path: str
) -> None:
    for hosts, status in ((("localhost",), 403), (None, 200)):
        headers = {**FORM, **BASIC, "host": "kafkalite:8080"}
        answer = await ask(
            IdentityService(hosts).app, path, method=method, body=REQUEST, headers=headers
        )
        assert answer.status == status
        refusal = answer.body.get("error_description", "")
        assert ("'kafkalite:8080'" in refusal) is (status == 403)


async def test_bodies_are_limited(service: IdentityService) -> None:
    for body, status in ((b"a" * (MAX_BODY_BYTES + 1), 413), (b"a" * MAX_BODY_BYTES, 400)):
        answer = await ask(service.app, TOKEN, method="POST", body=body, headers=FORM)
        assert (answer.status, answer.body["error"]) == (status, "invalid_request")


async def test_a_body_must_be_a_form(service: IdentityService) -> None:
    headers = {"content-type": "application/json"}
    answer = await ask(service.app, TOKEN, method="POST", body=b"{}", headers=headers)
    assert (answer.status, answer.body["error"]) == (400, "invalid_request")


@pytest.mark.parametrize(("path", "status"), [("/", 404), ("/v1/clock", 404), (TOKEN, 405)])
async def test_other_requests_are_refused(service: IdentityService, path: str, status: int) -> None:
    answer = await ask(service.app, path)
    assert (answer.status, answer.body["error"]) == (status, "invalid_request")


async def test_a_slow_response_waits_for_the_clock(service: IdentityService) -> None:
    service.provider.failures.add(failure_of({"failure": "slow", "delay_ms": 60_000}))
    requested = asyncio.create_task(
        ask(service.app, TOKEN, method="POST", body=REQUEST, headers={**FORM, **BASIC})
    )
    for _ in range(10):
        await asyncio.sleep(0)
    service.clock.advance(59_999)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not requested.done()
    service.clock.advance(1)
    assert (await requested).status == 200
