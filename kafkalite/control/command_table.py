"""The table of commands to a running broker, and what all commands have in common.

A command is a frozen dataclass with described fields and a method `perform`. Its row has the
answer, the method and the path over HTTP, and its words in a shell. The rows are those of the
modules in `kafkalite.control.commands`; a new module there needs no entry anywhere else. The HTTP
routes, the client, the shell commands, the reference and the OpenAPI document follow from the rows.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from kafkalite.config.typed_json import fields_of, to_json
from kafkalite.control import commands
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.config.typed_json import Field
    from kafkalite.server.broker import Broker

Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)

_PATH_PARAMETER = re.compile(r"\{(\w+)\}")

_LOOP_ITERATIONS = 3
"""Iterations of the event loop in which the answers that a command triggered are written."""


class CommandError(ValueError):
    """A command that cannot be carried out; the text is one sentence."""


class Command(Protocol[Answer_co]):
    """A command as data, and its execution on the event loop that serves the broker."""

    async def perform(self, broker: Broker, /) -> Answer_co:
        """Carry out the command; raises ValueError, with one sentence, if that is impossible."""


class Perform(Protocol):
    """Carries out a command on the event loop of a broker, and returns the answer."""

    def __call__(self, command: Command[Answer], /) -> Answer:
        """Carry out the command; raises ValueError if that is impossible."""


class Joined(NamedTuple):
    """A positional argument that stands for several fields."""

    metavar: str
    text: str
    names: tuple[str, ...]
    parse: Callable[[str], Mapping[str, object]]


class Words(NamedTuple):
    """A command of the shell that sends a command to a broker."""

    words: str
    """Such as "fault add"."""
    about: str = ""
    """The description in `--help`."""
    positionals: tuple[str | Joined, ...] = ()
    """Fields that are positional arguments."""
    is_optional: bool = False
    """Whether the positional arguments may be missing."""
    preset: Mapping[str, object] = {}
    """Fields with fixed values."""
    offers: tuple[str, ...] | None = None
    """Fields that are options; by default all others."""
    flag: str | None = None
    """The option that selects this command among those with the same words."""


class Status(NamedTuple):
    """An HTTP status that depends on the answer."""

    possible: tuple[int, ...]
    of: Callable[[Broker, Any], int]
    """(broker, answer) → status."""


def one_line(line_of: Callable[[Any], str]) -> Callable[[Any, object], list[str]]:
    """Return the function for `Row.lines` of answers that are printed as one line."""
    return lambda answer, _: [line_of(answer)]


JSON_LINES: Final = "application/x-ndjson"
"""The media type of lines with a JSON value each."""

_TIME_LIMITS: Final = frozenset(("wait_ms", "within_ms"))
"""The fields of commands that wait for something, and change nothing."""


class Row(NamedTuple):
    """All that is known about a command apart from its fields and its execution."""

    kind: type
    """The dataclass of the command."""
    answer: type
    """The dataclass of the answer, `str` for text, `dict` for any JSON object, `bytes` for a file.

    For a file, `perform` returns an asynchronous iterator over its bytes.
    """
    method: str
    path: str
    """A path with a field of the command in braces; POST has the other fields in its body."""
    words: tuple[Words, ...] = ()
    lines: Callable[[Any, Mapping[str, object]], Iterable[str]] = lambda _answer, _given: ()
    """Returns the lines that a shell prints: of an answer to the command with these fields."""
    example: Mapping[str, object] | None = None
    """A body."""
    status: int | Status = 200
    """The HTTP status."""
    not_found: type[Exception] | tuple[()] = ()
    """The error of `perform` for an unknown name in the path."""
    needs_token: bool = True
    pieces: Callable[[Any, Broker], Iterable[str] | AsyncIterator[str]] | None = None
    """Performs the command and returns a large answer as pieces of text, built one by one."""
    json_lines: Callable[[Any, Broker], AsyncIterator[str]] | None = None
    """The same for a client that accepts JSON_LINES: each entry of the answer as a line of JSON."""
    media_type: str = "application/json"
    colours: Mapping[str, str] = {}
    """Words and their colours on a terminal; in each line, the first of them has its colour."""
    file_name: str = ""
    """The name of the file that is the answer, with fields of the command in braces."""

    @property
    def is_stream(self) -> bool:
        """Whether the answer is a stream of server-sent events, each with an object of `answer`."""
        return self.media_type == "text/event-stream"

    @property
    def is_file(self) -> bool:
        """Whether the answer is a file."""
        return self.answer is bytes

    def file_headers(self, command: object) -> Mapping[str, str]:
        """Return the HTTP headers about the file that is the answer."""
        name = self.file_name.format_map(to_json(command))
        return {"content-disposition": f'attachment; filename="{name}"'}

    @property
    def waits(self) -> bool:
        """Whether the command has no effect but to wait for something, for a given time."""
        return any(each.name in _TIME_LIMITS for each in fields_of(self.kind))

    @property
    def path_fields(self) -> tuple[str, ...]:
        """The fields in the path."""
        return tuple(_PATH_PARAMETER.findall(self.path))

    @property
    def has_body(self) -> bool:
        """Whether the other fields are in the body and not in the query."""
        return self.method == "POST"

    @property
    def sent_fields(self) -> tuple[Field, ...]:
        """The fields in the body or in the query."""
        return tuple(each for each in fields_of(self.kind) if each.name not in self.path_fields)

    @property
    def purpose(self) -> str:
        """The first paragraph about the command, on one line."""
        return " ".join((self.kind.__doc__ or "").partition("\n\n")[0].split())

    @property
    def documented_path(self) -> str:
        """The path with `ID` for the field."""
        return _PATH_PARAMETER.sub("ID", self.path)


class Family(NamedTuple):
    """The commands of a module, and the descriptions of their first words in a shell."""

    rows: tuple[Row, ...]
    words: Mapping[str, str] = {}


def families() -> list[Family]:
    """Return the commands of all modules, by the name of the module."""
    return [_import_family(name) for name in _module_names()]


def family_of(word: str) -> Family | None:
    """Return the commands that begin with a word in a shell, such as `fault`; None without any.

    The word is the name of the module, in the singular. No other module is imported.
    """
    name = word.replace("-", "_")
    found = [each for each in _module_names() if each in {name, f"{name}s"}]
    return _import_family(found[0]) if found else None


def _module_names() -> list[str]:
    from pkgutil import iter_modules  # noqa: PLC0415 - a broker in a test needs no table

    return sorted(each.name for each in iter_modules(commands.__path__))


def _import_family(name: str) -> Family:
    family: Family = import_module(f"{commands.__name__}.{name}").COMMANDS
    return family


def rows() -> list[Row]:
    """Return all rows."""
    return [row for family in families() for row in family.rows]


def row_of(command: object) -> Row:
    """Return the row of a command."""
    return next(row for row in rows() if row.kind is type(command))


# What commands use


def running_cluster(broker: Broker) -> Cluster:
    """Return the cluster of a broker; raises CommandError if the broker is not running."""
    if broker.cluster is None:
        raise CommandError("the broker is not running")
    return broker.cluster


async def write_answers() -> None:
    """Return when the answers that a command triggered have been written."""
    for _ in range(_LOOP_ITERATIONS):
        await asyncio.sleep(0)


@contextmanager
def refusals_as_errors(failure: str | None = None) -> Iterator[None]:
    """Raise CommandError for a KafkaError; its text begins with `failure`, such as "no change"."""
    try:
        yield
    except KafkaError as error:
        reason = sentence(error)
        raise CommandError(reason if failure is None else f"{failure}: {reason}") from error


def sentence(error: KafkaError) -> str:
    """Return the text of an error, with its code, as one sentence."""
    message = error.message or error.code.message
    return f"{error.code.name}: {message.removesuffix('.')}"
