"""A task's work: its lot of capture files → staged tables, and an account of what it did.

No file makes a task fail. One that cannot be read, whatever the reason, is quarantined: told as a
problem, and what was read of it until then stands.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.columnar.options import Table
from kafkalite.columnar.parts import FilePart
from kafkalite.columnar.reading import read_file
from kafkalite.spark.places import PlaceError, place
from kafkalite.spark.stages.typed import problem_rows, typed, unreadable
from kafkalite.spark.stages.writing import Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalite.columnar.options import Options
    from kafkalite.spark.manifest import Piece
    from kafkalite.spark.places import Place
    from kafkalite.spark.stages.typed import Typed

REQUESTS: Final = "requests/"
PROBLEMS: Final = "problems"
CONNECTIONS: Final = "connections"
LOOSE: Final = "_kafkalite/loose"
LOOSE_TABLES: Final = (Table.CONNECTIONS, Table.FRAGMENTS, Table.UNPAIRED)

QUARANTINED: Final = frozenset(
    {ProblemKind.UNREADABLE, ProblemKind.NOT_A_CAPTURE, ProblemKind.UNKNOWN_LINK_TYPE}
)
"""Problems of a file as a whole."""

TOLD: Final = pa.schema([pa.field("told", pa.string())])
"""What tasks give back to the driver: accounts, each a line of JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What a task did."""

    inputs: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    connections: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()
    rows: int = 0
    frames: int = 0
    quarantined: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return it as it travels."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Account:
        """Return what travelled."""
        told: dict[str, Any] = json.loads(text)
        for name, value in told.items():
            if isinstance(value, list):
                told[name] = tuple(value)
        return cls(**told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What every task of a run is told."""

    staged: Place
    """Where it writes."""
    name: str
    """What its files' names begin with."""
    options: Options
    progress: Callable[[int, int], None] | None = None
    """Is told files and bytes as they are done."""


def decode(task: Task, number: int, attempt: int, files: Iterable[tuple[str, Any]]) -> Account:
    """Read files into staged tables: each a name and what it says.

    None opens it by its name, a part of it that part alone.
    """
    lot = Lot(task, f"{number:05}", attempt)
    with lot.tables:
        for name, content in files:
            done = lot.read(name, content)
            is_later = isinstance(content, FilePart) and content.start > 0
            if task.progress is not None:
                task.progress(0 if is_later else 1, done)
    return lot.account()


def decode_lots(
    batches: Iterable[pa.RecordBatch], task: Task, lots: Sequence[Sequence[Piece]]
) -> Iterator[pa.RecordBatch]:
    """Decode, for each number in a column of them, the files of that lot; they are opened here."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            files = ((each.file.url, each.part) for each in lots[number])
            yield told([decode(task, number, attempt(), files).to_json()])


def decode_contents(batches: Iterable[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
    """Decode files that Spark has read: rows of `path` and `content`."""
    files = (
        (path, memoryview(content.as_buffer()))
        for batch in batches
        for path, content in zip(batch["path"].to_pylist(), batch["content"], strict=True)
    )
    yield told([decode(task, _partition(), attempt(), files).to_json()])


def quarantine(task: Task, problems: Sequence[Problem]) -> Account:
    """Tell problems of files that no task has read."""
    with Tables(task.staged, f"{task.name}-unread") as written:
        written.write(PROBLEMS, problem_rows(problems))
    names = tuple(dict.fromkeys(each.file for each in problems))
    return Account(inputs=names, problems=tuple(written.written), quarantined=names)


def told(lines: Sequence[str]) -> pa.RecordBatch:
    """Return accounts as they go to the driver."""
    return pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], schema=TOLD)


class Lot:
    """What one task does, and where it puts it."""

    def __init__(self, task: Task, name: str, attempt: int) -> None:
        self.tables = Tables(task.staged, f"{task.name}-{name}-{attempt}")
        # Each API has a table of its own: its requests are not to be picked out of all.
        self._options = replace(task.options, by_api=True)
        self._inputs: list[str] = []
        self._frames = 0
        self._quarantined: dict[str, None] = {}

    def read(self, name: str, content: Any) -> int:  # noqa: ANN401 - bytes, a part, or None
        """Read one file, or a part of it; returns its size, as far as it is known."""
        self._inputs.append(name)
        part = content if isinstance(content, FilePart) else None
        if content is not None and part is None:
            self._read(name, content)
            return len(content)
        try:
            where = place(name)
            stream = where.files.open_input_file(where.path)
            size = int(stream.size())
        except (OSError, PlaceError, pa.ArrowException) as error:
            self._problem(name, str(error.args[0] if error.args else error))
            return 0
        # Not in the `try`: what keeps us from writing is an OSError, too.
        with stream:
            self._read(name, stream, part)
        return size if part is None else part.size_in(size)

    def pairs(self, batch: pa.RecordBatch) -> None:
        """Write pairs, typed."""
        self._write(batch, typed(batch))

    def problems(self, batch: pa.RecordBatch) -> None:
        """Write problems."""
        self.tables.write(PROBLEMS, batch)
        whole = pc.is_in(batch["kind"], pa.array([str(kind) for kind in QUARANTINED]))
        for name in batch["file"].filter(whole).to_pylist():
            self._quarantined[name] = None

    def account(self) -> Account:
        """Tell what was done."""
        named = self.tables.written
        return Account(
            inputs=tuple(self._inputs),
            requests=tuple(each for each in named if each.startswith(REQUESTS)),
            problems=tuple(each for each in named if each.startswith(f"{PROBLEMS}/")),
            connections=tuple(each for each in named if each.startswith(f"{CONNECTIONS}/")),
            loose=tuple(each for each in named if each.startswith(f"{LOOSE}/")),
            rows=self.tables.rows,
            frames=self._frames,
            quarantined=tuple(self._quarantined),
        )

    def _read(
        self,
        name: str,
        source: Any,  # noqa: ANN401 - bytes or a file
        part: FilePart | None = None,
    ) -> None:
        for table, batch in self.take(name, read_file(source, name, self._options, part)):
            if table in LOOSE_TABLES:
                self.tables.write(f"{LOOSE}/{table}", batch)

    def take(
        self, name: str, batches: Iterable[tuple[Table, pa.RecordBatch]]
    ) -> Iterator[tuple[Table, pa.RecordBatch]]:
        """Write what a file says; yields what it says of other tables than pairs and problems."""
        batches = iter(batches)
        while True:
            try:
                table, batch = next(batches)
                decoded = [*typed(batch)] if table is Table.PAIRS else []
            except StopIteration:
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this file's alone
                self._problem(name, f"not read to its end: {type(error).__name__}: {error}")
                return
            # What keeps us from writing is no fault of the file: that may well end the task.
            if table is Table.PAIRS:
                self._write(batch, decoded)
            elif table is Table.PROBLEMS:
                self.problems(batch)
            else:
                yield table, batch

    def _write(self, pairs: pa.RecordBatch, decoded: Iterable[Typed]) -> None:
        self._frames += 2 * pairs.num_rows - pairs["answered"].null_count
        for key, requests, problems in decoded:
            if requests is not None:
                self.tables.write_requests(key, requests)
            self.problems(problems)

    def _problem(self, name: str, detail: str) -> None:
        self.problems(unreadable(name, detail))


def attempt() -> int:
    """Return what no other attempt at a task of this run has; 0 outside of tasks."""
    context = _context()
    return 0 if context is None else int(context.taskAttemptId())


def _partition() -> int:
    context = _context()
    return 0 if context is None else int(context.partitionId())


def _context() -> Any:  # noqa: ANN401 - pyspark's, where there is one
    from pyspark import TaskContext  # noqa: PLC0415 - only where a task runs

    return TaskContext.get()
