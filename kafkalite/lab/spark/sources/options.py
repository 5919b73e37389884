"""Parsing of the options of data sources, which Spark passes as texts.

Options are used instead of Spark's filter pushdown, which returns wrong results in Spark 4.3: the
filters of one query are applied to the next query on the same table too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafkalite.ports.times import instant_ms
from kafkalite.ports.units import NANOSECONDS_PER_MILLISECOND
from kafkalite.protocol import codec

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_BOOLEANS: Final = {"true": True, "false": False}


class OptionError(ValueError):
    """An unknown or invalid option; the text is one line for users."""


class SourceOptions:
    """The options of one source; names are case-insensitive."""

    def __init__(self, options: Mapping[str, str], known: Collection[str]) -> None:
        """Use the options of Spark's reader; raises OptionError for one that is not `known`."""
        self._texts = {name.lower(): text for name, text in options.items()}
        unknown = self._texts.keys() - {name.lower() for name in known}
        if unknown:
            raise OptionError(
                f"unknown option {', '.join(sorted(unknown))}; options are {', '.join(known)}"
            )

    def text(self, name: str) -> str | None:
        """Return an option's text; None if it is missing."""
        return self._texts.get(name.lower())

    def items(self, name: str) -> tuple[str, ...]:
        """Return the items of a comma-separated list; none if the option is missing."""
        return tuple(item.strip() for item in (self.text(name) or "").split(",") if item.strip())

    def urls(self) -> tuple[str, ...]:
        """Return the locations in `path`, and in `paths`, which is a comma-separated list.

        `paths` may also be a JSON list, as Spark passes the arguments of `load`.
        """
        path, text = self.text("path"), self.text("paths") or ""
        listed = tuple(json.loads(text)) if text.startswith('["') else self.items("paths")
        urls = (*(() if path is None else (path,)), *listed)
        if not urls:
            raise OptionError("no location: use load(PATH), or the option paths")
        return urls

    def choice(self, name: str, allowed: Collection[str], default: str) -> str:
        """Return an option that must be one of the allowed texts."""
        item = self.text(name) or default
        if item not in allowed:
            raise OptionError(f"{name} is {item!r}: expected one of {', '.join(allowed)}")
        return item

    def is_true(self, name: str, *, default: bool) -> bool:
        """Return a boolean option."""
        value = _BOOLEANS.get((self.text(name) or str(default)).lower())
        if value is None:
            raise OptionError(f"{name} is {self.text(name)!r}: expected true or false")
        return value

    def number(self, name: str, default: int) -> int:
        """Return an option that must be a positive integer."""
        text = self.text(name)
        try:
            number = default if text is None else int(text)
        except ValueError:
            number = 0
        if number < 1:
            raise OptionError(f"{name} is {text!r}: expected a positive integer")
        return number

    def numbers(self, name: str) -> tuple[int, ...]:
        """Return the numbers of a comma-separated list; ranges such as 0-9 are expanded."""
        numbers: list[int] = []
        for item in self.items(name):
            first, _, last = item.partition("-") if not item.startswith("-") else (item, "", "")
            try:
                numbers += range(int(first), int(last or first) + 1)
            except ValueError as error:
                raise OptionError(f"{name}: {item!r} is neither a number nor a range") from error
        return tuple(numbers)

    def instant_ns(self, name: str) -> int | None:
        """Return a time option in nanoseconds since the Unix epoch."""
        text = self.text(name)
        try:
            return None if text is None else instant_ms(text) * NANOSECONDS_PER_MILLISECOND
        except ValueError as error:
            raise OptionError(f"{name}: {error}") from error

    def api_keys(self, name: str) -> frozenset[int] | None:
        """Return the keys of APIs given by name or key; None for all APIs."""
        items = self.items(name)
        keys = {codec.api_name(key): key for key in codec.api_keys()}
        keys |= {str(key): key for key in codec.api_keys()}
        for item in items:
            if item not in keys:
                raise OptionError(f"{name}: unknown API {item!r}")
        return frozenset(keys[item] for item in items) if items else None


def select_columns(schema: pa.Schema, columns: Sequence[str] | Mapping[str, bool]) -> pa.Schema:
    """Return the selected columns of `schema`, or all; raises OptionError for an unknown one.

    A mapping has the nullability of each column, from a schema given by the user. OptionError is
    also raised if a nullable column is declared as not nullable.
    """
    unknown = set(columns) - set(schema.names)
    if unknown:
        raise OptionError(f"columns: unknown {', '.join(sorted(unknown))}")
    fields = [schema.field(name) for name in columns or schema.names]
    if isinstance(columns, Mapping):
        nullable = [field.name for field in fields if field.nullable and not columns[field.name]]
        if nullable:
            raise OptionError(f"columns: these may be null: {', '.join(nullable)}")
        fields = [field.with_nullable(columns[field.name]) for field in fields]
    return pa.schema(fields)
