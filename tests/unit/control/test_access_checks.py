"""Requests that the control API refuses: of web pages, for other hosts, and without the token."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from kafkalite.control.access_checks import AccessChecks
from kafkalite.control.token import ControlToken
from tests.unit.control.asgi_client import Answer, ask

TOKEN = "a-token-of-tests"  # noqa: S105 - of no server
LOOPBACK = ("localhost", "127.0.0.1", "::1")
GOOD = {"authorization": f"Bearer {TOKEN}"}


class Checked:
    """An application behind the checks, and the refusals that they report."""

    def __init__(self, *, has_token: bool = True, is_public: bool = False) -> None:
        self.reports: list[tuple[str, str]] = []
        self.served = 0
        app = Starlette(routes=[Route("/v1", self._serve), Route("/v1/live", self._serve)])
        self.app = AccessChecks(
            app,
            None if is_public else LOOPBACK,
            lambda host, reason: self.reports.append((host, reason)),
            token=ControlToken(TOKEN) if has_token else None,
            open_paths={"/v1/live"},
        )

    async def _serve(self, request: object) -> JSONResponse:
        del request
        self.served += 1
        return JSONResponse("served")

    async def get(self, path: str = "/v1", **headers: str) -> Answer:
        return await ask(self.app, path, headers=headers)  # type: ignore[arg-type]


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER  "])
async def test_a_request_with_the_token_is_served(scheme: str) -> None:
    checked = Checked()
    assert (await checked.get(authorization=scheme + TOKEN)).status == 200
    assert checked.reports == []


@pytest.mark.parametrize(
    ("authorization", "challenge"),
    [
        (None, 'Bearer realm="kafkalite"'),
        ("", 'Bearer realm="kafkalite"'),
        (TOKEN, 'Bearer realm="kafkalite"'),
        (f"Basic {TOKEN}", 'Bearer realm="kafkalite"'),
        ("Bearer", 'Bearer realm="kafkalite", error="invalid_token"'),
        (f"Bearer {TOKEN}x", 'Bearer realm="kafkalite", error="invalid_token"'),
        (f"Bearer {TOKEN[:-1]}", 'Bearer realm="kafkalite", error="invalid_token"'),
        (f"Bearer {TOKEN.upper()}", 'Bearer realm="kafkalite", error="invalid_token"'),
        ("Bearer \x80\xff", 'Bearer realm="kafkalite", error="invalid_token"'),
    ],
)
async def test_another_token_is_refused_and_the_connection_closed(
    authorization: str | None, challenge: str
) -> None:
    checked = Checked()
    headers = {} if authorization is None else {"authorization": authorization}
    answer = await checked.get(**headers)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == challenge
    assert answer.headers["connection"] == "close"
    assert TOKEN not in answer.body["error"]
    assert checked.served == 0
    assert checked.reports == [("127.0.0.1", answer.body["error"])]


@pytest.mark.parametrize("path", ["/v1/live/", "/v1/live/../clock", "//v1/live", "/v1/LIVE"])
async def test_only_the_open_path_itself_is_open(path: str) -> None:
    checked = Checked()
    assert (await checked.get("/v1/live")).status == 200
    assert (await checked.get(path)).status == 401


@pytest.mark.parametrize("has_token", [False, True])
@pytest.mark.parametrize("path", ["/v1", "/v1/live"])
async def test_web_pages_are_refused_with_and_without_token(path: str, *, has_token: bool) -> None:
    checked = Checked(has_token=has_token)
    for headers in (GOOD, {}):
        answer = await checked.get(path, origin="http://evil.test", **headers)
        assert answer.status == 403
        assert "web pages" in answer.body["error"]
    assert checked.served == 0


@pytest.mark.parametrize("has_token", [False, True])
@pytest.mark.parametrize("path", ["/v1", "/v1/live"])
async def test_other_hosts_are_refused_also_with_the_token(path: str, *, has_token: bool) -> None:
    checked = Checked(has_token=has_token)
    for host in ("evil.test", "evil.test:9097", "localhost.evil.test", "", "["):
        answer = await checked.get(path, host=host, **GOOD)
        assert (answer.status, checked.served) == (403, 0), host


async def test_a_public_address_has_any_host_name_but_no_web_pages() -> None:
    checked = Checked(is_public=True)
    assert (await checked.get(host="kafkalite:9097", **GOOD)).status == 200
    assert (await checked.get(host="kafkalite:9097", origin="http://x", **GOOD)).status == 403
    assert (await checked.get(host="kafkalite:9097")).status == 401
