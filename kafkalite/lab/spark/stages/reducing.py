"""Reduces requests by several projections at once, while a task writes or reads them.

The reduced rows are in one file per task and projection. The audits of the same run read them, and
then they are deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyarrow import parquet

from kafkalite.lab.spark.locations import location

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import pyarrow as pa

    from kafkalite.lab.spark.locations import Location
    from kafkalite.lab.spark.stages.projection import Projection


@dataclass(frozen=True, slots=True)
class Reductions:
    """Projections of requests, and a folder for their rows."""

    folder: Location
    projections: tuple[Projection, ...]

    def files(self, writers: Collection[str]) -> dict[tuple[str, int], list[Location]]:
        """Return the files of each projection, by its name and API, that these writers wrote."""
        found: dict[tuple[str, int], list[Location]] = {
            (each.name, each.api_key): [] for each in self.projections
        }
        for path in self.folder.walk():
            index, _, name = path.partition("/")
            if name.removesuffix(".parquet") in writers:
                projection = self.projections[int(index)]
                found[projection.name, projection.api_key].append(self.folder / path)
        return found


class Reducer:
    """Reduces the requests of one task by all projections, and writes the rows."""

    def __init__(self, reductions: Reductions, name: str) -> None:
        """Write files with this name."""
        self._reductions = reductions
        self._name = name
        self._writers: dict[int, parquet.ParquetWriter] = {}
        self._streams: list[pa.NativeFile] = []

    def reduce(self, api_key: int, rows: pa.Table) -> None:
        """Reduce requests of one API."""
        columns: dict[str, pa.Array] = {}
        for index, projection in enumerate(self._reductions.projections):
            if projection.is_of_all_apis or projection.api_key == api_key:
                self._write(index, projection.reduce_requests(rows, columns))

    def reduce_file(self, api_key: int, url: str) -> None:
        """Reduce the requests of one API in a Parquet file, by row group."""
        paths = {
            path
            for each in self._reductions.projections
            if each.is_of_all_apis or each.api_key == api_key
            for path in each.paths.values()
        }
        where = location(url)
        with where.files.open_input_file(where.path) as stream:
            file = parquet.ParquetFile(stream)
            for group in range(file.num_row_groups):
                self.reduce(
                    api_key,
                    file.read_row_group(group, columns=sorted(paths), use_threads=False),
                )

    def close(self) -> None:
        """Complete the files."""
        for writer in self._writers.values():
            writer.close()
        for stream in self._streams:
            stream.close()

    def _write(self, index: int, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        writer = self._writers.get(index)
        if writer is None:
            stream = (self._reductions.folder / f"{index}/{self._name}.parquet").create()
            self._streams.append(stream)
            writer = self._writers[index] = parquet.ParquetWriter(
                stream, rows.schema, compression="lz4"
            )
        writer.write_table(rows)


def reduce_files(reductions: Reductions, name: str, files: Iterable[tuple[int, str]]) -> None:
    """Reduce requests in files, given by API key and URL."""
    reducer = Reducer(reductions, name)
    for api_key, url in files:
        reducer.reduce_file(api_key, url)
    reducer.close()


def writers_of(requests: Iterable[str]) -> set[str]:
    """Return the names of the writers of files of requests, which are in the names of the files."""
    names = (path.rpartition("/")[2].partition(".parquet")[0] for path in requests)
    return {name.removesuffix("-plain").rpartition("-")[0] for name in names}
