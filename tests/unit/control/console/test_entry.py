"""Which requests are for the console, and its absence without its library."""

from __future__ import annotations

import pytest
from starlette.responses import PlainTextResponse

from kafkalite.control.console.entry import MISSING_LIBRARY_MESSAGE, ConsoleEntry
from tests.unit.control.asgi_client import ask_for_text

BROWSER = "text/html,application/xhtml+xml,*/*;q=0.8"


def new_entry(loads: list[str]) -> ConsoleEntry:
    def load() -> PlainTextResponse:
        loads.append("loaded")
        return PlainTextResponse("console")

    return ConsoleEntry(PlainTextResponse("api"), load)


@pytest.mark.parametrize(
    ("path", "accept", "served"),
    [
        ("/", BROWSER, "console"),
        ("/", "*/*", "api"),
        ("/", "application/json", "api"),
        ("/console", "*/*", "console"),
        ("/console/groups", "*/*", "console"),
        ("/consoles", BROWSER, "api"),
        ("/v1/console/", BROWSER, "api"),
        ("/v1", BROWSER, "api"),
    ],
)
async def test_the_path_and_the_browser_decide(path: str, accept: str, served: str) -> None:
    answer = await ask_for_text(new_entry([]), path, headers={"accept": accept})
    assert answer.body == served


async def test_the_console_is_loaded_once_by_the_first_browser() -> None:
    loads: list[str] = []
    entry = new_entry(loads)
    await ask_for_text(entry, "/v1")
    assert loads == []
    for _ in range(2):
        await ask_for_text(entry, "/console/")
    assert loads == ["loaded"]


async def test_the_missing_library_is_named() -> None:
    def load() -> PlainTextResponse:
        raise ModuleNotFoundError("No module named 'jinja2'", name="jinja2")

    answer = await ask_for_text(ConsoleEntry(PlainTextResponse("api"), load), "/console/")
    assert (answer.status, answer.body) == (503, MISSING_LIBRARY_MESSAGE)


async def test_another_missing_module_is_a_bug() -> None:
    def load() -> PlainTextResponse:
        raise ModuleNotFoundError("No module named 'x'", name="x")

    with pytest.raises(ModuleNotFoundError):
        await ask_for_text(ConsoleEntry(PlainTextResponse("api"), load), "/console/")
