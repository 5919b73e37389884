"""Page and Action: what the modules in `pages/` declare, and what their functions return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlencode

from kafkalite.control.console.entry import CONSOLE_PATH
from kafkalite.control.turns import drain, in_turns
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence

    from kafkalite.control.command_table import Command
    from kafkalite.control.console.forms import Query
    from kafkalite.control.console.schema_values import SchemaDecoder
    from kafkalite.control.console.source import ConsoleSource, Subject, TopicRecords

T = TypeVar("T")

PAGE_ROWS: Final = 100
"""The number of rows of a list on one page."""
MAX_LINKED: Final = 4_000
"""The maximum number of characters of a field in an address: all headers may have 64 KiB."""
LONG_NAME_PATH: Final = "/long-name"
_COMPARED_PER_TURN: Final = 1_000


class NotFoundError(ValueError):
    """The page is about something that does not exist; the text is one sentence."""


class View(NamedTuple):
    """A request for a page."""

    source: ConsoleSource
    query: Query
    decoder: SchemaDecoder | None = None
    """Decodes keys and values; None without a schema registry."""


class Content(NamedTuple):
    """What a page shows."""

    values: Mapping[str, Any]
    """The variables of its template."""
    title: str = ""
    """The title of this page; by default that of its kind."""
    commands: Sequence[Command[Any]] = ()
    """The commands that return the same, for a shell and for HTTP."""
    changes: Sequence[Subject | TopicRecords] = ()
    """The page is rendered again when one of these changes."""


class Page(NamedTuple):
    """A kind of page."""

    path: str
    """The path below `/console`, such as `/groups`."""
    title: str
    template: str
    content: Callable[[View], Awaitable[Content]]
    """Raises NotFoundError, and ValueError for invalid fields of the query."""
    section: str = ""
    """The path of the page in the navigation to which this one belongs; by default its own."""
    needs_broker: bool = False
    """Whether it is absent from a console over files, because it changes something."""


class Action(NamedTuple):
    """A command that a form of a page sends.

    A form with the field `preview` shows the command, for a shell and over HTTP, before it is sent.
    """

    path: str
    """The path below `/console`; its method is POST."""
    command: Callable[[Query], Command[Any]]
    """Returns the command of the fields of a form; raises ValueError."""
    is_dangerous: bool = False
    """Whether the console asks before it sends the command."""
    next: Callable[[Query, Any], str] | None = None
    """Returns the address of the page after the answer; by default that in the field `back`."""


class Download(NamedTuple):
    """A command whose answer is a file, for a link of a page."""

    path: str
    """The path below `/console`."""
    command: Callable[[Query], Command[AsyncIterator[bytes]]]
    """Returns the command of the fields of an address; raises ValueError."""


class Section(NamedTuple):
    """A section of the navigation, with its pages; the first one is in the navigation."""

    pages: Sequence[Page]
    actions: Sequence[Action] = ()
    downloads: Sequence[Download] = ()
    is_listed: bool = True
    """Whether its first page is in the navigation."""


class Rows(NamedTuple):
    """The rows of a long list that are on one page."""

    rows: Sequence[Any]
    first: int
    """The number of the first row, from 1; 0 without rows."""
    total: int
    page: int
    """The number of the page, from 1."""
    pages: int

    @property
    def last(self) -> int:
        """The number of the last row."""
        return self.first + len(self.rows) - 1 if self.rows else 0


def rows_of(entries: Sequence[Any], query: Query, size: int = PAGE_ROWS) -> Rows:
    """Return the rows that are on the page in the query; the last ones if it is too large."""
    pages = max(1, -(-len(entries) // size))
    page = min(query.whole("page", 1, minimum=1), pages)
    start = (page - 1) * size
    rows = entries[start : start + size]
    return Rows(rows, start + 1 if rows else 0, len(entries), page, pages)


class Pager:
    """The rows of a long list that are on one page, while others are only counted."""

    def __init__(self, query: Query, size: int = PAGE_ROWS) -> None:
        """Select the page in the query; raises ValueError for a field that is no number."""
        self._size = size
        self._page = query.whole("page", 1, minimum=1)
        self._total = 0
        self._rows: list[Any] = []
        self._latest: list[Any] = []
        """The rows of the page to which the next row belongs."""

    def add(self, row: object) -> None:
        """Add the next row."""
        page, index = divmod(self._total, self._size)
        if index == 0:
            self._latest = []
            if page + 1 == self._page:
                self._rows = self._latest
        self._latest.append(row)
        self._total += 1

    def rows(self) -> Rows:
        """Return the rows on the page; those on the last page if its number is too large."""
        pages = max(1, -(-self._total // self._size))
        page = min(self._page, pages)
        rows = self._rows or self._latest
        first = (page - 1) * self._size + 1 if rows else 0
        return Rows(rows, first, self._total, page, pages)


async def each_of(entries: Iterable[T]) -> AsyncIterator[T]:
    """Yield the entries of a long answer, while other tasks run.

    The caller does not refer to the answer, so that the entries are freed one by one: to free very
    many at once takes long.
    """
    pending = list(entries)
    del entries
    async for each in in_turns(drain(pending), _COMPARED_PER_TURN):
        yield each


def url_of(path: str, **fields: object) -> str:
    """Return the address of a page, without the fields that are None or empty.

    A page about a name that no browser can send in an address has the address of an explanation.
    """
    given = {name: value for name, value in fields.items() if value not in {None, ""}}
    if any(isinstance(value, str) and len(value) > MAX_LINKED for value in given.values()):
        return f"{CONSOLE_PATH}{LONG_NAME_PATH}"
    query = f"?{urlencode(given)}" if given else ""
    return f"{CONSOLE_PATH}{path}{query}"
