"""How files become tables of Spark: what the sources of captures and of logs have in common."""

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

from kafkalite.spark.manifest import lots
from kafkalite.spark.sources.asking import Asked, OptionError
from kafkalite.spark.sources.growing import Growing, Stretch, limit_of
from kafkalite.spark.stages.parting import is_huge, part_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from kafkalite.columnar.parts import FilePart
    from kafkalite.spark.places import InputFile
    from kafkalite.spark.sources.growing import Offset, Standing

OPTIONS: Final = (
    "path",
    "paths",
    "columns",
    "bytesPerTask",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
)
"""What every source can be asked."""

_TASK_BYTES: Final = 96 << 20
_TASKS: Final = 8
"""So many at least, where there are files enough: a source is not told how many cores there are."""


class Question(Protocol):
    """What a source's options ask of files."""

    @property
    def asked(self) -> Asked:
        """The options."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""

    def find(self) -> list[InputFile]:
        """List the files; PlaceError where a name leads nowhere."""

    def standing(self, file: InputFile) -> Standing:
        """Say what may become of a file that has none after it."""

    def parts(self, file: InputFile, size: int) -> Sequence[FilePart]:
        """Find where a file can be read by several tasks, each so much; empty for one task."""

    def of(
        self,
        name: str,
        start: int = 0,
        stop: int | None = None,
        part: FilePart | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file, of a piece of one that grows, or of a part; never raises."""


class FileSource(DataSource):
    """Files as tables, as the options say."""

    def question(self, columns: Mapping[str, bool] | None = None) -> Question:
        """Understand the options; `columns` are the only ones wanted, as `chosen` takes them.

        OptionError.
        """
        raise NotImplementedError

    def schema(self) -> StructType:
        """Return the columns that the options ask for."""
        return from_arrow_schema(self.question().schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads a batch; a schema given by the user chooses columns."""
        return _Batch(self._chosen(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Return what reads a stream."""
        return _Stream(self._chosen(schema))

    def _chosen(self, schema: StructType) -> Question:
        # Whoever reads batches in Java asks for each value whether it is there, or never does.
        question = self.question({each.name: each.nullable for each in schema})
        ours = from_arrow_schema(question.schema)
        if [each.dataType for each in schema] != [each.dataType for each in ours]:
            raise OptionError(f"the columns are of other types: {ours.simpleString()}")
        return question


class _Batch(DataSourceReader):
    """Every file there is now."""

    def __init__(self, question: Question) -> None:
        self._question = question

    def partitions(self) -> list[InputPartition]:
        question, files = self._question, self._question.find()
        size = part_bytes(sum(each.size for each in files), _TASKS, _task_bytes(question))
        return _shared(
            question, [each for file in files for each in _stretches(question, file, size)]
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._question, partition)


class _Stream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Files as they come to be."""

    def __init__(self, question: Question) -> None:
        self._question = question
        asked = question.asked
        self._growing = Growing(question.find, question.standing)
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
        return _shared(self._question, self._growing.between(start, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._question, partition)


def _shared(question: Question, stretches: Sequence[Stretch]) -> list[InputPartition]:
    return [InputPartition(lot) for lot in lots(stretches, _TASKS, _task_bytes(question))]


def _stretches(question: Question, file: InputFile, size: int) -> list[Stretch]:
    parts = question.parts(file, size) if is_huge(file, size) else ()
    return [Stretch(file.url, size=part.size_in(file.size), part=part) for part in parts] or [
        Stretch(file.url, size=file.size)
    ]


def _task_bytes(question: Question) -> int:
    return question.asked.number("bytesPerTask", _TASK_BYTES)


def _read(question: Question, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    # Where there are no partitions, Spark makes one of nothing.
    for url, start, stop, _, part in partition.value or ():
        yield from question.of(url, start, stop, part)
