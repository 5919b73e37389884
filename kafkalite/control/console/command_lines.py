"""Commands as people send them: the HTTP request, and the line of a shell."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from kafkalite.config.typed_json import fields_of, to_json
from kafkalite.control.command_table import row_of
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.control.command_table import Command, Row, Words


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
        if words.flag is None and (found := _arguments(row, words, given)) is not None:
            return shlex.join(["kafkalite", *words.words.split(), *found])
    return None


def _arguments(row: Row, words: Words, given: Mapping[str, Any]) -> list[str] | None:
    """Return the arguments with these fields; None if the words cannot have them."""
    if any(given.get(name) != value for name, value in words.preset.items()):
        return None
    positional: list[str] = []
    options: list[str] = []
    for field in fields_of(row.kind):
        value = given.get(field.name)
        if value is None or field.name in words.preset:
            continue
        if field.name in words.positionals:
            positional.append(f"{value}")
        elif isinstance(value, (dict, list)) or (
            words.offers is not None and field.name not in words.offers
        ):
            return None
        else:
            name = field.about.option or field.about.alias or field.name
            option = f"--{name.replace('_', '-')}"
            options += [option] if value is True else [option, f"{value}"]
    return [*positional, *options]
