"""`kafkalite.log`: data directories as tables of Spark, ours or those of an Apache Kafka.

    spark.read.format("kafkalite.log").option("table", "offset_commit").load("/var/lib/kafka/data")

Tables are `records` of any topic, what brokers keep in their own topics (`offset_commit`,
`transaction_log`, …; see `columnar.logs.table_names`), and `problems`. A stream takes segments once
they have a successor: the one that is written to is left alone.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafkalite.columnar.logs import (
    LogOptions,
    read_segment,
    schema_of,
    segment_of,
    table_names,
)
from kafkalite.spark.places import PlaceError, find, place
from kafkalite.spark.sources.asking import Asked, chosen
from kafkalite.spark.sources.contract import OPTIONS, FileSource
from kafkalite.spark.sources.growing import Standing
from kafkalite.spark.stages.typed import unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.columnar.parts import FilePart
    from kafkalite.spark.places import InputFile
    from kafkalite.spark.sources.contract import Question

NAME: Final = "kafkalite.log"

LOG_OPTIONS: Final = (*OPTIONS, "table", "topic", "partition", "from", "until", "withControl")
"""What a source of logs can be asked."""

_RECORDS: Final = "records"
_PROBLEMS: Final = "problems"
_NS_PER_MS: Final = 1_000_000


class Segments:
    """The rows of data directories that options ask for, segment by segment."""

    def __init__(
        self, options: Mapping[str, str], columns: Mapping[str, bool] | None = None
    ) -> None:
        """Understand `options`; `columns` are the only ones wanted. OptionError."""
        self.asked = Asked(options, LOG_OPTIONS)
        self.table = self.asked.choice("table", table_names(), _RECORDS)
        self._topics = self.asked.words("topic")
        self._partitions = frozenset(self.asked.numbers("partition"))
        self.schema = chosen(schema_of(self.table), columns or self.asked.words("columns"))
        self._options = LogOptions(
            # What is wrong is found by reading all.
            tables=None if self.table == _PROBLEMS else frozenset({self.table}),
            from_ms=_ms(self.asked.instant_ns("from")),
            until_ms=_ms(self.asked.instant_ns("until")),
            with_control=self.asked.is_true("withControl", default=False),
        )

    def find(self) -> list[InputFile]:
        """List the segments that are asked for."""
        listed = find(self.asked.urls(), with_hidden=True)
        return [each for each in listed if self._wants(each.url)]

    def standing(self, file: InputFile) -> Standing:  # noqa: ARG002 - whatever it says
        """Say that it waits: a segment without a successor is the one that is written to."""
        return Standing.WAITS

    def parts(self, file: InputFile, size: int) -> tuple[FilePart, ...]:  # noqa: ARG002
        """Find none: a segment is as large as brokers let it be."""
        return ()

    def of(
        self,
        name: str,
        start: int = 0,  # noqa: ARG002 - segments are taken whole
        stop: int | None = None,  # noqa: ARG002
        part: FilePart | None = None,  # noqa: ARG002
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a segment; what is wrong with it are rows of the table of problems."""
        try:
            where = place(name)
            with where.files.open_input_file(where.path) as source:
                for table, batch in read_segment(source, name, self._options):
                    if table == self.table:
                        yield self._shaped(batch)
        except (OSError, PlaceError, pa.ArrowException) as error:
            yield from self._failed(name, str(error.args[0] if error.args else error))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this file's alone
            yield from self._failed(name, f"{type(error).__name__}: {error}")

    def _wants(self, path: str) -> bool:
        segment = segment_of(path)
        if segment is None:
            return False
        topic, partition, *_ = segment
        return (not self._partitions or partition in self._partitions) and (
            not self._topics or any(fnmatchcase(topic, each) for each in self._topics)
        )

    def _shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [batch[name] for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _failed(self, name: str, detail: str) -> Iterator[pa.RecordBatch]:
        if self.table == _PROBLEMS:
            yield self._shaped(unreadable(name, detail))


class LogSource(FileSource):
    """Data directories, as the options of `Segments` say."""

    @classmethod
    def name(cls) -> str:
        """Return what Spark knows it by."""
        return NAME

    def question(self, columns: Mapping[str, bool] | None = None) -> Question:
        """Understand the options."""
        return Segments(self.options, columns)


def _ms(ns: int | None) -> int | None:
    return None if ns is None else ns // _NS_PER_MS
