"""Commands as people send them: the HTTP request, and the line of a shell."""

from __future__ import annotations

import json
import shlex
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from kafkalite.config.typed_json import fields_of, to_json
from kafkalite.control.command_table import row_of
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.times import duration_ms, instant_ms, iso_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.config.typed_json import Field
    from kafkalite.control.command_table import Command, Row, Words


_WRITERS: Final[Mapping[object, Callable[[int], str]]] = {
    duration_ms: "{}ms".format,
    instant_ms: iso_of,
}
"""How values are written that these functions read from a text."""


class CommandLines(NamedTuple):
    """A command as a request and as a line of a shell."""

    method: str
    path: str
    """The path with its query."""
    body: str
    """JSON; empty without a body."""
    shell: str
    """A line that begins with `kafkalite`; with curl if kafkalite has no such command."""
    purpose: str


def lines_of(command: Command[Any], url: str) -> CommandLines:
    """Return a command for the control endpoint at `url`."""
    row = row_of(command)
    given = to_json(command, omits_defaults=True)
    path = row.path.format_map({name: quote(f"{given[name]}", safe="") for name in row.path_fields})
    sent = {name: value for name, value in given.items() if name not in row.path_fields}
    body = json.dumps(sent, ensure_ascii=False) if row.has_body else ""
    if sent and not row.has_body:
        path += f"?{urlencode({name: _parameter(value) for name, value in sent.items()})}"
    shell = _shell_line(row, given) or _curl_line(row.method, f"{url}{path}", body)
    return CommandLines(row.method, path, body, shell, row.purpose)


def _parameter(value: object) -> object:
    return json.dumps(value) if isinstance(value, bool) else value


def _curl_line(method: str, url: str, body: str) -> str:
    words = ["curl"]
    if method not in {"GET", "POST"}:
        words += ["-X", method]
    if body:
        words += ["--json", body]
    return shlex.join([*words, url])


def _shell_line(row: Row, given: Mapping[str, Any]) -> str | None:
    """Return the line of the first words that can have all fields; None without such words."""
    for words in row.words:
        if (found := _arguments(row, words, given)) is not None:
            line = shlex.join(["kafkalite", *words.words.split(), *found])
            name = row.file_name.format_map(given)
            return f"{line} > {shlex.quote(name)}" if name else line
    return None


def _arguments(row: Row, words: Words, given: Mapping[str, Any]) -> list[str] | None:
    """Return the arguments with these fields; None if the words cannot have them."""
    if any(given.get(name) != value for name, value in words.preset.items()):
        return None
    fields = {each.name: each for each in fields_of(row.kind)}
    pending = {name: value for name, value in given.items() if name not in words.preset}
    positional: list[str] = []
    for each in words.positionals:
        names = (each,) if isinstance(each, str) else each.names
        values = [_text(fields[name], pending.pop(name)) for name in names if name in pending]
        if len(values) == len(names):
            positional.append("-".join(values))
        elif not words.is_optional:
            return None
    options: list[str] = [] if words.flag is None else [f"--{words.flag}"]
    for name, value in pending.items():
        found = _options(fields[name], value)
        if found is None or not (words.offers is None or name in words.offers):
            return None
        options += found
    return [*positional, *options]


def _options(field: Field, value: Any) -> list[str] | None:  # noqa: ANN401 - any JSON value
    """Return the options for a field; None if no option can have the value."""
    if is_dataclass(field.type):
        own = {each.name: each for each in fields_of(field.type)}
        found = [_options(own[name], each) for name, each in value.items()]
        return None if None in found else [text for texts in found for text in texts or ()]
    if isinstance(value, list):
        return None
    about = field.about
    option = f"--{(about.option or about.alias or field.name).replace('_', '-')}"
    if isinstance(value, dict):
        return [text for key, each in value.items() for text in (option, f"{key}={each}")]
    return [option] if value is True else [option, _text(field, value)]


def _text(field: Field, value: object) -> str:
    """Return the text from which the shell command reads a value."""
    write = _WRITERS.get(field.about.parse)
    return write(value) if write is not None and isinstance(value, int) else f"{value}"
