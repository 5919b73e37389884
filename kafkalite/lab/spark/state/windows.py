"""Window specifications: ordered rows, rows up to the current one, rows before the current one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.lab.spark.dataframes import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import WindowSpec


def ordered_rows(by: Sequence[str], order: Sequence[str]) -> WindowSpec:
    """Return the window of rows with equal values of `by`, ordered by `order`."""
    return Window.partitionBy(*by).orderBy(*order)


def rows_up_to_current(by: Sequence[str], order: Sequence[str]) -> WindowSpec:
    """Return the window of rows up to and including the current one."""
    return ordered_rows(by, order).rowsBetween(Window.unboundedPreceding, Window.currentRow)


def rows_before_current(by: Sequence[str], order: Sequence[str]) -> WindowSpec:
    """Return the window of rows before the current one."""
    return ordered_rows(by, order).rowsBetween(Window.unboundedPreceding, -1)
