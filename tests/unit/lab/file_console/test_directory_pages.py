"""The pages of a console over a data directory."""

from __future__ import annotations

import shutil
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.console.access import Endpoint
from kafkalite.control.console.app import ConsoleApp
from kafkalite.lab.file_console.directory_pages import SECTIONS
from kafkalite.lab.file_console.directory_source import DirectorySource
from kafkalite.ports.clock import AdjustableClock
from kafkalite.storage.data_directory import BOOT_FILE
from tests.unit.control.asgi_client import ask_for_text

if TYPE_CHECKING:
    from pathlib import Path


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


async def test_a_topic_leads_to_the_partitions_that_the_directory_has(
    data_directory: Path, tmp_path: Path
) -> None:
    path = shutil.copytree(data_directory, tmp_path / "copy")
    (path / BOOT_FILE).unlink()  # a directory of Kafka, in which other nodes have partitions
    (path / "orders-0").rename(path / "orders-1")
    shutil.rmtree(path / "other-0")
    with closing(DirectorySource(str(path), AdjustableClock())) as source:
        assert "/console/records?topic=orders&amp;partition=1" in await page(
            source, "/topic?topic=orders"
        )
        text = await page(source, "/topic?topic=other")
        assert "The directory has no replica of a partition of this topic." in text
        assert "/console/records" not in text


@pytest.mark.parametrize("path", ["/requests", "/faults", "/controls", "/produce?topic=orders"])
async def test_pages_of_a_broker_are_absent(directory_source: DirectorySource, path: str) -> None:
    await page(directory_source, path, 404)
