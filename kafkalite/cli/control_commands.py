"""The shell commands of the table of commands to a running broker, such as `kafkalite fault add`.

The exit status is 0 if the broker carried out the command, 1 if it refused or does not answer, and
2 for invalid arguments. Errors are printed as one line on stderr.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import SUPPRESS
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, Final, get_origin

from kafkalite.cli import explain_capture
from kafkalite.cli.argument_types import number, whole_number
from kafkalite.cli.control_access import add_token_options, token_from
from kafkalite.cli.output import (
    FAILED_STATUS,
    USAGE_STATUS,
    as_json,
    exit_with_error,
    os_error_text,
    print_output,
)
from kafkalite.cli.streams import open_closed_streams, printable, write_stdout_bytes
from kafkalite.cli.tables import in_colour
from kafkalite.config.options import DEFAULT_CONTROL
from kafkalite.config.typed_json import fields_of
from kafkalite.control.client import ControlClient, ControlError
from kafkalite.control.command_table import families, family_of
from kafkalite.control.endpoint import CONTROL_VARIABLE, find_endpoint
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _ActionsContainer
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.config.typed_json import Field
    from kafkalite.control.command_table import Family, Joined, Row, Words
    from kafkalite.control.endpoint import Endpoint


EXPLAIN: Final = "explain"
"""The command that also reads captures."""


class Choice(NamedTuple):
    """A command to a broker, and the words in a shell that send it."""

    row: Row
    words: Words


class ControlCommand(NamedTuple):
    """The commands of a family that begin with one word."""

    name: str
    about: str
    family: Family

    def add_options(self, parser: ArgumentParser) -> None:
        """Add the actions of the word and their options."""
        add_options(parser, self)
        if self.name == EXPLAIN:
            explain_capture.add_options(parser)

    def run(self, arguments: Namespace) -> None:
        """Send the command to the broker and print its answer; raises SystemExit if that fails."""
        if self.name == EXPLAIN and arguments.capture:
            explain_capture.run(arguments)
            return
        run(arguments)


def control_commands() -> list[ControlCommand]:
    """Return all commands."""
    return [each for family in families() for each in _commands_of(family)]


def commands_named(word: str) -> list[ControlCommand]:
    """Return the command that begins with a word; only its module is imported."""
    family = family_of(word)
    return [] if family is None else [each for each in _commands_of(family) if each.name == word]


def _commands_of(family: Family) -> list[ControlCommand]:
    return [ControlCommand(word, about, family) for word, about in family.words.items()]


def add_options(parser: ArgumentParser, command: ControlCommand) -> None:
    """Add the actions of a command and their options."""
    word = command.name
    by_words: dict[str, list[Choice]] = {}
    for row in command.family.rows:
        for words in row.words:
            if words.words.partition(" ")[0] == word:
                by_words.setdefault(words.words, []).append(Choice(row, words))
    own = by_words.pop(word, [])
    if own:
        _add_arguments(parser, own)
    add_common_options(parser)
    if not by_words:
        return
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=not own)
    for each, choices in by_words.items():
        about = choices[0].words.about
        action = actions.add_parser(
            each.partition(" ")[2],
            help=about,
            description=about,
            allow_abbrev=False,
            formatter_class=parser.formatter_class,
            # Without an action, the options of the word have values; an action keeps them.
            argument_default=SUPPRESS if own else None,
        )
        _add_arguments(action, choices)
        # After the action, common options that are missing leave those before it as they are.
        add_common_options(action, default=SUPPRESS)
        action.set_defaults(parser=action)


def _add_arguments(parser: ArgumentParser, choices: Sequence[Choice]) -> None:
    """Add the arguments of the first of the choices, and the flags of the others."""
    (row, words), *flagged = choices
    at_most_one = getattr(row.kind, "AT_MOST_ONE", ())
    for title, fields in _parts(row, words):
        group: _ActionsContainer = parser if title is None else parser.add_argument_group(title)
        if exclusive := [field for field in fields if field.name in at_most_one]:
            exclusive_group = parser.add_mutually_exclusive_group()
            for field in exclusive:
                _add_option(exclusive_group, field)
        for field in fields:
            if field.name not in at_most_one:
                _add_option(group, field)
    for each in words.positionals:
        if isinstance(each, str):
            _add_positional(parser, row, each, is_optional=bool(flagged) or words.is_optional)
        else:
            parser.add_argument(_dest(each), metavar=each.metavar, help=each.text)
    for choice in flagged:
        flag = f"--{choice.words.flag}"
        parser.add_argument(flag, action="store_true", help=choice.words.about)
    parser.set_defaults(choices=choices)


def _parts(row: Row, words: Words) -> Iterator[tuple[str | None, Sequence[Field]]]:
    """Yield the options of a command: those of each object with its title, and then the others."""
    known = fields_of(row.kind)
    for field in known:
        if is_dataclass(field.type):
            yield field.about.text, fields_of(field.type)
    positional = {name for each in words.positionals
                  for name in ((each,) if isinstance(each, str) else each.names)}  # fmt: skip
    yield (
        None,
        [
            field
            for field in known
            if not is_dataclass(field.type)
            and field.name not in {*positional, *words.preset, *row.path_fields}
            and (words.offers is None or field.name in words.offers)
        ],
    )


def _option(field: Field) -> str:
    about = field.about
    return f"--{(about.option or about.alias or field.name).replace('_', '-')}"


def _dest(joined: Joined) -> str:
    return joined.metavar.lower().replace("-", "_")


def _add_option(group: _ActionsContainer, field: Field) -> None:
    about = field.about
    settings: dict[str, Any] = {"dest": field.name, "help": about.help or about.text}
    if field.type is bool:
        group.add_argument(_option(field), action="store_true", **settings)
        return
    if get_origin(field.type) in {tuple, dict}:
        settings["action"] = "append"
    if about.implied is not None:
        settings |= {"nargs": "?", "const": about.implied}
    group.add_argument(_option(field), **settings, **_value_settings(field))


def _add_positional(parser: ArgumentParser, row: Row, name: str, *, is_optional: bool) -> None:
    (field,) = (each for each in fields_of(row.kind) if each.name == name)
    settings: dict[str, Any] = {"nargs": "?"} if is_optional else {}
    parser.add_argument(
        name, help=field.about.help or field.about.text, **settings, **_value_settings(field)
    )


def _value_settings(field: Field) -> Mapping[str, Any]:
    """Return the settings of an argument about its value."""
    about = field.about
    if about.choices:
        return {"choices": about.choices}
    types = {int: whole_number, float: number}
    kind = {} if about.parse or field.type not in types else {"type": types[field.type]}
    return {"metavar": about.metavar or field.name.upper(), **kind}


def add_common_options(parser: ArgumentParser, default: str | None = None) -> None:
    """Add the options of all commands to a running broker."""
    parser.add_argument(
        "--json",
        action="store_true",
        default=default or False,
        help="print the response of the broker as JSON",
    )
    parser.add_argument(
        "--control",
        metavar="URL",
        default=default,
        help="address of the control API, which `kafkalite serve --control` prints "
        "[KAFKALITE_CONTROL, else http://127.0.0.1:9097]",
    )
    add_token_options(parser, default)


def endpoint_of(arguments: Namespace) -> Endpoint:
    """Return the address of the broker in the arguments; raises ValueError for an invalid one."""
    address = arguments.control or os.environ.get(CONTROL_VARIABLE) or DEFAULT_CONTROL
    return find_endpoint(address, token_from(arguments), arguments.control_ca)


def run(arguments: Namespace) -> None:
    """Send a command to the broker and print its answer; raises SystemExit if that fails."""
    open_closed_streams()
    try:
        choice = _choice(arguments)
        given = _given(arguments, choice)
        client = ControlClient(endpoint_of(arguments))
        if choice.row.is_stream:
            for data in client.events(choice.row, given):
                text = _text(client, choice.row, json.loads(data), given)
                if not print_output(f"{data}\n" if arguments.json else text):
                    return
        if choice.row.is_file:
            _write_file(client, choice, given)
            return
        answer = client.request(choice.row, given)
        print_output(
            as_json(answer) if arguments.json else _text(client, choice.row, answer, given)
        )
    except ControlError as error:
        exit_with_error(FAILED_STATUS, str(error))
    except ValueError as error:
        exit_with_error(USAGE_STATUS, str(error))


def _write_file(client: ControlClient, choice: Choice, given: Mapping[str, Any]) -> None:
    """Write the file that is the answer to stdout; raises ValueError if that is a terminal."""
    if sys.stdout.isatty():
        name = choice.row.file_name.format_map(given)
        raise ValueError(f"{choice.words.words} writes a file to its output: add > {name}")
    try:
        for piece in client.file(choice.row, given):
            if not write_stdout_bytes(piece):
                return
    except OSError as error:
        exit_with_error(FAILED_STATUS, f"cannot write the output: {os_error_text(error)}")


def _choice(arguments: Namespace) -> Choice:
    """Return the command whose flag is given, else the first; raises ValueError."""
    first, *flagged = arguments.choices
    chosen: Choice = next((each for each in flagged if getattr(arguments, each.words.flag)), first)
    for each in flagged:
        for name in first.words.positionals:
            if (getattr(arguments, name) is None) is not (chosen is each):
                thing = name.removesuffix("_id")
                raise ValueError(
                    f"{first.words.words} needs either the ID of a {thing} or --{each.words.flag}"
                )
    if arguments.json and chosen.row.is_file:
        raise ValueError(f"{first.words.words} writes a file, which is not JSON: omit --json")
    if arguments.json and chosen.row.answer is str:
        raise ValueError(f"{first.words.words} takes --{chosen.words.flag} or --json, not both")
    return chosen


def _given(arguments: Namespace, choice: Choice) -> Mapping[str, Any]:
    """Return the fields of a command as JSON; raises ValueError for an invalid argument."""
    row, words = choice
    _check_options(arguments, choice)
    given: dict[str, Any] = dict(words.preset)
    for each in words.positionals:
        if not isinstance(each, str):
            given |= each.parse(getattr(arguments, _dest(each)))
    for field in fields_of(row.kind):
        if is_dataclass(field.type):
            given[field.name] = _values(arguments, field.type)
            _check_any(words, field.type, given[field.name])
    given |= _values(arguments, row.kind)
    _check_any(words, row.kind, given)
    return given


def _check_options(arguments: Namespace, choice: Choice) -> None:
    """Raise ValueError for an option of the first of the choices that a flagged one lacks."""
    first = arguments.choices[0]
    own = {field.name for field in fields_of(choice.row.kind)}
    for field in fields_of(first.row.kind):
        if field.name not in {*own, *first.words.positionals} and not is_dataclass(field.type):
            value = getattr(arguments, field.name, None)
            if value is not None and value is not False and value != []:
                raise ValueError(
                    f"{first.words.words} takes --{choice.words.flag} or {_option(field)}, not both"
                )


def _values(arguments: Namespace, kind: object) -> dict[str, Any]:
    values = (
        (each, getattr(arguments, each.name, None))
        for each in fields_of(kind)
        if not is_dataclass(each.type)
    )
    return {
        each.name: _value(each, value)
        for each, value in values
        if value is not None and value is not False and value != []
    }


def _value(field: Field, value: Any) -> object:  # noqa: ANN401 - any value of an argument
    if field.about.parse is not None:
        return field.about.parse(value)
    if get_origin(field.type) is dict:
        from kafkalite.server.settings import parse_config  # noqa: PLC0415 - for few commands

        return parse_config(value)
    return value


def _check_any(words: Words, kind: object, given: Mapping[str, object]) -> None:
    """Raise ValueError if a value is needed and none is given."""
    if getattr(kind, "AT_LEAST_ONE", False) and not given:
        *others, last = map(_option, fields_of(kind))
        raise ValueError(f"{words.words} needs {', '.join(others)} or {last}")


def _text(client: ControlClient, row: Row, answer: object, given: Mapping[str, object]) -> str:
    """Return an answer as lines; raises ControlError for one of another program."""
    if row.answer is str:
        return f"{answer}"
    lines = row.lines(client.read(row, answer), given)
    return "".join(f"{_in_colours(printable(line), row.colours)}\n" for line in lines)


def _in_colours(line: str, colours: Mapping[str, str]) -> str:
    """Return a line whose first word of `colours` has its colour, if stdout shows colours."""
    for word in line.split(" "):
        if word in colours:
            return line.replace(f" {word}", f" {in_colour(word, colours[word])}", 1)
    return line
