"""Windows over what happened in order: by some key, all until now, all before now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import WindowSpec


def in_order(by: Sequence[str], order: Sequence[str]) -> WindowSpec:
    """Return the window of rows alike in `by`, in the order of `order`."""
    return Window.partitionBy(*by).orderBy(*order)


def until_now(by: Sequence[str], order: Sequence[str]) -> WindowSpec:
    """Return the rows up to the present one, itself included."""
    return in_order(by, order).rowsBetween(Window.unboundedPreceding, Window.currentRow)


def before_now(by: Sequence[str], order: Sequence[str]) -> WindowSpec:
    """Return the rows before the present one."""
    return in_order(by, order).rowsBetween(Window.unboundedPreceding, -1)
