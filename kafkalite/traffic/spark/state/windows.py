"""Window specifications: rows in order, rows up to the current one, rows before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import WindowSpec


def in_order(by: Sequence[str], order: Sequence[str]) -> WindowSpec:
    """Return the window of rows with equal values of `by`, ordered by `order`."""
    return Window.partitionBy(*by).orderBy(*order)


def until_now(by: Sequence[str], order: Sequence[str]) -> WindowSpec:
    """Return the window of rows up to and including the current one."""
    return in_order(by, order).rowsBetween(Window.unboundedPreceding, Window.currentRow)


def before_now(by: Sequence[str], order: Sequence[str]) -> WindowSpec:
    """Return the window of rows before the current one."""
    return in_order(by, order).rowsBetween(Window.unboundedPreceding, -1)
