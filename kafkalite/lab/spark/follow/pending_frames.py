"""Stores the incomplete frames and requests of each batch of a followed capture for the next one.

Each batch has a folder. A repeated batch reads the folder of the previous batch again, so the
folders of two batches are stored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import parquet

from kafkalite.lab.columnar.exchanges.stitching import PENDING_FRAMES, Pending
from kafkalite.lab.columnar.tables import CONNECTIONS, FRAGMENTS
from kafkalite.lab.spark.locations import LocationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.lab.spark.locations import Location

_FOLDER: Final = "_kafkalite/left"
_SIZES_FILE: Final = "grown.json"
_TABLES: Final = {"connections": CONNECTIONS, "fragments": FRAGMENTS, "requests": PENDING_FRAMES}


@dataclass(frozen=True, slots=True)
class PendingFrames:
    """Folders of batches below one location."""

    out: Location

    def numbers(self) -> set[int]:
        """Return the numbers of batches with a folder."""
        names = {path.split("/")[0] for path in (self.out / _FOLDER).walk()}
        return {int(name) for name in names if name.isdecimal()}

    def load(self, number: int) -> Pending:
        """Return the incomplete data of a batch; raises LocationError if it cannot be read."""
        folder = self._folder(number)
        if not folder.exists():
            return Pending()
        tables = {}
        for name, schema in _TABLES.items():
            file = folder / f"{name}.parquet"
            try:
                with file.files.open_input_file(file.path) as stream:
                    tables[name] = parquet.read_table(stream, schema=schema)
            except (FileNotFoundError, pa.ArrowException) as error:
                raise LocationError(f"{file.url}: invalid data of a batch: {error}") from error
        return Pending(**tables)

    def sizes_read(self, number: int) -> Mapping[str, int]:
        """Return the number of bytes read of each growing file; raises LocationError if invalid."""
        file = self._folder(number) / _SIZES_FILE
        try:
            sizes = json.loads(file.read_text() or "{}")
            return {str(url): int(size) for url, size in sizes.items()}
        except (ValueError, TypeError, AttributeError) as error:
            raise LocationError(f"{file.url}: invalid sizes of growing files: {error}") from error

    def store(self, number: int, pending: Pending, sizes_read: Mapping[str, int]) -> None:
        """Store the incomplete data of a batch, and delete that of batches no longer needed."""
        folder = self._folder(number)
        for name in _TABLES:
            with (folder / f"{name}.parquet").create() as stream:
                parquet.write_table(getattr(pending, name), stream)
        (folder / _SIZES_FILE).write_text(json.dumps(dict(sizes_read)))
        for old_number in self.numbers() - {number, number - 1}:
            self._folder(old_number).delete()

    def _folder(self, number: int) -> Location:
        return self.out / f"{_FOLDER}/{number}"
