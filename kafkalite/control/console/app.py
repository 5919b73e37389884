"""The application of the console: its pages, forms, streams of changes, and static files."""

from __future__ import annotations

import asyncio
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from kafkalite.control.command_table import row_of
from kafkalite.control.console import command_lines, texts
from kafkalite.control.console.access import (
    SECURITY_HEADERS,
    BrowserAccess,
    console_path,
)
from kafkalite.control.console.entry import CONSOLE_PATH
from kafkalite.control.console.forms import Query, form_of
from kafkalite.control.console.page import (
    LONG_NAME_PATH,
    MAX_LINKED,
    PAGE_ROWS,
    NotFoundError,
    View,
    url_of,
)
from kafkalite.control.console.pages import (
    controls,
    faults,
    groups,
    overview,
    requests,
    topics,
    transactions,
)
from kafkalite.control.console.source import Subject, TopicRecords
from kafkalite.control.turns import in_turns

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence

    from starlette.requests import Request
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from kafkalite.control.access_checks import Refusal
    from kafkalite.control.command_table import Command
    from kafkalite.control.console.access import Endpoint
    from kafkalite.control.console.page import Action, Content, Download, Page, Section
    from kafkalite.control.console.schema_values import SchemaDecoder
    from kafkalite.control.console.source import ConsoleSource

SECTIONS: Final[Sequence[Section]] = (
    overview.SECTION,
    topics.SECTION,
    groups.SECTION,
    transactions.SECTION,
    requests.SECTION,
    faults.SECTION,
    controls.SECTION,
)
"""In the order of the navigation."""

_FOLDER: Final = Path(__file__).parent
_STATIC: Final = _FOLDER / "static"
_BUG_MESSAGE: Final = "The page failed because of a bug in kafkalite: see the broker's log."

_LONG_NAME_MESSAGE: Final = (
    f"The name has more than {MAX_LINKED:,} characters, which is too long for a page about it: use "
    "the control API."
)

_SHARED_TEMPLATES: Final = ("base.html.j2", "macros.html.j2", "timeline.html.j2")
_PREVIEW: Final = "preview"
_CONFIRMED: Final = "confirmed"

MIN_INTERVAL_S: Final = 0.25
"""The minimum time between two changes that a browser is notified of."""
MAX_SHARE: Final = 0.05
"""The maximum share of the time of the event loop that all open pages take for their changes."""
_KEEP_ALIVE_S: Final = 15
MAX_STREAMS: Final = 32
"""The maximum number of streams of changes: each takes one of the connections of the endpoint."""
_PIECES_PER_TURN: Final = 250
"""The number of parts of a page that are made before other tasks run."""
_RETRY_MS: Final = 10_000
_FULL: Final = (
    f"retry: {_RETRY_MS}\nevent: full\ndata: {MAX_STREAMS} pages are live, which is the maximum\n\n"
)
_EVENTS: Final = "text/event-stream"


class ConsoleApp:
    """The HTTP application that shows a source in a browser."""

    def __init__(
        self,
        source: ConsoleSource,
        endpoint: Endpoint,
        sections: Sequence[Section] = SECTIONS,
        *,
        schema_registry_url: str | None = None,
    ) -> None:
        """Decode records by the schemas of the registry, if there is one."""
        self._source = source
        self._decoder = _new_decoder(schema_registry_url)
        self._scheme = endpoint.scheme
        self._templates = _new_environment()
        self._loaded: set[str] = set()
        """The names of templates that are compiled."""
        self._render_s: dict[str, float] = {}
        """The time that each page last took to be rendered, by path."""
        self._open_pages = 0
        """The number of streams of changes."""
        pages = [
            page
            for section in sections
            for page in section.pages
            if source.is_live or not page.needs_broker
        ]
        self._navigation = [section.pages[0] for section in sections if section.is_listed]
        self._paths = frozenset(page.path for page in pages)
        live = sections if source.is_live else ()
        actions = [each for section in live for each in section.actions]
        downloads = [each for section in live for each in section.downloads]
        app = Starlette(
            routes=self._routes(pages, actions, downloads),
            middleware=[
                Middleware(
                    BrowserAccess,
                    endpoint=endpoint,
                    new_login=self._login_page,
                    new_refusal=self._refusal_page,
                ),
            ],
            exception_handlers={HTTPException: self._on_http_error, Exception: self._on_bug},
        )
        # A middleware of Starlette does not see the answer to a bug.
        self.app: ASGIApp = _Headers(app)

    def _routes(
        self, pages: Sequence[Page], actions: Sequence[Action], downloads: Sequence[Download]
    ) -> Sequence[BaseRoute]:
        return [
            Route("/", _to_first_page),
            Route(CONSOLE_PATH, _to_first_page),
            Mount(f"{CONSOLE_PATH}/static", StaticFiles(directory=_STATIC)),
            Route(f"{CONSOLE_PATH}/changes", self._stream),
            Route(f"{CONSOLE_PATH}{LONG_NAME_PATH}", self._on_long_name),
            *(Route(f"{CONSOLE_PATH}{page.path}", partial(self._show, page)) for page in pages),
            *(
                Route(f"{CONSOLE_PATH}{each.path}", partial(self._do, each), methods=["POST"])
                for each in actions
            ),
            *(
                Route(f"{CONSOLE_PATH}{each.path}", partial(self._download, each))
                for each in downloads
            ),
        ]

    async def _show(self, page: Page, request: Request) -> Response:
        if page.template not in self._loaded:
            await asyncio.to_thread(self._load, page.template)
        loop = asyncio.get_running_loop()
        started = loop.time()
        query = Query(request.query_params.multi_items())
        try:
            content = await page.content(View(self._source, query, self._decoder))
        except NotFoundError as error:
            return self._error_page(404, f"{error}")
        except ValueError as error:
            return self._error_page(400, f"{error}")
        url = f"{self._scheme}://{request.headers.get('host', 'HOST')}"
        values = {
            "title": content.title or page.title,
            "section": page.section or page.path,
            "here": url_of(page.path, **_without_seen(query)),
            "commands": [
                line for each in content.commands for line in self._source.command_lines(each, url)
            ],
            "changes": self._changes_url(page, content),
            **content.values,
        }
        # A large page takes many milliseconds.
        await asyncio.sleep(0)
        pieces = self._pieces(page.template, values)
        text = "".join([each async for each in in_turns(pieces, _PIECES_PER_TURN)])
        self.note_render(page.path, loop.time() - started)
        return _page(200, text)

    def _load(self, template: str) -> None:
        """Compile a template and those that it uses, which takes up to some tenths of a second."""
        for name in (*_SHARED_TEMPLATES, template):
            self._templates.get_template(name)
        self._loaded.add(template)

    def note_render(self, path: str, seconds: float) -> None:
        """Note how long a page took to be made."""
        self._render_s[path] = seconds

    def _changes_url(self, page: Page, content: Content) -> str:
        """Return the address of the stream of changes of a page; empty if it does not change."""
        if not content.changes or not self._source.is_live:
            return ""
        subjects = [each for each in content.changes if isinstance(each, Subject)]
        records = [each for each in content.changes if isinstance(each, TopicRecords)]
        fields = records[0]._asdict() if records else {}
        of = " ".join(each.value for each in subjects)
        return url_of("/changes", of=of, page=page.path, **fields)

    async def _do(self, action: Action, request: Request) -> Response:
        """Send the command of a form to the source, and continue with another page."""
        form = await form_of(request)
        back = console_path(form.text("back"))
        try:
            command = action.command(form)
            must_ask = action.is_dangerous or form.text(_PREVIEW)
            if must_ask and not form.text(_CONFIRMED):
                return self._confirmation(request, action, form, command)
            answer = await self._source.ask(command)
        except ValueError as error:
            return self._error_page(400, f"{error}", back)
        return RedirectResponse(back if action.next is None else action.next(form, answer), 303)

    async def _download(self, download: Download, request: Request) -> Response:
        """Return the file that is the answer to a command."""
        try:
            command = download.command(Query(request.query_params.multi_items()))
            pieces = await self._source.ask(command)
        except ValueError as error:
            return self._error_page(400, f"{error}")
        row = row_of(command)
        headers = {**row.file_headers(command), "cache-control": "no-store"}
        return StreamingResponse(pieces, headers=headers, media_type=row.media_type)

    def _confirmation(
        self, request: Request, action: Action, form: Query, command: Command[Any]
    ) -> Response:
        """Return the page that shows a command before it is sent."""
        url = f"{self._scheme}://{request.headers.get('host', 'HOST')}"
        fields = {name: text for name, text in form.fields.items() if name != _PREVIEW}
        values = {
            "title": "Confirm",
            "lines": command_lines.lines_of(command, url),
            "is_dangerous": action.is_dangerous,
            "action": action.path,
            "fields": {**fields, _CONFIRMED: "yes"},
            "back": console_path(form.text("back")),
        }
        return self._plain("confirm.html.j2", 200, values)

    async def _stream(self, request: Request) -> Response:
        query = Query(request.query_params.multi_items())
        try:
            subjects: list[Subject | TopicRecords] = [*map(_subject, query.text("of").split())]
            subjects += _records_in(query)
        except ValueError as error:
            return self._error_page(400, f"{error}")
        if self._open_pages >= MAX_STREAMS:
            return Response(_FULL, media_type=_EVENTS)
        return StreamingResponse(self.events(subjects, query.text("page")), media_type=_EVENTS)

    async def events(
        self, subjects: Sequence[Subject | TopicRecords], path: str
    ) -> AsyncGenerator[str, None]:
        """Yield an event after changes: few for a page that takes long to be rendered."""
        changes = self._source.changes(subjects)
        if changes is None:
            return
        self._open_pages += 1
        try:
            yield ": changes\n\n"
            while True:
                if await changes.next(_KEEP_ALIVE_S):
                    yield "event: change\ndata: \n\n"
                    await asyncio.sleep(self.interval_s(path))
                else:
                    yield ": no change\n\n"  # fails if the browser has disconnected
        finally:
            self._open_pages -= 1
            changes.close()

    def interval_s(self, path: str) -> float:
        """Return the time until the next change of a page that a browser is notified of."""
        return max(MIN_INTERVAL_S, self._render_s.get(path, 0.0) * self._open_pages / MAX_SHARE)

    def _render(self, template: str, status: int, values: Mapping[str, Any]) -> Response:
        return _page(status, "".join(self._pieces(template, values)))

    def _pieces(self, template: str, values: Mapping[str, Any]) -> Iterator[str]:
        """Yield the parts of a page."""
        return self._templates.get_template(template).generate(
            {
                "cluster": self._source.name,
                "source": self._source,
                "navigation": self._navigation,
                "paths": self._paths,
                **values,
            }
        )

    def _plain(self, template: str, status: int, values: Mapping[str, Any]) -> Response:
        """Return a page that is in no section."""
        defaults = {"section": "", "here": "", "commands": (), "changes": ""}
        return self._render(template, status, {**defaults, **values})

    def _error_page(self, status: int, message: str, back: str = "", **values: str) -> Response:
        title = HTTPStatus(status).phrase
        values |= {"title": title, "message": message, "back": back}
        return self._plain("error.html.j2", status, values)

    def _login_page(self, error: str, path: str) -> Response:
        return self._plain(
            "login.html.j2", 401, {"title": "Log in", "error": error, "next": path, "cluster": ""}
        )

    def _refusal_page(self, refusal: Refusal) -> Response:
        # A page of others may read it, so it has nothing of the cluster.
        return self._error_page(refusal.status, refusal.message, cluster="")

    def _on_http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path: str = request.scope["path"]  # request.url needs a Host header that can be parsed
        messages = {
            HTTPStatus.NOT_FOUND: f"{path[:80]} is no page of the console.",
            HTTPStatus.METHOD_NOT_ALLOWED: f"{path[:80]} does not support {request.method[:10]}: "
            "a page is opened with GET, and a form is sent with POST.",
        }
        status = HTTPStatus(error.status_code)
        return self._error_page(status, messages.get(status, f"{error.detail}"))

    async def _on_long_name(self, request: Request) -> Response:
        del request
        return self._error_page(414, _LONG_NAME_MESSAGE)

    def _on_bug(self, request: Request, error: Exception) -> Response:
        """Answer an exception; uvicorn logs it."""
        del request, error
        return self._error_page(500, _BUG_MESSAGE)


def _page(status: int, text: str) -> Response:
    return HTMLResponse(text, status, {"cache-control": "no-store"})


class _Headers:
    """An ASGI application that adds SECURITY_HEADERS to the answers of another one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _new_decoder(url: str | None) -> SchemaDecoder | None:
    if url is None:
        return None
    # Few brokers have a registry.
    from kafkalite.control.console.schema_registry import SchemaRegistry  # noqa: PLC0415
    from kafkalite.control.console.schema_values import SchemaDecoder  # noqa: PLC0415

    return SchemaDecoder(SchemaRegistry(url))


def _subject(text: str) -> Subject:
    try:
        return Subject(text)
    except ValueError as error:
        raise ValueError("of must be the subjects of changes, such as history") from error


def _records_in(query: Query) -> Sequence[TopicRecords]:
    """Return the partitions whose records a page shows, at most as many as it can show."""
    topic = query.text("topic")
    if not topic:
        return ()
    first = query.whole("first", 0)
    return (TopicRecords(topic, first, min(query.whole("last", first), first + PAGE_ROWS - 1)),)


def _without_seen(query: Query) -> Mapping[str, str]:
    """Return the fields of a query without the one that each update of a page sends."""
    fields = query.without_empty()
    return {name: value for name, value in fields.items() if name != "seen"}


async def _to_first_page(request: Request) -> Response:
    del request
    return RedirectResponse(f"{CONSOLE_PATH}/", 303)


def _new_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"url": url_of, "console_path": CONSOLE_PATH}
    environment.filters |= {
        "visible": texts.visible,
        "name": texts.name_text,
        "as_json": texts.json_text,
        "time": texts.time_text,
        "duration": texts.ago_text,
        "facts": texts.facts_of,
        "size": texts.size_text,
        "moment": texts.moment_text,
        "latency": texts.latency_text,
    }
    return environment
