"""Dataclasses with described fields, which are read from JSON and written as JSON.

A field is annotated as `Annotated[type, About("description", …)]`. Its type is `str`, `int`,
`float`, `bool`, another such dataclass, `tuple[X, …]`, `dict[str, X]`, one of these or None, or
`object` for any JSON value. Three class variables say more about a class:

- `AT_LEAST_ONE`: one field at least must be given.
- `AT_MOST_ONE`: the names of fields of which a shell command takes only one. The class checks this
  for other callers.
- `OMITS_DEFAULTS`: fields with their default values are not written.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from reprlib import Repr
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_args, get_origin
from typing import get_type_hints as type_hints_of

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

T = TypeVar("T")

_MAX_QUOTED_CHARACTERS: Final = 40
"""The maximum number of characters of a wrong value that an error quotes."""
_QUOTED: Final = Repr()
_SCALARS: Final = (str, int, float, bool)
_MAX_DIGITS: Final = 18
"""Digits of a number in text; a longer text is no number."""


class JsonError(ValueError):
    """A value that cannot be read; the text is one sentence that names the field."""


class About(NamedTuple):
    """What is known about a field apart from its name and its type."""

    text: str
    """The description, for readers of the reference, of `--help` and of the OpenAPI document."""
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    """The number must be larger than this one."""
    max_length: int | None = None
    max_items: int | None = None
    """The maximum length of a list."""
    choices: tuple[str, ...] = ()
    """The only valid texts."""
    names: Callable[[], Mapping[str, Any]] | None = None
    """Returns the values by the names that stand for them in JSON."""
    kind: str = ""
    """What `names` has, such as "an error of Kafka"."""
    alias: str | None = None
    """Another field of JSON for this value, as text that `parse` reads."""
    parse: Callable[[str], object] | None = None
    """Returns the value of a text; raises ValueError."""
    read: Callable[[str, object], object] | None = None
    """Returns the value of any JSON value of the field with this name; raises JsonError."""
    schema: Mapping[str, object] | None = None
    """JSON Schema of a field that is an `object` or has `read`."""
    needs: str | None = None
    """What is missing without the field, if it is required."""
    is_secret: bool = False
    """Whether errors do not quote the value."""
    help: str | None = None
    """The description in `--help`, if it differs."""
    option: str | None = None
    """Name of the option in a shell; by default that of the alias or of the field."""
    metavar: str | None = None
    """Placeholder of the value in the usage of a shell command."""
    implied: str | None = None
    """Value of the option if it is given without value."""


class Field(NamedTuple):
    """A field of a dataclass, with its type, which may be optional."""

    name: str
    type: Any
    is_optional: bool
    about: About
    default: object
    """MISSING for a required field."""

    @property
    def is_required(self) -> bool:
        """Whether JSON must have it: it has no default, and is no object that may be empty."""
        return self.default is MISSING and not (
            is_dataclass(self.type)
            and not getattr(self.type, "AT_LEAST_ONE", False)
            and not any(each.is_required for each in fields_of(self.type))
        )


def fields_of(kind: Any) -> tuple[Field, ...]:  # noqa: ANN401 - a dataclass
    """Return the fields of a dataclass."""
    return _fields_of(kind)


@cache
def _fields_of(kind: Any) -> tuple[Field, ...]:  # noqa: ANN401 - as above
    hints = type_hints_of(kind, include_extras=True)
    found = []
    for each in fields(kind):
        hint, about = hints[each.name], About("")
        if get_origin(hint) is Annotated:
            hint, about = get_args(hint)
        members = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        (value_type,) = (member for member in members if member is not NoneType)
        default = each.default if each.default_factory is MISSING else each.default_factory()
        found.append(Field(each.name, value_type, NoneType in members, about, default))
    return tuple(found)


def field_names(kind: type) -> tuple[str, ...]:
    """Return the names of the fields in JSON, and then those of their aliases."""
    all_fields = fields_of(kind)
    aliases = (each.about.alias for each in all_fields)
    return (*(each.name for each in all_fields), *(alias for alias in aliases if alias))


# Reading


def read(
    kind: type[T],
    value: object,
    title: str,
    *,
    fixed: Mapping[str, object] = MappingProxyType({}),
    noun: str = "field",
) -> T:
    """Return the dataclass that a JSON object describes; raises JsonError.

    `title` and `noun` are the words for the object and for its fields in errors. `fixed` has fields
    that come from elsewhere, and that the object cannot have.
    """
    names = [name for name in field_names(kind) if name not in fixed]
    if isinstance(value, dict):
        _check_names(value, names, title, noun)
        value = {**value, **fixed}
    return _read_object(kind, value, title, "", is_strict=True)


def read_answer(kind: type[T], value: object) -> T:
    """Return the dataclass that a JSON object of another program describes; raises JsonError.

    Fields that the dataclass does not have are ignored.
    """
    return _read_object(kind, value, "the answer", "", is_strict=False)


def quote(value: object) -> str:
    """Return the beginning of a wrong value as text; lists and objects may be large and deep."""
    if isinstance(value, str):
        return repr(value[:_MAX_QUOTED_CHARACTERS])[: _MAX_QUOTED_CHARACTERS + 2]
    return _QUOTED.repr(value)[: _MAX_QUOTED_CHARACTERS + 2]


def number_of(text: str) -> int | str:
    """Return the whole number in a text; the text itself if it has none."""
    digits = text.removeprefix("-")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS
    return int(text) if is_number else text


def _read_object(kind: type[T], value: object, title: str, prefix: str, *, is_strict: bool) -> T:
    names = field_names(kind)
    if not isinstance(value, dict):
        raise JsonError(f"{title} must be a JSON object with these fields: {', '.join(names)}")
    if is_strict:
        _check_names(value, names, title, "field")
    arguments = {
        each.name: _read_field(each, f"{prefix}{each.name}", given, is_strict=is_strict)
        for each in fields_of(kind)
        if (given := _given(each, value, title, prefix)) is not MISSING
    }
    found = kind(**arguments)
    if getattr(kind, "AT_LEAST_ONE", False) and found == kind():
        own_names = ", ".join(each.name for each in fields_of(kind))
        raise JsonError(f"{title} needs at least one of these: {own_names}")
    return found


def _check_names(given: Iterable[str], known: Sequence[str], title: str, noun: str) -> None:
    for name in given:
        if name not in known:
            its = f"its {noun}s are {', '.join(known)}" if known else f"it has no {noun}s"
            raise JsonError(f"{title} has no {noun} {quote(name)}; {its}")


def _given(field: Field, value: Mapping[str, object], title: str, prefix: str) -> object:
    """Return the value of a field in a JSON object; MISSING for the default."""
    about = field.about
    if about.alias is not None and about.alias in value:
        if field.name in value:
            raise JsonError(f"{title} has both {field.name} and {about.alias}: give one of them")
        text = value[about.alias]
        if text is None and field.is_optional:
            return None
        return _parsed(about, f"{prefix}{about.alias}", text)
    if field.name in value:
        return value[field.name]
    if field.is_required:
        raise JsonError(f"{title} needs {about.needs or f'the field {field.name}'}")
    return {} if field.default is MISSING else MISSING


def _parsed(about: About, where: str, text: object) -> object:
    """Return the value of an alias."""
    assert about.parse is not None
    if not isinstance(text, str):
        raise JsonError(f"{where} must be text, not {quote(text)}")
    try:
        return about.parse(text)
    except ValueError as error:
        raise JsonError(f"{where}: {error}") from error


def _read_field(field: Field, where: str, value: object, *, is_strict: bool) -> object:
    about = field.about
    if value is None and field.is_optional:
        return None
    if type(value) is field.type and about.names is None and about.read is None:
        # The common case: a text, number or truth value.
        if not _is_valid(field.type, about, value):
            raise _invalid(field.type, about, where, value)
        return value
    if about.read is not None:
        return about.read(where, value)
    if about.names is not None:
        return read_name(where, value, about.kind, about.names())
    return _read_value(field.type, about, where, value, is_strict=is_strict)


def _read_value(kind: Any, about: About, where: str, value: object, *, is_strict: bool) -> object:  # noqa: ANN401 - any type
    if is_dataclass(kind):
        return _read_object(kind, value, where, f"{where}.", is_strict=is_strict)  # type: ignore[arg-type]  # a class
    origin, members = get_origin(kind), get_args(kind)
    if origin is tuple and isinstance(value, list):
        if about.max_items is not None and len(value) > about.max_items:
            raise JsonError(f"{where} has {len(value)} items; {about.max_items} are possible")
        return tuple(
            _read_value(members[0], about, where, each, is_strict=is_strict) for each in value
        )
    if origin is dict and isinstance(value, dict):
        return {
            key: _read_value(members[1], about, f"{key}"[:40], each, is_strict=is_strict)
            for key, each in value.items()
        }
    if origin is not None or not _is_valid(kind, about, value):
        raise _invalid(origin or kind, about, where, value)
    return value


def _invalid(kind: Any, about: About, where: str, value: object) -> JsonError:  # noqa: ANN401 - any type
    """Return the error for a value that a field cannot have."""
    shown = "" if about.is_secret else f", not {quote(value)}"
    valid = _valid_texts(about) if isinstance(value, str) else ""
    return JsonError(f"{where} must be {valid or _expected(kind, about)}{shown}")


def _is_valid(kind: Any, about: About, value: Any) -> bool:  # noqa: ANN401 - any type and value
    if kind is object:
        return True
    if kind is str:
        return isinstance(value, str) and (
            (not about.choices or value in about.choices)
            and (about.max_length is None or len(value) <= about.max_length)
            and (value.isascii() or is_unicode(value))
        )
    if kind is bool:
        return isinstance(value, bool)
    is_number = isinstance(value, int) or (kind is float and isinstance(value, float))
    return (
        is_number
        and not isinstance(value, bool)
        and (about.minimum is None or value >= about.minimum)
        and (about.maximum is None or value <= about.maximum)
        and (about.above is None or value > about.above)
    )


def check_types(value: Any, *, limits: bool = False) -> None:  # noqa: ANN401 - a dataclass
    """Raise JsonError if a text, number or truth value of a dataclass has another type.

    With `limits`, it must also be one that JSON may have; the default is always valid.
    """
    for field in fields_of(type(value)):
        content, about = getattr(value, field.name), field.about
        if field.type not in _SCALARS or about.names is not None or about.read is not None:
            continue
        if content is None and field.is_optional:
            continue
        is_default = type(content) is field.type and content == field.default
        checked = about if limits else About("")
        if not is_default and not _is_valid(field.type, checked, content):
            raise _invalid(field.type, about, field.name, content)


def _expected(kind: Any, about: About) -> str:  # noqa: ANN401 - any type
    """Return what a value of a field must be."""
    if kind is str:
        return (
            "text" if about.max_length is None else f"text of at most {about.max_length} characters"
        )
    words = {bool: "true or false", tuple: "a list", dict: "an object", int: "a whole number"}
    if kind in {tuple, dict}:
        return words[kind]  # limits are those of its values
    limits = [
        words.get(kind, "a number"),
        "" if about.above is None else f" above {about.above:g} and",
        "" if about.minimum is None else f" from {about.minimum}",
        ""
        if about.maximum is None
        else f" {'to' if about.above is None else 'at most'} {about.maximum}",
    ]
    return "".join(limits)


def _valid_texts(about: About) -> str:
    *others, last = about.choices or ("",)
    return f"{', '.join(others)} or {last}" if others else last


def is_unicode(text: str) -> bool:
    """Return whether a text has no lone surrogates, which JSON allows but requests do not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_name(where: str, value: object, kind: str, known: Mapping[str, T]) -> T:
    """Return the value of a name; raises JsonError with similar names if there is none."""
    if not isinstance(value, str):
        raise JsonError(f"{where} must be the name of {kind}, not {quote(value)}")
    if value in known:
        return known[value]
    from difflib import get_close_matches  # noqa: PLC0415 - for mistakes only

    normalized_names = {name.replace("_", "").lower(): name for name in known}
    similar = get_close_matches(
        value[:_MAX_QUOTED_CHARACTERS].replace("_", "").lower(), normalized_names, cutoff=0.6
    )
    hint = (
        f"; similar names are {', '.join(normalized_names[each] for each in similar)}"
        if similar
        else ""
    )
    raise JsonError(f"{where} {quote(value)} is not {kind}{hint}")


# Writing


def to_json(value: object, *, omits_defaults: bool = False) -> Any:  # noqa: ANN401 - any JSON value
    """Return the JSON value of a dataclass, or of another value that a field can have.

    With `omits_defaults`, it has no fields with default values, so that it can be read again.
    """
    if is_dataclass(value):
        kind = type(value)
        return dict(_written(value, omits=omits_defaults or getattr(kind, "OMITS_DEFAULTS", False)))
    if isinstance(value, tuple | list):
        return [to_json(each) for each in value]
    if isinstance(value, dict):
        return {key: to_json(each) for key, each in value.items()}
    return value.value if isinstance(value, Enum) else value


def json_text(value: object) -> str:
    """Return the JSON text of a value that `to_json` accepts."""
    return json.dumps(to_json(value), ensure_ascii=False, separators=(",", ":"))


def _written(value: object, *, omits: bool) -> Iterable[tuple[str, object]]:
    for field in fields_of(type(value)):
        content = getattr(value, field.name)
        if omits and content == field.default:
            continue
        if field.about.names is not None and content is not None:
            known = field.about.names().items()
            yield field.name, next(name for name, member in known if member is content)
        else:
            yield field.name, to_json(content)
