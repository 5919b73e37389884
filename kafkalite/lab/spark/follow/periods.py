"""All audits of a followed capture, by periods of the capture's time.

Each period has a folder like the output of `kafkalite audit`, with the requests of the period and
of the one before it. Its tables and its report are those of its last audit, which may not have the
requests of the last batches. When no more requests of a period can come, it is audited for the last
time, and its requests are deleted. The next period receives those that its audits need as evidence.
So the cost of a batch depends on the traffic of two periods, not on the length of the capture.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from kafkalite.lab.columnar.options import DEFAULT_OPTIONS
from kafkalite.lab.spark.audits import PERIODIC_AUDITS
from kafkalite.lab.spark.compaction import groups_to_merge, merge, write_merged
from kafkalite.lab.spark.derived_tables import FOLDERS
from kafkalite.lab.spark.follow.evidence import copy_evidence
from kafkalite.lab.spark.follow.row_copies import (
    RowCopy,
    copy_file,
    copy_in_task,
    copy_rows,
    times_us,
)
from kafkalite.lab.spark.inputs import REPORT_COLUMNS
from kafkalite.lab.spark.locations import InputFile, in_parallel
from kafkalite.lab.spark.manifest import InputSplit, Manifest
from kafkalite.lab.spark.output_journal import Output
from kafkalite.lab.spark.pipeline import (
    REPORT,
    TABLES,
    AuditEngine,
    write_audits,
    write_descriptions,
    write_report_of_audits,
)
from kafkalite.lab.spark.progress import SilentReporter
from kafkalite.lab.spark.stages.decoding import CONNECTIONS, PROBLEMS, REQUESTS, Task
from kafkalite.lab.spark.stages.plain_requests import PLAIN
from kafkalite.lab.spark.stages.stitching import CONNECTION_IDS
from kafkalite.lab.spark.tuning import is_one_process, settings_for_size
from kafkalite.ports.entropy import SystemEntropy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from kafkalite.lab.spark.audits import AuditOptions
    from kafkalite.lab.spark.locations import Location
    from kafkalite.lab.spark.manifest import StoredManifest
    from kafkalite.lab.spark.progress import ProgressReporter

FOLDER: Final = "periods"
"""Folder of all periods below the output folder."""
DEFAULT_PERIOD_US: Final = 3_600_000_000
LATENESS_US: Final = 600_000_000
"""Time after the end of a period until which its requests may come; as long as a request may wait
for its response."""

_MIN_RETAINED_US: Final = 7 * 24 * 3_600_000_000
"""Time after which brokers forget a transactional id by default, and committed offsets."""
_MIN_PAUSE_MS: Final = 30_000
_PAUSE_FACTOR: Final = 4
"""After audits, a pause of this many times their duration: they use at most a fifth of the time."""
_MERGED_BYTES: Final = 128 << 20
_REPORTED_RUN: Final = "_kafkalite/reported-run"
"""Path of a file with the run of the manifest whose audit tables the report describes."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAME_FORMAT: Final = "%Y-%m-%dT%H-%M-%SZ"


@dataclass(slots=True)
class _Period:
    """The folder of a period, and its committed manifest."""

    output: Output
    stored: StoredManifest

    @property
    def manifest(self) -> Manifest:
        return self.stored.manifest

    @property
    def is_final(self) -> bool:
        """Whether the requests were deleted after the last audit."""
        return bool(self.manifest.audited) and not any(
            split.requests for split in self.manifest.splits
        )

    @property
    def is_outdated(self) -> bool:
        """Whether the period has requests of its own that were not audited."""
        return not self.manifest.audited and any(split.rows for split in self.manifest.splits)

    @property
    def last_batch(self) -> int:
        """Number of the last batch with requests of the period or of the one before."""
        return max(map(_last_batch, self.manifest.splits), default=-1)

    @property
    def size(self) -> int:
        """Bytes of the captures that the requests come from."""
        return sum(file.size for split in self.manifest.splits for file in split.inputs)


def _proceed() -> None:
    """Continue with the next step."""


@dataclass(slots=True)
class PeriodAudits:
    """The audits of all periods below one location."""

    spark: SparkSession
    out: Location
    options: AuditOptions
    reporter: ProgressReporter
    now_ms: Callable[[], int]
    period_us: int = DEFAULT_PERIOD_US
    audits: Sequence[str] = PERIODIC_AUDITS
    _periods: dict[int, _Period] = field(default_factory=dict)
    """Number of a period → its folder, for periods whose requests may change."""
    _is_loaded: bool = False
    _last_us: int = 0
    _next_audit_ms: int = 0
    _engine: AuditEngine = field(init=False)

    def __post_init__(self) -> None:
        """Choose the engine once, so that an engine that fails is not tried again."""
        self._engine = AuditEngine(self.spark, self.reporter)

    def interrupt(self) -> None:
        """Let the local engine fail; called by another thread."""
        self._engine.interrupt()

    def add_batch(self, staged: Location, number: int, size: int) -> None:
        """Add the requests of a batch; a repeated batch replaces the requests that it had added.

        `size` is the number of bytes that were decoded.
        """
        rows = self._rows_by_period(staged)
        own = Counter[int]()
        for by_period in rows.values():
            own.update(by_period)
        token = f"{number:06}.{SystemEntropy().uuid4_text()[:8]}"
        repeated = {index for index, period in self._open() if period.last_batch >= number}
        for index in sorted({*repeated, *own, *(each + 1 for each in own)}):
            period = self._period(index)
            if period.is_final:
                del self._periods[index]
                if number > period.last_batch:  # the tables have the requests of earlier ones
                    self._report_late(index, own[index])
                continue
            self._add(period, index, rows, _Batch(staged, number, size, token, own[index]))
        if own:
            self._last_us = max(self._last_us, self._latest_us(staged, rows, max(own)))

    def audit(self, *, is_last: bool = False, check: Callable[[], None] = _proceed) -> None:
        """Audit periods that changed, unless the last audits were a short time ago.

        With `is_last`, all of them are audited. `check` is called between steps; an error that it
        raises ends the audits, and the next call repeats those that were not committed.
        """
        for index, period in self._open():
            check()
            ends_us = (index + 1) * self.period_us
            if ends_us + LATENESS_US <= self._last_us and not is_last:
                self._finish(index, period, check)
                del self._periods[index]
            elif period.is_outdated and (is_last or self.now_ms() >= self._next_audit_ms):
                self._write(index, period, check)

    def _add(
        self,
        period: _Period,
        index: int,
        rows: Mapping[str, Counter[int]],
        batch: _Batch,
    ) -> None:
        """Commit the rows of a batch to one period."""
        folder = period.output.begin()
        names: list[str] = []
        copies = []
        for name, by_period in rows.items():
            within = {each for each in by_period if each in (index - 1, index)}
            if within:
                end = PLAIN if name.endswith(PLAIN) else ".parquet"
                target = f"{REQUESTS}{name.rpartition('/')[0]}/{batch.token}-{len(names)}{end}"
                names.append(target)
                copies.append(
                    RowCopy(
                        batch.staged / REQUESTS.rstrip("/") / name,
                        folder / target,
                        (index - 1) * self.period_us,
                        (index + 1) * self.period_us,
                        len(within) == len(by_period),
                    )
                )
        self._copy(copies)
        problems = self._copy_problems(folder, batch) if batch.own_rows else ()
        connections = self._merge_connections(period, folder, batch)
        new = InputSplit(
            inputs=(InputFile(url=str(batch.number), size=batch.size, modified_ns=0),),
            requests=tuple(names),
            problems=problems,
            rows=batch.own_rows,
        )
        others = [split for split in period.manifest.splits if _last_batch(split) < batch.number]
        unchanged, merged = self._merge_small(period, folder, others, batch)
        done = Manifest(
            run=period.manifest.run + 1,
            splits=(*unchanged, *merged, new),
            stitched=connections,
        )
        if any(split.rows for split in done.splits):
            # The tables of the last audit stay until the next one replaces them.
            done = replace(done, derived=period.manifest.derived)
        written = done.outputs - period.manifest.outputs
        period.stored = period.output.commit(period.stored, done, sorted(written))
        if not done.derived:
            (period.output.out / REPORT).delete()

    def _copy(self, copies: Sequence[RowCopy]) -> None:
        if is_one_process(self.spark):
            in_parallel(copy_rows, copies)
        elif copies:
            numbers = self.spark.range(0, len(copies), 1, numPartitions=len(copies))
            numbers.mapInArrow(partial(copy_in_task, copies=copies), REPORT_COLUMNS).collect()

    def _copy_problems(self, folder: Location, batch: _Batch) -> tuple[str, ...]:
        names: list[str] = []
        for name in (batch.staged / PROBLEMS).walk():
            target = f"{PROBLEMS}/{batch.token}-{len(names)}.parquet"
            copy_file(batch.staged / PROBLEMS / name, folder / target)
            names.append(target)
        return tuple(names)

    def _merge_connections(
        self, period: _Period, folder: Location, batch: _Batch
    ) -> InputSplit | None:
        """Add the connections of a batch that have several numbers; each number has one row."""
        stitched = period.manifest.stitched
        new = [(batch.staged / CONNECTIONS / name) for name in (batch.staged / CONNECTIONS).walk()]
        if not new:
            return stitched or InputSplit(inputs=())
        known = () if stitched is None else stitched.connections
        ids: dict[int, int] = {}
        for file in [*(period.output.out / name for name in known), *new]:
            table = _read(file)
            for connection, id_ in zip(*(table[name].to_pylist() for name in _IDS), strict=True):
                ids.setdefault(connection, id_)
        target = f"{CONNECTIONS}/{batch.token}.parquet"
        columns = [pa.array(ids.keys(), pa.int64()), pa.array(ids.values(), pa.int64())]
        with (folder / target).create() as stream:
            parquet.write_table(pa.Table.from_arrays(columns, schema=CONNECTION_IDS), stream)
        return InputSplit(inputs=(), connections=(target,))

    @staticmethod
    def _merge_small(
        period: _Period, folder: Location, splits: Sequence[InputSplit], batch: _Batch
    ) -> tuple[list[InputSplit], list[InputSplit]]:
        """Merge the files of earlier batches; return the splits that stay, and the merged ones.

        The last batch may be repeated, so its rows are not merged.
        """
        earlier = [
            split for split in splits if split.inputs and _last_batch(split) < batch.number - 1
        ]
        groups = groups_to_merge(earlier, _MERGED_BYTES)
        task = Task(staged=folder, name=batch.token, options=DEFAULT_OPTIONS)
        merged = [
            merge(group, write_merged(group, period.output.out, task, number, 0))
            for number, group in enumerate(groups)
        ]
        replaced = {id(split) for group in groups for split in group}
        return [split for split in splits if id(split) not in replaced], merged

    def _finish(self, index: int, period: _Period, check: Callable[[], None]) -> None:
        """Audit a period for the last time, and delete its requests but evidence for the next."""
        if period.is_outdated:
            self._write(index, period, check)
        following = min((other for other, _ in self._open() if other > index), default=None)
        if following is not None:
            self._renew_evidence(following, self._period(following), period)
        if not period.manifest.audited:
            period.output.out.delete()  # it has requests of the period before only
            return
        problems = tuple(name for each in period.manifest.splits for name in each.problems)
        last = InputFile(url=str(period.last_batch), size=0, modified_ns=0)
        done = replace(
            period.manifest,
            splits=(InputSplit(inputs=(last,), problems=problems),),
            stitched=InputSplit(inputs=()),
        )
        period.stored = period.output.commit(period.stored, done, ())

    def _renew_evidence(self, index: int, period: _Period, earlier: _Period) -> None:
        """Replace the evidence of a period by that in the requests of the open one before it."""
        started_us = (index - 1) * self.period_us
        before = [split for split in period.manifest.splits if not split.inputs]
        token = f"{period.manifest.run:06}.{SystemEntropy().uuid4_text()[:8]}"
        stitched = earlier.manifest.stitched
        names = copy_evidence(
            earlier.output.out,
            sorted(name for split in earlier.manifest.splits for name in split.requests),
            period.output.begin(),
            token,
            started_us,
            2 * max(_MIN_RETAINED_US, self.options.retention_ms * 1_000),
            self._read_ids(earlier, () if stitched is None else stitched.connections),
        )
        if not names and not before:
            return
        others = [split for split in period.manifest.splits if split.inputs]
        evidence = (InputSplit(inputs=(), requests=tuple(names)),) if names else ()
        done = replace(
            period.manifest,
            run=period.manifest.run + 1,
            splits=(*others, *evidence),
            audited="",
        )
        period.stored = period.output.commit(period.stored, done, names)

    def _read_ids(self, period: _Period, names: Sequence[str]) -> dict[int, int]:
        """Return the numbers of connections that have several."""
        ids: dict[int, int] = {}
        for name in names:
            table = _read(period.output.out / name)
            ids.update(zip(*(table[name].to_pylist() for name in _IDS), strict=True))
        return ids

    def _write(self, index: int, period: _Period, check: Callable[[], None]) -> None:
        """Write the tables of all audits of a period."""
        started_ms = self.now_ms()
        earlier = max((other for other, _ in self._open() if other < index), default=None)
        if earlier is not None:
            self._renew_evidence(index, period, self._period(earlier))
        self.reporter.step(f"auditing the period {period.output.out.url.rpartition('/')[2]}")
        with settings_for_size(self.spark, period.size):
            period.stored = write_audits(
                self._engine,
                period.output,
                period.stored,
                self.audits,
                replace(self.options, since_us=(index - 1) * self.period_us),
                _CheckedSteps(check),
            )
        took_ms = self.now_ms() - started_ms
        self._next_audit_ms = self.now_ms() + max(_MIN_PAUSE_MS, _PAUSE_FACTOR * took_ms)
        self._write_report(period)

    def _write_report(self, period: _Period) -> None:
        """Replace the report of an audited period, unless it describes the tables already."""
        run = str(period.manifest.run)
        reported = period.output.out / _REPORTED_RUN
        if reported.read_text() != run:
            write_descriptions(period.output.out, period.manifest)
            write_report_of_audits(self._engine, period.manifest, period.output.out)
            reported.write_text(run)
            self.reporter.step(f"report: {(period.output.out / REPORT).url}")

    def _report_late(self, index: int, rows: int) -> None:
        if rows:
            self.reporter.step(
                f"{rows:,} requests of the period {self._name(index)} came after its last audit"
            )

    def _period(self, index: int) -> _Period:
        if index not in self._periods:
            output = Output(self.out / FOLDER / self._name(index), TABLES, FOLDERS, report=None)
            self._periods[index] = _Period(output, output.recover())
        return self._periods[index]

    def _open(self) -> list[tuple[int, _Period]]:
        """Return the periods whose requests may change, by time."""
        if not self._is_loaded:
            for name in (self.out / FOLDER).folders():
                index = _start_us(name) // self.period_us
                period = self._period(index)
                if period.manifest.audited:
                    self._write_report(period)  # audits may have been interrupted before it
                if period.is_final:
                    del self._periods[index]
            self._is_loaded = True
        return sorted(self._periods.items())

    def _name(self, index: int) -> str:
        start = _EPOCH + timedelta(microseconds=index * self.period_us)
        return start.strftime(_NAME_FORMAT)

    def _rows_by_period(self, staged: Location) -> dict[str, Counter[int]]:
        """Return the number of requests of each file by period."""
        rows = {}
        for name in (staged / REQUESTS.rstrip("/")).walk():
            times = times_us(staged / REQUESTS.rstrip("/") / name)
            counts = pc.value_counts(pc.divide(times, pa.scalar(self.period_us, pa.int64())))
            rows[name] = Counter({row["values"]: row["counts"] for row in counts.to_pylist()})
        return rows

    def _latest_us(self, staged: Location, rows: Mapping[str, Counter[int]], latest: int) -> int:
        files = (name for name, by_period in rows.items() if latest in by_period)
        folder = staged / REQUESTS.rstrip("/")
        return max(int(pc.max(times_us(folder / name)).as_py()) for name in files)


class _CheckedSteps(SilentReporter):
    """Reports no steps, and calls a function at each."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check

    def step(self, description: str) -> None:  # noqa: ARG002 - the protocol's argument
        """Call the function."""
        self._check()


@dataclass(frozen=True, slots=True)
class _Batch:
    """A batch whose rows are added to a period."""

    staged: Location
    number: int
    size: int
    token: str
    """Prefix of file names."""
    own_rows: int
    """Number of its requests in the period, without the period before."""


def _read(file: Location) -> pa.Table:
    with file.files.open_input_file(file.path) as stream:
        return parquet.read_table(stream)


def _start_us(name: str) -> int:
    start = datetime.strptime(name, _NAME_FORMAT).replace(tzinfo=UTC)
    return (start - _EPOCH) // timedelta(microseconds=1)


def _last_batch(split: InputSplit) -> int:
    return max((int(file.url) for file in split.inputs), default=-1)


_IDS: Final = [column.name for column in CONNECTION_IDS]
