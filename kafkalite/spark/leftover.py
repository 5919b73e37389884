"""What batches of a followed capture leave over for the next: a folder each, as tables and a note.

The next one reads what the one before it left; done again, it reads the same. So there are two.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import parquet

from kafkalite.columnar.stitching import HALVES, Left
from kafkalite.columnar.tables import CONNECTIONS, FRAGMENTS
from kafkalite.spark.places import PlaceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.spark.places import Place

_LEFT: Final = "_kafkalite/left"
_GROWN: Final = "grown.json"
_TABLES: Final = {"connections": CONNECTIONS, "fragments": FRAGMENTS, "requests": HALVES}


@dataclass(frozen=True, slots=True)
class Leftover:
    """Folders below one place."""

    out: Place

    def numbers(self) -> set[int]:
        """Return the batches of which something is there."""
        told = {each.split("/")[0] for each in (self.out / _LEFT).walk()}
        return {int(each) for each in told if each.isdecimal()}

    def of(self, number: int) -> Left:
        """Return what a batch left over; PlaceError where that cannot be read."""
        folder = self._folder(number)
        if not folder.exists():
            return Left()
        tables = {}
        for name, schema in _TABLES.items():
            here = folder / f"{name}.parquet"
            try:
                with here.files.open_input_file(here.path) as stream:
                    tables[name] = parquet.read_table(stream, schema=schema)
            except (FileNotFoundError, pa.ArrowException) as error:
                raise PlaceError(f"{here.url}: not what a batch left over: {error}") from error
        return Left(**tables)

    def grown(self, number: int) -> Mapping[str, int]:
        """Return how far files had been read that may grow; PlaceError where that is not told."""
        told = self._folder(number) / _GROWN
        try:
            sizes = json.loads(told.read_text() or "{}")
            return {str(url): int(size) for url, size in sizes.items()}
        except (ValueError, TypeError, AttributeError) as error:
            raise PlaceError(
                f"{told.url}: does not say how far files were read: {error}"
            ) from error

    def keep(self, number: int, left: Left, grown: Mapping[str, int]) -> None:
        """Keep what a batch leaves over, and forget what those left that come no more."""
        folder = self._folder(number)
        for name in _TABLES:
            with (folder / f"{name}.parquet").create() as stream:
                parquet.write_table(getattr(left, name), stream)
        (folder / _GROWN).write_text(json.dumps(dict(grown)))
        for each in self.numbers() - {number, number - 1}:
            self._folder(each).delete()

    def _folder(self, number: int) -> Place:
        return self.out / f"{_LEFT}/{number}"
