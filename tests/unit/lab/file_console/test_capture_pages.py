"""The pages of a console over captures: what they show, and that they change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.control.console.access import Endpoint
from kafkalite.control.console.app import ConsoleApp
from kafkalite.lab.file_console.capture_pages import SECTIONS
from tests.unit.control.asgi_client import ask_for_text

if TYPE_CHECKING:
    from kafkalite.lab.file_console.capture_source import CaptureSource


async def page(source: CaptureSource, path: str, status: int = 200) -> str:
    app = ConsoleApp(source, Endpoint(), SECTIONS).app
    answer = await ask_for_text(app, f"/console{path}")
    assert answer.status == status, answer.body
    text: str = answer.body
    return text


async def test_the_first_page_has_numbers_and_problems(groups_source: CaptureSource) -> None:
    text = await page(groups_source, "/")
    assert "Requests by API" in text
    assert "FENCED_INSTANCE_ID" in text
    assert "The files have no problems." in text
    assert "kafkalite show " in text
    assert "read only" in text


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/requests", "requests examined"),
        ("/requests?group=classic-works&api=OffsetCommit", "OffsetCommit"),
        ("/request?number=10", "--offset"),
        ("/groups", "classic-works"),
        ("/group?group=classic-works", "generation 2 of group classic-works"),
        ("/group?group=classic-works&step=3", "The group as it was at"),
        ("/entry?group=classic-works&entry=3", "Requests that were served at this time"),
        ("/topic?topic=orders", "A capture has no logs of partitions"),
    ],
)
async def test_pages_show_the_capture_and_have_no_forms_that_change(
    groups_source: CaptureSource, path: str, expected: str
) -> None:
    text = await page(groups_source, path)
    assert expected in text
    assert 'method="post"' not in text
    assert "data-changes" not in text
    assert "GET /v1" not in text


async def test_a_transactional_id_has_a_line_of_states(
    transactions_source: CaptureSource,
) -> None:
    text = await page(transactions_source, "/transactions")
    names = {each.partition('"')[0] for each in text.split("/console/transaction?id=")[1:]}
    pages = [await page(transactions_source, f"/transaction?id={each}") for each in names]
    assert len(pages) == 3
    assert any("CompleteCommit" in each for each in pages)


async def test_pages_of_a_broker_are_absent(groups_source: CaptureSource) -> None:
    text = await page(groups_source, "/")
    for path in ("/topics", "/faults", "/controls"):
        assert f'href="/console{path}"' not in text
        await page(groups_source, path, 404)
    assert "topic must be the name of a topic" in await page(groups_source, "/topic", 400)
