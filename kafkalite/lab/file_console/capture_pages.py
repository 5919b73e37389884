"""The pages of a capture: what it has, and the requests that name a topic; and its sections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.control.commands.requests import ListRequests
from kafkalite.control.console.page import Content, Page, Section
from kafkalite.control.console.pages import groups, requests, transactions
from kafkalite.control.console.texts import name_text
from kafkalite.control.request_filter import RequestFilter
from kafkalite.lab.file_console.capture_source import CaptureSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.control.console.page import View

_ROWS: Final = 60
_MAX_ERRORS: Final = 12
_MAX_APIS: Final = 30
_MAX_PROBLEMS: Final = 200
_MAX_FILES: Final = 50


async def _overview(view: View) -> Content:
    source = view.source
    assert isinstance(source, CaptureSource)
    summary = source.summary()
    return Content(
        {
            "summary": summary,
            "apis": summary.apis[:_MAX_APIS],
            "errors": summary.errors[:_MAX_ERRORS],
            "problems": summary.problems[:_MAX_PROBLEMS],
            "files": summary.files[:_MAX_FILES],
        },
        commands=(ListRequests(),),
    )


async def _topic(view: View) -> Content:
    name = view.query.text("topic")
    if not name:
        raise ValueError("topic must be the name of a topic, as in /console/topic?topic=orders")
    page = await view.source.latest_requests(RequestFilter(topic=name), _ROWS)
    return Content(
        {"topic": name, "page": page},
        title=f"Topic {name_text(name)}",
        commands=(ListRequests(topic=name),),
    )


SECTIONS: Final[Sequence[Section]] = (
    Section((Page("/", "Capture", "capture.html.j2", _overview),)),
    requests.SECTION,
    groups.SECTION,
    transactions.SECTION,
    Section(
        (Page("/topic", "Topic", "captured_topic.html.j2", _topic, section="/requests"),),
        is_listed=False,
    ),
)
