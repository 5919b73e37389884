"""Which browsers the console serves: token, session, host, origin and fetch metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
from starlette.responses import PlainTextResponse

from kafkalite.control.console.access import BrowserAccess, Endpoint, console_path, session_of
from kafkalite.control.token import ControlToken
from tests.unit.control.asgi_client import Answer, ask_for_text
from tests.unit.control.console.served_console import FORM, ORIGIN

if TYPE_CHECKING:
    from kafkalite.control.access_checks import Refusal

TOKEN = ControlToken("a-token-of-tests")
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Guarded:
    """An application behind the access of browsers, and the refusals that it reports."""

    def __init__(self, *, token: ControlToken | None = None, scheme: str = "http") -> None:
        self.reports: list[str] = []
        endpoint = Endpoint(
            token, LOOPBACK, scheme, lambda _host, reason: self.reports.append(reason)
        )
        self.app = BrowserAccess(
            PlainTextResponse("served"),
            endpoint,
            lambda error, path: PlainTextResponse(f"login {path} {error}", 401),
            _refused,
        )

    async def get(self, path: str = "/console/", **headers: str) -> Answer:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return await ask_for_text(self.app, path, headers=given)

    async def post(self, path: str = "/console/faults", body: str = "", **headers: str) -> Answer:
        given = {**FORM, **{name.replace("_", "-"): value for name, value in headers.items()}}
        given = {name: value for name, value in given.items() if value}
        return await ask_for_text(self.app, path, method="POST", body=body.encode(), headers=given)


def _refused(refusal: Refusal) -> PlainTextResponse:
    return PlainTextResponse(refusal.message, refusal.status)


async def test_without_a_token_the_pages_are_open() -> None:
    assert (await Guarded().get()).body == "served"


async def test_a_browser_without_a_session_gets_the_login_page() -> None:
    guarded = Guarded(token=TOKEN)
    answer = await guarded.get("/console/group?group=a%2Fb")
    assert (answer.status, answer.body) == (401, "login /console/group?group=a%2Fb ")
    assert (await guarded.get(cookie="kafkalite-console-9097=wrong")).status == 401
    assert (await guarded.get(cookie=f"kafkalite-console-9097={TOKEN.text}")).status == 401


@pytest.mark.parametrize(
    ("page", "path"),
    [
        (f"{ORIGIN}/console/group?group=a", "/console/group?group=a"),
        ("", "/console/"),
        ("http://evil.example/console/", "/console/"),
        (f"{ORIGIN}.evil.example/console/", "/console/"),
        (f"{ORIGIN}//evil.example/console/", "/console/"),
    ],
)
async def test_a_login_after_a_form_leads_back_to_the_page_of_the_form(
    page: str, path: str
) -> None:
    answer = await Guarded(token=TOKEN).post("/console/faults/add", referer=page)
    assert (answer.status, answer.body) == (401, f"login {path} ")


async def test_styles_of_the_login_page_need_no_session() -> None:
    assert (await Guarded(token=TOKEN).get("/console/static/console.css")).body == "served"


async def test_the_token_in_an_address_begins_a_session_and_leaves_the_address() -> None:
    guarded = Guarded(token=TOKEN)
    answer = await guarded.get(f"/console/group?group=a&token={TOKEN.text}")
    assert (answer.status, answer.headers["location"]) == (303, "/console/group?group=a")
    cookie = answer.headers["set-cookie"]
    assert TOKEN.text not in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/console" in cookie
    assert "Secure" not in cookie
    assert (await guarded.get(cookie=cookie.partition(";")[0])).body == "served"


async def test_consoles_at_other_ports_of_a_host_have_cookies_of_their_own() -> None:
    cookies = []
    for host in ("127.0.0.1:9097", "127.0.0.1:9197", "[::1]:9097", "localhost", "[::1]"):
        answer = await Guarded(token=TOKEN).get(f"/console/?token={TOKEN.text}", host=host)
        cookies.append(answer.headers["set-cookie"].partition("=")[0])
        session = f"{cookies[-1]}={session_of(TOKEN)}; kafkalite-console-1=other"
        assert (await Guarded(token=TOKEN).get(host=host, cookie=session)).body == "served"
    name = "kafkalite-console"
    assert cookies == [f"{name}-9097", f"{name}-9197", f"{name}-9097", name, name]


async def test_the_token_in_the_form_begins_a_session() -> None:
    guarded = Guarded(token=TOKEN, scheme="https")
    body = urlencode({"token": f" {TOKEN.text} ", "next": "/console/groups"})
    answer = await guarded.post("/console/login", body, origin="https://127.0.0.1:9097")
    assert (answer.status, answer.headers["location"]) == (303, "/console/groups")
    assert "Secure" in answer.headers["set-cookie"]


async def test_a_wrong_token_is_reported() -> None:
    guarded = Guarded(token=TOKEN)
    assert (await guarded.get("/console/?token=x")).status == 401
    answer = await guarded.post("/console/login", "token=x&next=//evil.example/")
    assert answer.body == "login /console/ The token is not that of this control API."
    assert len(guarded.reports) == 2


@pytest.mark.parametrize(
    ("headers", "is_served"),
    [
        ({}, True),
        ({"sec_fetch_site": "same-origin"}, True),
        ({"origin": "https://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": ""}, False),
        ({"origin": "http://127.0.0.1:8080"}, False),
        ({"origin": "http://localhost:9097"}, False),
        ({"origin": "https://127.0.0.1:9097"}, False),
        ({"sec_fetch_site": "cross-site"}, False),
        ({"sec_fetch_site": "same-site"}, False),
        (
            {
                "sec_fetch_site": "cross-site",
                "sec_fetch_mode": "navigate",
                "sec_fetch_dest": "document",
            },
            False,
        ),
    ],
)
async def test_a_change_must_come_from_the_console(
    *, headers: dict[str, str], is_served: bool
) -> None:
    guarded = Guarded()
    answer = await guarded.post(**headers)
    assert answer.status == (200 if is_served else 403)
    assert len(guarded.reports) == (not is_served)


@pytest.mark.parametrize(
    ("headers", "is_served"),
    [
        ({"origin": ORIGIN}, True),
        ({"origin": "https://evil.example"}, False),
        ({"sec_fetch_site": "none"}, True),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"}, False),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, False),
        (
            {
                "sec_fetch_site": "cross-site",
                "sec_fetch_mode": "navigate",
                "sec_fetch_dest": "document",
            },
            True,
        ),
        (
            {
                "sec_fetch_site": "cross-site",
                "sec_fetch_mode": "navigate",
                "sec_fetch_dest": "iframe",
            },
            False,
        ),
        ({"host": "evil.example:9097"}, False),
        ({"host": "localhost:9097"}, True),
    ],
)
async def test_other_sites_may_link_to_a_page_only(
    *, headers: dict[str, str], is_served: bool
) -> None:
    assert (await Guarded().get(**headers)).status == (200 if is_served else 403)


def test_the_session_differs_between_tokens() -> None:
    assert session_of(TOKEN) != session_of(ControlToken("another-token"))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/console/groups?page=2", "/console/groups?page=2"),
        ("/v1/faults", "/console/"),
        ("//evil.example/console/", "/console/"),
        ("https://evil.example/console/", "/console/"),
        ("/console/\\evil", "/console/"),
        ("/console/\r\nx: y", "/console/"),
        ("http://[", "/console/"),
        ("", "/console/"),
    ],
)
def test_only_paths_of_the_console_are_followed(text: str, path: str) -> None:
    assert console_path(text) == path
