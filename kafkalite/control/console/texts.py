"""Texts of clients as the pages show them: short, and without characters that change a page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kafkalite.ports.clock import LATEST_MS
from kafkalite.ports.texts import count_text, truncate
from kafkalite.ports.times import iso_of

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_NAME: Final = 80
MAX_TEXT: Final = 2_000
MAX_JSON: Final = 20_000

_KIB: Final = 1024
_MILLISECONDS: Final = 1_000
_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def visible(text: object, limit: int = MAX_TEXT) -> str:
    """Return a text whose control characters and marks of direction are escaped, and cut.

    Templates escape what is markup.
    """
    cut = truncate(f"{text}", limit)
    if cut.isprintable():  # for speed: nearly all are
        return cut
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode()
        for each in cut
    )


def name_text(text: object, limit: int = MAX_NAME) -> str:
    """Return a name as it is shown in a table."""
    return visible(f"{text}".replace("\n", "\\n").replace("\t", "\\t"), limit)


def json_text(value: object) -> str:
    """Return a value as indented JSON, cut if it is long."""
    return visible(json.dumps(value, indent=2, ensure_ascii=False), MAX_JSON)


def time_text(time_ms: int) -> str:
    """Return the time of the day, in UTC: 12:00:01.000; the number if it is no date."""
    return iso_of(time_ms).rpartition("T")[2].removesuffix("Z")


def moment_text(time_ms: int) -> str:
    """Return a date and time in UTC: 2026-03-01 12:00:01.000; the number if it is no date."""
    if not 0 <= time_ms <= LATEST_MS:
        return f"{time_ms}"
    return iso_of(time_ms).replace("T", " ").removesuffix("Z")


def ago_text(milliseconds: int) -> str:
    """Return a duration in its two largest units: 1 h 5 min, or 120 ms."""
    remaining = max(0, milliseconds)
    if remaining < _MILLISECONDS:
        return f"{remaining} ms"
    parts = []
    for size, name in _UNITS:
        if remaining >= size:
            parts.append(f"{remaining // size} {name}")
            remaining %= size
        elif parts:
            break
    return " ".join(parts[:2])


def latency_text(request: Any) -> str:  # noqa: ANN401 - of a broker, or of a capture
    """Return the latency of a request, in microseconds if they are known; empty if it is not."""
    latency_us = getattr(request, "latency_us", None)
    if latency_us is not None:
        return f"{latency_us / _MILLISECONDS:,.3f} ms"
    return "" if request.latency_ms is None else f"{request.latency_ms:,} ms"


def size_text(number: int) -> str:
    """Return a number of bytes: 12 bytes, 3.4 KiB, or 5.6 MiB."""
    if number < _KIB:
        return count_text(number, "byte")
    return f"{number / _KIB:.1f} KiB" if number < _KIB**2 else f"{number / _KIB**2:.1f} MiB"


def facts_of(facts: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the facts of an entry as names and texts."""
    return [
        (name_text(name.replace("_", " ")), visible(_fact(value), 400))
        for name, value in facts.items()
        if value not in (None, "", [])
    ]


def _fact(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_fact, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
