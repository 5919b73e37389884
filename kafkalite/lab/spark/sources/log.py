"""`kafkalite.log`: data directories of kafkalite or Apache Kafka as Spark tables.

    spark.read.format("kafkalite.log").option("table", "offset_commit").load("/var/lib/kafka/data")

Tables are `records` of any topic, tables of internal topics (`offset_commit`, `transaction_log`, …;
see `columnar.data_directories.table_names`), and `problems`. A stream reads segments that have a
successor, because the last one is still written.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafkalite.lab.columnar.records.data_directories import (
    LogOptions,
    parse_segment_path,
    read_segment,
    schema_of,
    table_names,
)
from kafkalite.lab.spark.locations import LocationError, find, location
from kafkalite.lab.spark.sources.file_source import OPTIONS, FileSource
from kafkalite.lab.spark.sources.folder_stream import FileState
from kafkalite.lab.spark.sources.options import SourceOptions, select_columns
from kafkalite.lab.spark.stages.typed import unreadable_problem
from kafkalite.ports.units import NANOSECONDS_PER_MILLISECOND

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.lab.columnar.files.file_parts import FilePart
    from kafkalite.lab.spark.locations import InputFile
    from kafkalite.lab.spark.sources.file_source import FileReader

NAME: Final = "kafkalite.log"

LOG_OPTIONS: Final = (*OPTIONS, "table", "topic", "partition", "from", "until", "withControl")
"""Options of this source."""

_RECORDS: Final = "records"
_PROBLEMS: Final = "problems"


class LogReader:
    """Reads the rows that options select, segment by segment."""

    def __init__(
        self, options: Mapping[str, str], columns: Mapping[str, bool] | None = None
    ) -> None:
        """Parse `options`; `columns` selects columns. Raises OptionError."""
        self.source_options = SourceOptions(options, LOG_OPTIONS)
        self.table = self.source_options.choice("table", table_names(), _RECORDS)
        self._topics = self.source_options.items("topic")
        self._partitions = frozenset(self.source_options.numbers("partition"))
        self.schema = select_columns(
            schema_of(self.table), columns or self.source_options.items("columns")
        )
        self._options = LogOptions(
            # Problems are found by reading all tables.
            tables=None if self.table == _PROBLEMS else frozenset({self.table}),
            from_ms=_ms(self.source_options.instant_ns("from")),
            until_ms=_ms(self.source_options.instant_ns("until")),
            with_control=self.source_options.is_true("withControl", default=False),
        )

    def find(self) -> list[InputFile]:
        """List the segments that the options select."""
        listed = find(self.source_options.urls(), with_hidden=True)
        return [file for file in listed if self._is_selected(file.url)]

    def file_state(self, file: InputFile) -> FileState:  # noqa: ARG002 - the protocol's argument
        """Return `FileState.DEFERRED`: a segment without a successor is still written."""
        return FileState.DEFERRED

    def parts(self, file: InputFile, size: int) -> tuple[FilePart, ...]:  # noqa: ARG002
        """Return no parts: segments are small enough for one task."""
        return ()

    def read(
        self,
        name: str,
        start: int = 0,  # noqa: ARG002 - segments are read as a whole
        stop: int | None = None,  # noqa: ARG002
        part: FilePart | None = None,  # noqa: ARG002
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a segment; its problems are rows of the table `problems`."""
        try:
            where = location(name)
            with where.files.open_input_file(where.path) as source:
                for table, batch in read_segment(source, name, self._options):
                    if table == self.table:
                        yield self._select_schema(batch)
        except (OSError, LocationError, pa.ArrowException) as error:
            yield from self._problem_rows(name, str(error.args[0] if error.args else error))
        except Exception as error:  # noqa: BLE001 - an error of one file must not fail the query
            yield from self._problem_rows(name, f"{type(error).__name__}: {error}")

    def _is_selected(self, path: str) -> bool:
        segment = parse_segment_path(path)
        if segment is None:
            return False
        topic, partition, *_ = segment
        return (not self._partitions or partition in self._partitions) and (
            not self._topics or any(fnmatchcase(topic, pattern) for pattern in self._topics)
        )

    def _select_schema(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [batch[name] for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _problem_rows(self, name: str, detail: str) -> Iterator[pa.RecordBatch]:
        if self.table == _PROBLEMS:
            yield self._select_schema(unreadable_problem(name, detail))


class LogSource(FileSource):
    """Data source of data directories, `kafkalite.log`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def file_reader(self, columns: Mapping[str, bool] | None = None) -> FileReader:
        """Parse the options."""
        return LogReader(self.options, columns)


def _ms(ns: int | None) -> int | None:
    return None if ns is None else ns // NANOSECONDS_PER_MILLISECOND
