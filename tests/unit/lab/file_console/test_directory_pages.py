"""The pages of a console over a data directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.control.console.access import Endpoint
from kafkalite.control.console.app import ConsoleApp
from kafkalite.lab.file_console.directory_pages import SECTIONS
from tests.unit.control.asgi_client import ask_for_text

if TYPE_CHECKING:
    from kafkalite.lab.file_console.directory_source import DirectorySource


async def page(source: DirectorySource, path: str, status: int = 200) -> str:
    app = ConsoleApp(source, Endpoint(), SECTIONS).app
    answer = await ask_for_text(app, f"/console{path}")
    assert answer.status == status, answer.body
    text: str = answer.body
    return text


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", "metadata.version"),
        ("/topics", "orders"),
        ("/topic?topic=orders", "604800001"),
        ("/records?topic=orders", "value-29"),
        ("/record?topic=orders&partition=0&offset=7", "value-7"),
        ("/groups", "shop"),
        ("/group?group=shop", "generation 1 of group shop"),
        ("/group?group=shop&step=1", "The group as it was at"),
        ("/transactions", "pay"),
        ("/transaction?id=pay", "CompleteAbort"),
    ],
)
async def test_pages_show_the_directory_and_change_nothing(
    directory_source: DirectorySource, path: str, expected: str
) -> None:
    text = await page(directory_source, path)
    assert expected in text
    assert 'method="post"' not in text
    assert "data-changes" not in text
    assert "/console/requests" not in text
    assert "/console/entry" not in text
    assert "/console/produce" not in text
    assert "GET /v1" not in text


@pytest.mark.parametrize("path", ["/requests", "/faults", "/controls", "/produce?topic=orders"])
async def test_pages_of_a_broker_are_absent(directory_source: DirectorySource, path: str) -> None:
    await page(directory_source, path, 404)
