"""`kafkalite.capture`: captures as tables of Spark, in batches and as a stream.

    spark.read.format("kafkalite.capture").option("api", "OffsetCommit").load("captures/")

A file is read by itself: a request whose answer lies in another file is without one here, and of a
frame that lies in two there are only `fragments`. `kafkalite audit` joins such ends over all files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from kafkalite.spark.manifest import lots
from kafkalite.spark.places import find, place
from kafkalite.spark.sources.asking import Asked, OptionError
from kafkalite.spark.sources.growing import Growing, limit_of
from kafkalite.spark.sources.rows import OPTIONS, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from kafkalite.spark.places import InputFile
    from kafkalite.spark.sources.growing import Offset

NAME: Final = "kafkalite.capture"

_TASK_BYTES: Final = 96 << 20
_STATISTICS: Final = (b"\x05\x00\x00\x00", b"\x00\x00\x00\x05")
"""The kind of block that ends a file of a recorder that closed it, in either order of bytes."""
_LENGTH_BYTES: Final = 4


class CaptureSource(DataSource):
    """Captures, as the options say."""

    @classmethod
    def name(cls) -> str:
        """Return what Spark knows it by."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns that the options ask for."""
        return from_arrow_schema(Rows(self.options).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads a batch; a schema given by the user chooses columns."""
        return _Batch(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Return what reads a stream."""
        return _Stream(self.options, schema)


class _Files:
    """What both readers do alike."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.rows = Rows(options, tuple(schema.names))
        ours = from_arrow_schema(self.rows.schema)
        if [f.dataType for f in schema] != [f.dataType for f in ours]:
            raise OptionError(f"the columns are of other types: {ours.simpleString()}")
        self.asked = Asked(options, OPTIONS)
        self._urls = self.asked.urls()
        self._task_bytes = self.asked.number("bytesPerTask", _TASK_BYTES)

    def find(self) -> list[InputFile]:
        return find(self._urls)

    def shared(self, files: Sequence[InputFile]) -> list[InputPartition]:
        parts = lots(files, 1, self._task_bytes)
        return [InputPartition(tuple(each.url for each in part)) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Where there are no partitions, Spark makes one of nothing.
        for name in partition.value or ():
            yield from self.rows.of(name)


class _Batch(DataSourceReader):
    """Every file there is now."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._files = _Files(options, schema)

    def partitions(self) -> list[InputPartition]:
        return self._files.shared(self._files.find())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._files.read(partition)


class _Stream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Files as they come to be."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._files = _Files(options, schema)
        asked = self._files.asked
        with_open = asked.choice("open", ("skip", "read"), "skip") == "read"
        self._growing = Growing(self._files.find, (lambda _: True) if with_open else is_complete)
        self._limit = limit_of(
            asked.number("maxFilesPerTrigger", 1) if asked.text("maxFilesPerTrigger") else None,
            asked.number("maxBytesPerTrigger", 1) if asked.text("maxBytesPerTrigger") else None,
        )

    def initialOffset(self) -> Offset:  # noqa: N802 - this and the others are Spark's names
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return self._limit

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        return self._growing.next(start, limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._growing.stand_still()

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        return self._files.shared(self._growing.between(start, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._files.read(partition)


def is_complete(file: InputFile) -> bool:
    """Whether a file ends as our recorder ends one that it will not write to any more."""
    where = place(file.url)
    with where.files.open_input_file(where.path) as stream:
        size = stream.size()
        if size < 3 * _LENGTH_BYTES:
            return False
        stream.seek(size - _LENGTH_BYTES)
        end = stream.read(_LENGTH_BYTES)
        lengths = {int.from_bytes(end, "little"), int.from_bytes(end, "big")}
        for length in lengths:
            if 3 * _LENGTH_BYTES <= length <= size:
                stream.seek(size - length)
                if stream.read(_LENGTH_BYTES) in _STATISTICS:
                    return True
    return False
