"""The first page of a data directory, and its sections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.control.commands.topics import ListTopics
from kafkalite.control.console.page import Content, Page, Section
from kafkalite.control.console.pages import groups, topics, transactions
from kafkalite.lab.file_console.directory_source import DirectorySource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.control.console.page import View

_MAX_NODES: Final = 200


async def _overview(view: View) -> Content:
    source = view.source
    assert isinstance(source, DirectorySource)
    summary = await source.summary()
    return Content(
        {"summary": summary, "brokers": summary.brokers[:_MAX_NODES]}, commands=(ListTopics(),)
    )


SECTIONS: Final[Sequence[Section]] = (
    Section((Page("/", "Directory", "directory.html.j2", _overview),)),
    topics.SECTION,
    groups.SECTION,
    transactions.SECTION,
)
