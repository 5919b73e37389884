"""The application of the console: headers, errors, forms and streams of changes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.control.connection import Limits
from kafkalite.control.console.access import SECURITY_HEADERS, Endpoint
from kafkalite.control.console.app import MAX_SHARE, MAX_STREAMS, MIN_INTERVAL_S, ConsoleApp
from kafkalite.control.console.source import Subject
from kafkalite.control.token import ControlToken
from kafkalite.coordinator.contract import Event
from tests.unit.control.asgi_client import ask_for_text
from tests.unit.control.console.served_console import ServedConsole, served_console
from tests.unit.control.test_turns import turns_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, MutableMapping


@pytest.fixture
async def console() -> AsyncIterator[ServedConsole]:
    async with served_console() as found:
        yield found


async def test_the_root_leads_to_the_first_page(console: ServedConsole) -> None:
    for path in ("/", "/console"):
        answer = await ask_for_text(console.app, path)
        assert (answer.status, answer.headers["location"]) == (303, "/console/")


@pytest.mark.parametrize(
    "path", ["/console/", "/console/groups", "/console/none", "/console/static/console.css"]
)
async def test_every_answer_forbids_scripts_of_others(console: ServedConsole, path: str) -> None:
    answer = await ask_for_text(console.app, path)
    assert SECURITY_HEADERS.items() <= answer.headers.items()
    assert "unsafe" not in answer.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/console/", "/console/groups"])
async def test_no_page_has_code_or_styles_of_its_own(console: ServedConsole, path: str) -> None:
    text = (await ask_for_text(console.app, path)).body
    assert " style=" not in text
    assert "<style" not in text
    assert " on" not in {part[:3] for part in text.split('"')[::2]}
    assert all(part.startswith(" src=") for part in text.split("<script")[1:])


@pytest.mark.parametrize(
    "name",
    ["console.css", "console.js", "theme.js", "icon.svg", "vendor/htmx.min.js",
     "vendor/LICENSES.txt"],
)  # fmt: skip
async def test_static_files_are_served(console: ServedConsole, name: str) -> None:
    answer = await ask_for_text(console.app, f"/console/static/{name}")
    assert answer.status == 200
    assert answer.body


async def test_files_outside_of_the_folder_are_not_served(console: ServedConsole) -> None:
    for path in ("../app.py", "%2e%2e/app.py", "vendor/../../app.py"):
        assert (await ask_for_text(console.app, f"/console/static/{path}")).status == 404


async def test_an_unknown_page_and_an_invalid_field_are_named(console: ServedConsole) -> None:
    assert "/console/none is no page of the console" in await console.get("/none", 404)
    assert "page must be a whole number" in await console.get("/groups", 400, page="x")
    assert "group must be the id of a group" in await console.get("/group", 400)
    assert "there is no group" in await console.get("/group", 404, group="missing")


async def test_the_address_of_a_form_is_no_page(console: ServedConsole) -> None:
    text = await console.get("/topics/create", 405)
    assert "/console/topics/create does not support GET" in text


async def test_a_refusal_does_not_name_the_cluster() -> None:
    async with served_console(Endpoint(allowed_hosts=("localhost",))) as console:
        text = await console.get("/", 403)
        assert "are refused" in text
        assert console.source.name not in text


async def test_the_login_page_has_a_form() -> None:
    token = ControlToken("a-token-of-tests")
    async with served_console(Endpoint(token)) as console:
        text = await console.get("/groups", 401, q="<b>")
        assert 'name="token" type="password"' in text
        assert 'value="/console/groups?q=%3Cb%3E"' in text
        assert console.broker.cluster_id not in text


async def test_the_stream_has_an_event_for_a_change(console: ServedConsole) -> None:
    path = "/console/changes"
    sent: asyncio.Queue[bytes] = asyncio.Queue()

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def send(message: MutableMapping[str, Any]) -> None:
        await sent.put(message.get("body", b""))

    scope = {
        "type": "http", "method": "GET", "path": path, "root_path": "", "scheme": "http",
        "query_string": b"of=groups+history&page=/groups", "client": None,
        "headers": [(b"host", b"127.0.0.1:9097")], "server": ("127.0.0.1", 9097),
    }  # fmt: skip
    stream = asyncio.ensure_future(console.app(scope, receive, send))
    try:
        assert await sent.get() == b""
        assert await sent.get() == b": changes\n\n"
        await console.members.commit("shop", 1)
        assert await sent.get() == b"event: change\ndata: \n\n"
    finally:
        stream.cancel()
        await asyncio.gather(stream, return_exceptions=True)


async def test_pages_that_take_long_are_made_less_often(console: ServedConsole) -> None:
    app = ConsoleApp(console.source, Endpoint())
    assert app.interval_s("/groups") == MIN_INTERVAL_S
    app.note_render("/groups", 0.2)
    streams = [app.events([Subject.GROUPS], "/groups") for _ in range(3)]
    for each in streams:
        await anext(each)
    assert app.interval_s("/groups") == pytest.approx(3 * 0.2 / MAX_SHARE)
    for each in streams:
        await each.aclose()
    app.note_render("/groups", 0.001)
    assert app.interval_s("/groups") == MIN_INTERVAL_S


async def test_the_compilation_of_a_template_does_not_delay_changes(
    console: ServedConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = ConsoleApp(console.source, Endpoint())
    loop = asyncio.get_running_loop()
    time = loop.time
    compiled: list[str] = []
    monkeypatch.setattr(app, "_load", compiled.append)
    monkeypatch.setattr(loop, "time", lambda: time() + 3_600 * len(compiled))
    noted: list[float] = []
    monkeypatch.setattr(app, "note_render", lambda _path, seconds: noted.append(seconds))
    assert (await ask_for_text(app.app, "/console/groups")).status == 200
    assert compiled == ["groups.html.j2"]
    assert noted[0] < 3_600


async def test_an_unknown_subject_is_refused(console: ServedConsole) -> None:
    assert "subjects of changes" in await console.get("/changes", 400, of="weather")
    wrong = await console.get("/changes", 400, topic="orders", first="x")
    assert "first must be a whole number" in wrong


async def test_a_bug_has_a_page_without_its_details(console: ServedConsole) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("a secret")

    console.source.ask = fail  # type: ignore[assignment,method-assign]
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http", "method": "GET", "path": "/console/groups", "root_path": "",
        "scheme": "http", "query_string": b"", "client": None, "server": ("127.0.0.1", 9097),
        "headers": [(b"host", b"127.0.0.1:9097")],
    }  # fmt: skip
    with pytest.raises(RuntimeError, match="a secret"):  # for the log of uvicorn
        await console.app(scope, receive, send)
    start, body = sent
    assert start["status"] == 500
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    assert SECURITY_HEADERS.items() <= headers.items()
    assert b"because of a bug in kafkalite" in body["body"]
    assert b"a secret" not in body["body"]


async def test_a_browser_learns_that_there_are_too_many_live_pages(console: ServedConsole) -> None:
    app = ConsoleApp(console.source, Endpoint())
    streams = [app.events([Subject.GROUPS], "/groups") for _ in range(MAX_STREAMS)]
    for each in streams:
        await anext(each)
    path = "/console/changes?of=groups&page=/groups"
    answer = await ask_for_text(app.app, path)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.body == (
        "retry: 10000\nevent: full\ndata: 32 pages are live, which is the maximum\n\n"
    )
    for each in streams:
        await each.aclose()
    assert len(console.broker.history.watchers) == 0


def test_live_pages_leave_connections_for_other_requests() -> None:
    assert Limits().connections >= 2 * MAX_STREAMS


async def test_a_large_page_is_made_in_small_steps(console: ServedConsole) -> None:
    await console.members.commit("shop", 1)
    for number in range(100):
        facts = {"group": "shop", "number": number}
        console.broker.history.add(Event("shop", "joined", f"{number}", facts), number)
    await console.get("/group", group="shop")
    assert await turns_of(console.get("/group", group="shop")) >= 4


async def test_changes_while_a_browser_does_not_read_are_one_event(console: ServedConsole) -> None:
    stream = ConsoleApp(console.source, Endpoint()).events([Subject.HISTORY], "/groups")
    await anext(stream)
    for number in range(1_000):
        console.broker.history.add(Event("shop", "joined", f"{number}", {}), number)
    assert await anext(stream) == "event: change\ndata: \n\n"
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_a_name_that_is_too_long_for_an_address_is_explained(console: ServedConsole) -> None:
    await console.members.commit("x" * 5_000, 1)
    assert 'href="/console/long-name"' in await console.get("/groups")
    assert "more than 4,000 characters" in await console.get("/long-name", 414)
