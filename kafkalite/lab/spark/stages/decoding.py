"""Decodes a split of capture files in a task: files → staged tables, and a report to the driver.

No file makes a task fail. A file that cannot be read is quarantined: it is reported as a problem,
and the rows read before the error stay.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.lab.columnar.files.file_parts import FilePart
from kafkalite.lab.columnar.options import Table
from kafkalite.lab.columnar.reading import read_file
from kafkalite.lab.spark.locations import LocationError, location
from kafkalite.lab.spark.stages.typed import decode_typed, problem_rows, unreadable_problem
from kafkalite.lab.spark.stages.writing import TableWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalite.lab.columnar.options import Options
    from kafkalite.lab.spark.locations import Location
    from kafkalite.lab.spark.manifest import Piece
    from kafkalite.lab.spark.stages.reducing import Reductions
    from kafkalite.lab.spark.stages.typed import TypedRows

REQUESTS: Final = "requests/"
PROBLEMS: Final = "problems"
CONNECTIONS: Final = "connections"
INCOMPLETE: Final = "_kafkalite/loose"
"""Folder of incomplete frames and unpaired requests."""
INCOMPLETE_TABLES: Final = (Table.CONNECTIONS, Table.FRAGMENTS, Table.UNPAIRED)

QUARANTINED: Final = frozenset({ProblemKind.UNREADABLE, ProblemKind.UNKNOWN_LINK_TYPE})
"""Kinds of problems of a file that cannot be read, or not to its end."""
_SKIPPED: Final = frozenset({ProblemKind.NOT_A_CAPTURE})

REPORT_SCHEMA: Final = pa.schema([pa.field("report", pa.string())])
"""Schema of tasks' results: reports as JSON, one per row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """Report of a task: the files it read, and the paths of the files it wrote."""

    inputs: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    connections: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    rows: int = 0
    frames: int = 0
    quarantined: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def outputs(self) -> tuple[str, ...]:
        """All files that the task wrote."""
        return (*self.requests, *self.problems, *self.connections, *self.incomplete)

    def to_json(self) -> str:
        """Return the report as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> TaskReport:
        """Parse a report."""
        fields: dict[str, Any] = json.loads(text)
        for name, value in fields.items():
            if isinstance(value, list):
                fields[name] = tuple(value)
        return cls(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Settings of all tasks of a run."""

    staged: Location
    """Folder for output."""
    name: str
    """Prefix of output file names."""
    options: Options
    reductions: Reductions | None = None
    """Reductions of the requests for the audits of this run."""
    progress: Callable[[int, int], None] | None = None
    """Called with the number of finished files and bytes."""


def decode(
    task: Task, number: int, attempt_id: int, files: Iterable[tuple[str, Any]]
) -> TaskReport:
    """Decode files into staged tables; `files` has the name and the content of each.

    If the content is None, the file is opened by its name; if it is a part, only that part is read.
    """
    decoder = TaskDecoder(task, f"{number:05}", attempt_id)
    with decoder.tables:
        for name, content in files:
            bytes_read = decoder.read(name, content)
            is_later = isinstance(content, FilePart) and content.start > 0
            if task.progress is not None:
                task.progress(0 if is_later else 1, bytes_read)
    return decoder.report()


def decode_splits(
    batches: Iterable[pa.RecordBatch], task: Task, splits: Sequence[Sequence[Piece]]
) -> Iterator[pa.RecordBatch]:
    """Decode the splits whose indexes are in the first column; this task opens the files."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            files = ((piece.file.url, piece.part) for piece in splits[number])
            yield report_rows([decode(task, number, attempt_id(), files).to_json()])


def decode_contents(batches: Iterable[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
    """Decode files that Spark has read: rows with `path` and `content`."""
    files = (
        (path, memoryview(content.as_buffer()))
        for batch in batches
        for path, content in zip(batch["path"].to_pylist(), batch["content"], strict=True)
    )
    yield report_rows([decode(task, _partition_id(), attempt_id(), files).to_json()])


def quarantine(task: Task, problems: Sequence[Problem]) -> TaskReport:
    """Write problems of files that were not read; returns a report."""
    with TableWriter(task.staged, f"{task.name}-unread") as written:
        written.write(PROBLEMS, problem_rows(problems))
    names = tuple(dict.fromkeys(problem.file for problem in problems))
    return TaskReport(inputs=names, problems=tuple(written.written), quarantined=names)


def report_rows(lines: Sequence[str]) -> pa.RecordBatch:
    """Return reports as a batch of the result schema."""
    return pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], schema=REPORT_SCHEMA)


class TaskDecoder:
    """Decodes the files of one task and writes the tables."""

    def __init__(self, task: Task, name: str, attempt_id: int) -> None:
        writer = f"{task.name}-{name}-{attempt_id}"
        self.tables = TableWriter(task.staged, writer, task.reductions)
        # One table per API, so that readers of one API need not filter.
        self._options = replace(task.options, by_api=True)
        self._inputs: list[str] = []
        self._frames = 0
        self._quarantined: dict[str, None] = {}
        self._skipped: dict[str, None] = {}

    def read(self, name: str, content: Any) -> int:  # noqa: ANN401 - bytes, a part, or None
        """Read a file or a part of it; returns its size, 0 if it cannot be opened."""
        self._inputs.append(name)
        part = content if isinstance(content, FilePart) else None
        if content is not None and part is None:
            self._read(name, content)
            return len(content)
        try:
            where = location(name)
            stream = where.files.open_input_file(where.path)
            size = int(stream.size())
        except (OSError, LocationError, pa.ArrowException) as error:
            self._problem(name, str(error.args[0] if error.args else error))
            return 0
        # Not in the `try` block, because errors of writing output are OSErrors too.
        with stream:
            self._read(name, stream, part)
        return size if part is None else part.size_in(size)

    def pairs(self, batch: pa.RecordBatch) -> None:
        """Decode pairs and write them by API."""
        self._write(batch, decode_typed(batch))

    def problems(self, batch: pa.RecordBatch) -> None:
        """Write problems, and note the quarantined files and those that are no captures."""
        self.tables.write(PROBLEMS, batch)
        for kinds, noted in ((QUARANTINED, self._quarantined), (_SKIPPED, self._skipped)):
            is_of_whole_file = pc.is_in(batch["kind"], pa.array([str(kind) for kind in kinds]))
            noted.update(dict.fromkeys(batch["file"].filter(is_of_whole_file).to_pylist()))

    def report(self) -> TaskReport:
        """Return the task's report."""
        paths = self.tables.written
        return TaskReport(
            inputs=tuple(self._inputs),
            requests=tuple(path for path in paths if path.startswith(REQUESTS)),
            problems=tuple(path for path in paths if path.startswith(f"{PROBLEMS}/")),
            connections=tuple(path for path in paths if path.startswith(f"{CONNECTIONS}/")),
            incomplete=tuple(path for path in paths if path.startswith(f"{INCOMPLETE}/")),
            rows=self.tables.rows,
            frames=self._frames,
            quarantined=tuple(self._quarantined),
            skipped=tuple(self._skipped),
        )

    def _read(
        self,
        name: str,
        source: Any,  # noqa: ANN401 - bytes or a file
        part: FilePart | None = None,
    ) -> None:
        for table, batch in self.write_decoded(name, read_file(source, name, self._options, part)):
            if table in INCOMPLETE_TABLES:
                self.tables.write(f"{INCOMPLETE}/{table}", batch)

    def write_decoded(
        self, name: str, batches: Iterable[tuple[Table, pa.RecordBatch]]
    ) -> Iterator[tuple[Table, pa.RecordBatch]]:
        """Decode and write pairs, and write problems, of a file; yields batches of other tables."""
        batches = iter(batches)
        while True:
            try:
                table, batch = next(batches)
                decoded = [*decode_typed(batch)] if table is Table.PAIRS else []
            except StopIteration:
                return
            except Exception as error:  # noqa: BLE001 - an error of one file must not fail the task
                self._problem(name, f"not read to its end: {type(error).__name__}: {error}")
                return
            # The file does not cause errors of writing, so these fail the task.
            if table is Table.PAIRS:
                self._write(batch, decoded)
            elif table is Table.PROBLEMS:
                self.problems(batch)
            else:
                yield table, batch

    def _write(self, pairs: pa.RecordBatch, decoded: Iterable[TypedRows]) -> None:
        self._frames += 2 * pairs.num_rows - pairs["response_ts"].null_count
        for key, requests, problems in decoded:
            if requests is not None:
                self.tables.write_requests(key, requests)
            self.problems(problems)

    def _problem(self, name: str, detail: str) -> None:
        self.problems(unreadable_problem(name, detail))


def attempt_id() -> int:
    """Return the task attempt's id, unique in a run; 0 outside of tasks."""
    context = _context()
    return 0 if context is None else int(context.taskAttemptId())


def _partition_id() -> int:
    context = _context()
    return 0 if context is None else int(context.partitionId())


def _context() -> Any:  # noqa: ANN401 - a TaskContext or None
    if sys.modules.get("pyspark") is None:
        return None  # the local engine
    from pyspark import TaskContext  # noqa: PLC0415 - tasks only

    return TaskContext.get()
