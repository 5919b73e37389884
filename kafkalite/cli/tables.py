"""Tables of text with aligned columns, and colours on a terminal."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from kafkalite.cli.streams import printable
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TextIO

    Cell = str | int | None

_NO_VALUE: Final = "-"
_GAP: Final = "  "
_RESET: Final = "\x1b[0m"
_COLOURS: Final[Mapping[str, str]] = {
    "bold": "\x1b[1m",
    "red": "\x1b[31m",
    "green": "\x1b[32m",
    "yellow": "\x1b[33m",
}


class Coloured(NamedTuple):
    """A text or number, and its colour on a terminal."""

    cell: Cell
    colour: str


def has_colours(stream: TextIO | None = None) -> bool:
    """Return whether a stream, by default stdout, shows colours.

    That is a terminal, unless the variable NO_COLOR is set (https://no-color.org).
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return (stream or sys.stdout).isatty()


def in_colour(text: str, colour: str) -> str:
    """Return a text in a colour, or in bold, if stdout shows colours."""
    return f"{_COLOURS[colour]}{text}{_RESET}" if has_colours() else text


def table_lines(
    header: Sequence[str],
    rows: Sequence[Sequence[Cell | Coloured]],
    *,
    minimum_widths: Sequence[int] = (),
    gap: str = _GAP,
    uses_colours: bool = True,
) -> Iterator[str]:
    """Yield the lines of a table: the header, on a terminal in bold, then the rows.

    A number is at the right of its column, a text at the left; None is shown as `-`. Control
    characters are escaped. Without `rows`, there is only the header.
    """
    cells = [[_plain(cell) for cell in row] for row in rows]
    texts = [list(header), *([_text(cell) for cell in row] for row in cells)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    if minimum_widths:
        widths = [max(pair) for pair in zip(widths, minimum_widths, strict=True)]
    are_right = [
        any(isinstance(cell, int) for cell in column) for column in zip(*cells, strict=True)
    ] or [False] * len(header)
    shows_colours = uses_colours and has_colours()
    title = _line(texts[0], widths, are_right, gap)
    yield in_colour(title, "bold") if shows_colours else title
    for row, line in zip(rows, texts[1:], strict=True):
        shown = _line(line, widths, are_right, gap)
        if shows_colours:
            padded = zip(row, _padded(line, widths, are_right), strict=True)
            shown = gap.join(
                f"{_COLOURS[cell.colour]}{text}{_RESET}" if isinstance(cell, Coloured) else text
                for cell, text in padded
            ).rstrip()
        yield shown


def _line(texts: Sequence[str], widths: Sequence[int], are_right: Sequence[bool], gap: str) -> str:
    return gap.join(_padded(texts, widths, are_right)).rstrip()


def _padded(
    texts: Sequence[str], widths: Sequence[int], are_right: Sequence[bool]
) -> Iterator[str]:
    for text, width, is_right in zip(texts, widths, are_right, strict=True):
        yield text.rjust(width) if is_right else text.ljust(width)


def _plain(cell: Cell | Coloured) -> Cell:
    return cell.cell if isinstance(cell, Coloured) else cell


def _text(cell: Cell) -> str:
    return _NO_VALUE if cell is None else printable(str(cell))
