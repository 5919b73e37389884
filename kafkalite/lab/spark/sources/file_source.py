"""Base of the data sources: splitting files into partitions, batches and streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from kafkalite.lab.spark.manifest import split_evenly
from kafkalite.lab.spark.sources.folder_stream import FileRange, FolderStream, read_limit
from kafkalite.lab.spark.sources.options import OptionError, SourceOptions
from kafkalite.lab.spark.stages.file_splitting import is_huge, part_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from kafkalite.lab.columnar.files.file_parts import FilePart
    from kafkalite.lab.spark.locations import InputFile
    from kafkalite.lab.spark.sources.folder_stream import FileState, Offset

OPTIONS: Final = (
    "path",
    "paths",
    "columns",
    "bytesPerTask",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
)
"""Options of all sources."""

_TASK_BYTES: Final = 96 << 20
_TASKS: Final = 8
"""Minimum number of tasks if there are enough files: sources do not know the number of cores."""


class FileReader(Protocol):
    """Reads files according to the options of a source."""

    @property
    def source_options(self) -> SourceOptions:
        """The options."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""

    def find(self) -> list[InputFile]:
        """List the files; raises LocationError for a location that does not exist."""

    def file_state(self, file: InputFile) -> FileState:
        """Return whether the last file of a folder is complete, or may grow."""

    def parts(self, file: InputFile, size: int) -> Sequence[FilePart]:
        """Return the parts of a file for several tasks, about `size` each; empty for one task."""

    def read(
        self,
        name: str,
        start: int = 0,
        stop: int | None = None,
        part: FilePart | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file, of a range of a growing file, or of a part.

        Errors are rows of the table `problems`.
        """


class FileSource(DataSource):
    """Base class of data sources of files."""

    def file_reader(self, columns: Mapping[str, bool] | None = None) -> FileReader:
        """Parse the options; `columns` selects columns, as in `select_columns`."""
        raise NotImplementedError

    def schema(self) -> StructType:
        """Return the columns that the options select."""
        return from_arrow_schema(self.file_reader().schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch; a schema given by the user selects columns."""
        return _Batch(self._reader_for(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Return the reader of a stream."""
        return _Stream(self._reader_for(schema))

    def _reader_for(self, schema: StructType) -> FileReader:
        # Nullability matters: Spark checks only nullable columns for null.
        file_reader = self.file_reader({column.name: column.nullable for column in schema})
        expected = from_arrow_schema(file_reader.schema)
        if [column.dataType for column in schema] != [column.dataType for column in expected]:
            raise OptionError(f"the schema has other types than {expected.simpleString()}")
        return file_reader


class _Batch(DataSourceReader):
    """Reads all current files."""

    def __init__(self, file_reader: FileReader) -> None:
        self._file_reader = file_reader

    def partitions(self) -> list[InputPartition]:
        file_reader, files = self._file_reader, self._file_reader.find()
        size = part_bytes(sum(file.size for file in files), _TASKS, _task_bytes(file_reader))
        return _to_partitions(
            file_reader, [range_ for file in files for range_ in _ranges(file_reader, file, size)]
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._file_reader, partition)


class _Stream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads files as they appear and grow."""

    def __init__(self, file_reader: FileReader) -> None:
        self._file_reader = file_reader
        options = file_reader.source_options
        self._folder_stream = FolderStream(file_reader.find, file_reader.file_state)
        self._limit = read_limit(
            options.number("maxFilesPerTrigger", 1) if options.text("maxFilesPerTrigger") else None,
            options.number("maxBytesPerTrigger", 1) if options.text("maxBytesPerTrigger") else None,
        )

    def initialOffset(self) -> Offset:  # noqa: N802 - this and the others are Spark's names
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return self._limit

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        return self._folder_stream.end_offset(start, limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._folder_stream.freeze()

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        return _to_partitions(self._file_reader, self._folder_stream.ranges_between(start, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._file_reader, partition)


def _to_partitions(file_reader: FileReader, ranges: Sequence[FileRange]) -> list[InputPartition]:
    return [
        InputPartition(split) for split in split_evenly(ranges, _TASKS, _task_bytes(file_reader))
    ]


def _ranges(file_reader: FileReader, file: InputFile, size: int) -> list[FileRange]:
    parts = file_reader.parts(file, size) if is_huge(file, size) else ()
    return [FileRange(file.url, size=part.size_in(file.size), part=part) for part in parts] or [
        FileRange(file.url, size=file.size)
    ]


def _task_bytes(file_reader: FileReader) -> int:
    return file_reader.source_options.number("bytesPerTask", _TASK_BYTES)


def _read(file_reader: FileReader, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    # Spark creates one empty partition if there are none.
    for url, start, stop, _, part in partition.value or ():
        yield from file_reader.read(url, start, stop, part)
