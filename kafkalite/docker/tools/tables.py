"""Tables in the layouts of Kafka's tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.docker.tools.running import write_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    Cell = str | int | None
    # The name of a column, its least width, and the cell of a row.
    Column = tuple[str, int, Cell]


def write_tabbed_table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print a table whose columns have the width of their longest cell, and a tab after each."""
    texts = [list(header), *([_text(cell, "None") for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        write_line("".join(f"{cell:{width}}\t" for cell, width in zip(row, widths, strict=True)))


def write_table(
    header: Sequence[str], rows: Sequence[Sequence[Cell]], widths: Sequence[int] = ()
) -> None:
    """Print a table whose columns have at least these widths, 15 by default, and a space between.

    A cell without a value is shown as `-`.
    """
    texts = [list(header), *([_text(cell, "-") for cell in row] for row in rows)]
    least = [*widths, *[15] * (len(header) - len(widths))]
    sizes = [max(*map(len, column), width)
             for column, width in zip(zip(*texts, strict=True), least, strict=True)]  # fmt: skip
    for row in texts:
        cells = zip(row, sizes, strict=True)
        write_line(" ".join(f"{cell:{size}}" for cell, size in cells).rstrip())


def _text(cell: Cell, without_value: str) -> str:
    return without_value if cell is None else str(cell)


def write_columns(rows: Sequence[Sequence[Column]]) -> None:
    """Print a table as `write_table` does; each row has the names and least widths of columns."""
    header = [name for name, _, _ in rows[0]]
    widths = [width for _, width, _ in rows[0]]
    write_table(header, [[cell for _, _, cell in row] for row in rows], widths)
