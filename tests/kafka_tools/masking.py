"""Masks of ids, times, ports, paths and figures in the output of tools."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MASKS: Final = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (
            r"\bconsole-(share-)?consumer-\d+\b(?!-)",
            "console-group",
        ),  # may have the length of an id
        (r"[A-Za-z0-9+/]{86}==", "HMAC"),
        (r"\b[0-9a-f]{30,}\b", "HEX"),
        (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UUID"),
        (r"(?<![\w-])(?!--|\w*Exception)(?=[\w-]*[a-z])[\w-]{22}(?![\w-])", "ID"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([:.,]\d+)?)?(Z|[+-]\d\d:?\d\d)?", "TIME"),
        (r"(?<!\.)\b1[5-9]\d{11}\b", "TIME"),
        (r"\b(Epoch|producerId): \d+", r"\1: N"),
        (r"\bcrc: \d+", "crc: N"),
    )
]
_FIGURE: Final = re.compile(r"\d+(\.\d+)?(E-?\d+)?|NaN")
_SET: Final = re.compile(r"\[([A-Z_]+(?:, [A-Z_]+)+)\]")
_OFFSETS: Final = re.compile(r'"offsets":\[([\d,]+)\]')
_USAGE: Final = re.compile(r"^Option +Description.*", re.MULTILINE | re.DOTALL)
_STACK: Final = re.compile(r"\s+at .*|\s+\.\.\. \d+ more|Caused by: .*")


def masked(
    text: str, names: Mapping[str, str], *, figures: bool = False, without: str = ""
) -> list[str]:
    """Return the lines of an output without the values that differ from run to run.

    `names` has texts such as addresses and paths, and their replacements. `figures` masks all
    numbers. `without` is the expression of lines that are removed. Each record that a formatter
    prints becomes a line. Stack traces, lists of options and the width of columns are removed: the
    last two depend on the order of sets and on ids.
    """
    for value in sorted(names, key=len, reverse=True):
        text = text.replace(value, names[value])
    text = _USAGE.sub("<options>", text).replace('}{"key"', '}\n{"key"')
    lines = [line for line in text.splitlines() if not _STACK.fullmatch(line)]
    return [
        line
        for line in _collapsed(_mask(line, figures=figures) for line in lines)
        if not (without and re.search(without, line))
    ]


def _mask(line: str, *, figures: bool) -> str:
    for pattern, replacement in _MASKS:
        line = pattern.sub(replacement, line)
    line = _SET.sub(lambda found: f"[{', '.join(sorted(found[1].split(', ')))}]", line)
    line = _OFFSETS.sub(_sorted_offsets, line)
    return _FIGURE.sub("N", line) if figures else line


def _sorted_offsets(found: re.Match[str]) -> str:
    offsets = sorted(map(int, found[1].split(",")))
    return f'"offsets":{offsets}'


def _collapsed(lines: Iterable[str]) -> list[str]:
    stripped = (" ".join(line.split()) for line in lines)
    return [line for line in stripped if line]
