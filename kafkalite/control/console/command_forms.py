"""Forms of commands: their inputs, and the commands that texts in them describe."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, get_origin

from kafkalite.config.typed_json import fields_of, number_of, quote, read
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from kafkalite.config.typed_json import Field
    from kafkalite.control.command_table import Command
    from kafkalite.control.console.forms import Query

CHECK, CHOICE, LINES, NUMBER, TEXT = "check", "choice", "lines", "number", "text"


class Input(NamedTuple):
    """An input of a form."""

    name: str
    """Names of the objects and of the field, separated by periods: `match.api`."""
    label: str
    about: str
    kind: str
    """CHECK, CHOICE, LINES (each with KEY=VALUE), NUMBER or TEXT."""
    choices: Sequence[str] = ()
    """The only values of CHOICE; for TEXT, values to choose from."""
    placeholder: str = ""
    is_required: bool = False


def inputs_of(kind: Any, names: Collection[str] | None = None, prefix: str = "") -> list[Input]:  # noqa: ANN401 - a dataclass
    """Return the inputs for the fields of a command, or for those with some names."""
    found: list[Input] = []
    for field in fields_of(kind):
        name = f"{prefix}{field.name}"
        if is_dataclass(field.type):
            found += inputs_of(field.type, names, f"{name}.")
        elif names is None or name in names:
            found.append(_input(field, name))
    return found


def _input(field: Field, name: str) -> Input:
    about = field.about
    kind, choices = TEXT, tuple(about.choices)
    if field.type is bool:
        kind = CHECK
    elif choices:
        kind = CHOICE
    elif get_origin(field.type) is dict:
        kind = LINES
    elif field.type in {int, float} and about.parse is None:
        kind = NUMBER
    if about.names is not None:
        choices = tuple(sorted(about.names()))
    label = (about.option or about.alias or field.name).removesuffix("_id").replace("_", " ")
    label = "API" if label == "api" else label
    is_required = field.is_required and kind is not CHECK
    text = about.help or about.text
    return Input(name, label, text, kind, choices, about.metavar or "", is_required)


def sender(kind: type[Command[Any]], **fixed: object) -> Callable[[Query], Command[Any]]:
    """Return the function of an action: it reads a command with some fixed fields from a form."""

    def command(form: Query) -> Command[Any]:
        given = {**dict(_given(kind, form, "")), **fixed}
        return read(kind, given, "the form")

    return command


def _given(kind: Any, form: Query, prefix: str) -> Iterator[tuple[str, object]]:  # noqa: ANN401 - a dataclass
    """Yield the names of the fields of a JSON object, and their values."""
    for field in fields_of(kind):
        name = f"{prefix}{field.name}"
        if is_dataclass(field.type):
            yield field.name, dict(_given(field.type, form, f"{name}."))
        elif text := form.text(name):
            yield _named_value(field, name, text)


def _named_value(field: Field, name: str, text: str) -> tuple[str, object]:
    about = field.about
    if about.alias is not None:
        return about.alias, text
    return field.name, _value(field, name, text)


def _value(field: Field, name: str, text: str) -> object:
    if field.type is bool:
        return True
    if get_origin(field.type) is dict:
        return _key_values(name, text)
    if field.type is int and field.about.names is None:
        return number_of(text.strip())
    if field.type is float:
        parse = field.about.parse or float
        try:
            return parse(text)
        except ValueError as error:
            raise ValueError(f"{name} must be a number, not {quote(text)}") from error
    return text


def _key_values(name: str, text: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if not line.strip():
            continue
        if not equals or not key.strip():
            raise ValueError(f"{name} has the line {quote(line)}: write KEY=VALUE")
        found[key.strip()] = value.strip()
    return found
