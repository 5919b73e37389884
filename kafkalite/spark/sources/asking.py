"""What a data source is asked by its options: texts of Spark's, understood once and for all.

Chosen: options, instead of Spark's own way to push filters down, for in Spark 4.3 that gives wrong
answers: what one query pushed stays for the next query on the same table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafkalite.control.times import instant_ms
from kafkalite.protocol import codec

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_NS_PER_MS: Final = 1_000_000
_TRUE: Final = {"true": True, "false": False}


class OptionError(ValueError):
    """An option that a source does not understand; the text is one line for people."""


class Asked:
    """The options of one source, read by name, whatever the case of their letters."""

    def __init__(self, options: Mapping[str, str], known: Collection[str]) -> None:
        """Take the options of Spark's reader; OptionError for one that is not `known`."""
        self._texts = {name.lower(): text for name, text in options.items()}
        strangers = self._texts.keys() - {name.lower() for name in known}
        if strangers:
            raise OptionError(
                f"no such option: {', '.join(sorted(strangers))}; there are {', '.join(known)}"
            )

    def text(self, name: str) -> str | None:
        """Return an option as it was written; None where it was not given."""
        return self._texts.get(name.lower())

    def words(self, name: str) -> tuple[str, ...]:
        """Return words with commas between them; none where the option was not given."""
        return tuple(each.strip() for each in (self.text(name) or "").split(",") if each.strip())

    def urls(self) -> tuple[str, ...]:
        """Return where to read: `path`, and `paths`, which is several with commas between.

        Where a name has commas, `paths` is a list in JSON, as Spark makes it of what it loads.
        """
        path, text = self.text("path"), self.text("paths") or ""
        listed = tuple(json.loads(text)) if text.startswith('["') else self.words("paths")
        found = (*(() if path is None else (path,)), *listed)
        if not found:
            raise OptionError("say where to read: load(PATH), or the option paths")
        return found

    def choice(self, name: str, among: Collection[str], default: str) -> str:
        """Return one of some words."""
        found = self.text(name) or default
        if found not in among:
            raise OptionError(f"{name} is {found!r}: write one of {', '.join(among)}")
        return found

    def is_true(self, name: str, *, default: bool) -> bool:
        """Return what a switch says."""
        found = _TRUE.get((self.text(name) or str(default)).lower())
        if found is None:
            raise OptionError(f"{name} is {self.text(name)!r}: write true or false")
        return found

    def number(self, name: str, default: int) -> int:
        """Return a number that is more than nothing."""
        text = self.text(name)
        try:
            found = default if text is None else int(text)
        except ValueError:
            found = 0
        if found < 1:
            raise OptionError(f"{name} is {text!r}: write a number from 1 on")
        return found

    def numbers(self, name: str) -> tuple[int, ...]:
        """Return numbers with commas between them, and ranges such as 0-9."""
        found: list[int] = []
        for word in self.words(name):
            first, _, last = word.partition("-") if not word.startswith("-") else (word, "", "")
            try:
                found += range(int(first), int(last or first) + 1)
            except ValueError as error:
                raise OptionError(f"{name}: {word!r} is no number and no range") from error
        return tuple(found)

    def instant_ns(self, name: str) -> int | None:
        """Return a time in nanoseconds since the Unix epoch."""
        text = self.text(name)
        try:
            return None if text is None else instant_ms(text) * _NS_PER_MS
        except ValueError as error:
            raise OptionError(f"{name}: {error}") from error

    def api_keys(self, name: str) -> frozenset[int] | None:
        """Return the keys of APIs that are given by name or by number; None for all."""
        words = self.words(name)
        known = {codec.api_name(key): key for key in codec.api_keys()}
        known |= {str(key): key for key in codec.api_keys()}
        for word in words:
            if word not in known:
                raise OptionError(f"{name}: Kafka has no API called {word!r}")
        return frozenset(known[word] for word in words) if words else None


def chosen(whole: pa.Schema, columns: Sequence[str] | Mapping[str, bool]) -> pa.Schema:
    """Return the columns that are wanted, or all; OptionError for one that is not there.

    A mapping says of each whether Spark takes it for one that may be null, as it does what a user
    writes down. OptionError where such a column is said never to be.
    """
    strangers = set(columns) - set(whole.names)
    if strangers:
        raise OptionError(f"columns: there is no {', '.join(sorted(strangers))}")
    fields = [whole.field(name) for name in columns or whole.names]
    if isinstance(columns, Mapping):
        surprising = [each.name for each in fields if each.nullable and not columns[each.name]]
        if surprising:
            raise OptionError(f"columns: these may be null: {', '.join(surprising)}")
        fields = [each.with_nullable(columns[each.name]) for each in fields]
    return pa.schema(fields)
