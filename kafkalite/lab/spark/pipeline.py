"""The pipeline of `kafkalite audit`: captures to tables to audits.

The output folder contains:

    requests/api=OffsetCommit/date=2026-11-22/*.parquet   typed requests with their responses
    connections/*.parquet                                 connections with several numbers
    problems/*.parquet                                    problems of the captures
    state/<table>/*.parquet                               intermediate tables of the audits
    audits/<table>/*.parquet                              findings of the audits
    report.html                                           the report
    tables.md                                             descriptions of all columns
    _kafkalite/                                           the manifest and other internal files

In an object store, the folders may also have files that are not committed while
`_kafkalite/journal.json` exists. `output_journal` describes the commit.

The output depends only on the current input. A second run does nothing, a run with new files reads
only these files, and an interrupted run changes nothing. Tables of audits that a run does not
include stay as long as the input is unchanged.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from kafkalite.lab.columnar.options import DEFAULT_OPTIONS
from kafkalite.lab.spark import manifest, output_journal, table_descriptions
from kafkalite.lab.spark.access_checks import check_table_access
from kafkalite.lab.spark.audits import AUDITS, AuditOptions, reductions
from kafkalite.lab.spark.compaction import groups_to_merge, merge, merge_in_task
from kafkalite.lab.spark.connection_stitching import stitch
from kafkalite.lab.spark.dataframes import LocalEngineError, is_local, local_engine
from kafkalite.lab.spark.derived_tables import AUDIT, FOLDERS, STATE, DerivedTables
from kafkalite.lab.spark.identity import audits_hash, decoder_hash
from kafkalite.lab.spark.inputs import (
    REPORT_COLUMNS,
    SparkFiles,
    WorkerFiles,
    check_output_folder,
)
from kafkalite.lab.spark.locations import LocationError, location
from kafkalite.lab.spark.manifest import InputSplit, Manifest, RetainedOutputError
from kafkalite.lab.spark.memory import HEAP_SETTING, duckdb_bytes
from kafkalite.lab.spark.output_journal import Output
from kafkalite.lab.spark.progress import SilentReporter
from kafkalite.lab.spark.report import write_report
from kafkalite.lab.spark.requests import Requests, SparkTasks, api_key
from kafkalite.lab.spark.retained_tables import check_retained_tables
from kafkalite.lab.spark.stages.decoding import (
    CONNECTIONS,
    INCOMPLETE,
    PROBLEMS,
    REQUESTS,
    Task,
    TaskReport,
)
from kafkalite.lab.spark.stages.reducing import Reductions
from kafkalite.lab.spark.tuning import scan_settings, settings_for_size, single_task_settings
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.ports.system import machine_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from pyspark.sql import SparkSession

    from kafkalite.lab.columnar.options import Options
    from kafkalite.lab.spark.locations import InputFile, Location
    from kafkalite.lab.spark.manifest import StoredManifest
    from kafkalite.lab.spark.progress import ProgressReporter

T = TypeVar("T")

REPORT: Final = "report.html"
REDUCED: Final = "_kafkalite/reduced"
"""Path of the requests that tasks of Spark reduced; they are deleted at the end of a run."""
MAX_LOCAL_REQUESTS: Final = 200_000_000
"""Number of requests up to which the local engine computes the audits if Spark reads the input.

A failed attempt would take long for more of them."""
MAX_LOCAL_ROWS: Final = 20_000_000
"""Number of rows that a query of the local engine reads in this case; Spark reads more."""

TABLES: Final = (REQUESTS.rstrip("/"), PROBLEMS, CONNECTIONS, INCOMPLETE)
"""Folders whose files the manifest lists."""


class NothingToAuditError(Exception):
    """No input file is a capture; the text is one line for users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The options of a run."""

    inputs: tuple[str, ...]
    """Files, folders and patterns, by path or URL."""
    out: str
    options: Options = DEFAULT_OPTIONS
    audits: tuple[str, ...] = tuple(AUDITS)
    audit_options: AuditOptions = field(default_factory=AuditOptions)
    keep_removed_inputs: bool = False
    """Whether the output of deleted input files stays."""
    read_with_spark: bool = False
    """Whether Spark reads the input, with Hadoop's file systems and their credentials."""
    split_bytes: int = 128 << 20
    """Bytes that a task reads; files of several times this size are read in parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a run."""

    files: int
    """Number of input files."""
    files_read: int
    """Number of files read in this run."""
    bytes_read: int
    """Bytes read in this run."""
    requests: int
    """Number of requests in all files."""
    quarantined: tuple[str, ...]
    """Files that could not be read, or not to their end."""
    skipped: tuple[str, ...]
    """Files that are no captures."""
    report: str | None
    """URL of the report."""


def audit(spark: SparkSession, job: Job, reporter: ProgressReporter | None = None) -> Outcome:
    """Update the tables and the report in `job.out` to match the input.

    Raises NothingToAuditError or LocationError, whose texts are one line for users.
    """
    out = location(job.out)
    check_output_folder(job.inputs, out)
    check_table_access(spark, out)
    with output_journal.locked(out):
        return _Run(spark, job, out, reporter or SilentReporter()).run()


class _Run:
    """One run of the pipeline."""

    def __init__(
        self, spark: SparkSession, job: Job, out: Location, reporter: ProgressReporter
    ) -> None:
        self._spark = spark
        self._job = job
        self._out = out
        self._reporter = reporter
        self._engine = AuditEngine(spark, self._reporter)
        self._files_read = 0
        self._bytes_read = 0
        self._output = Output(out, TABLES, FOLDERS, REPORT)
        self._stored = self._output.recover()
        self._check_manifest()
        self._audited_before = self._manifest.audited
        self._reduced = frozenset[str]()

    def run(self) -> Outcome:
        source = (SparkFiles if self._job.read_with_spark else WorkerFiles)(
            self._spark, self._job.inputs
        )
        listed = source.find(excluded=self._out)
        if not listed and not (self._job.keep_removed_inputs and self._manifest.splits):
            raise NothingToAuditError(f"{' '.join(self._job.inputs)}: no files found")
        with settings_for_size(self._spark, sum(file.size for file in listed)):
            try:
                return self._update(source, listed)
            finally:
                (self._out / REDUCED).delete()

    def _update(self, source: WorkerFiles | SparkFiles, listed: list[InputFile]) -> Outcome:
        plan = self._plan(listed)
        for line in plan.lines():
            self._reporter.step(line)
        if not plan.is_empty or self._manifest.stitched is None:
            self._decode(source, plan)
        write_descriptions(self._out, self._manifest)
        report = self._audit() if self._job.audits else None
        splits = self._manifest.splits
        return Outcome(
            files=len({file.url for split in splits for file in split.inputs}),
            files_read=self._files_read,
            bytes_read=self._bytes_read,
            requests=self._manifest.rows,
            quarantined=tuple(
                dict.fromkeys(name for split in splits for name in split.quarantined)
            ),
            skipped=tuple(dict.fromkeys(name for split in splits for name in split.skipped)),
            report=report,
        )

    def _plan(self, listed: list[InputFile]) -> manifest.Plan:
        """Return what to read; raises LocationError if output that must stay cannot."""
        decoder = decoder_hash()
        try:
            plan = manifest.plan(
                self._manifest,
                listed,
                decoder=decoder,
                selection=_selection(self._job.options),
                keep_removed_inputs=self._job.keep_removed_inputs,
            )
            check_retained_tables(
                self._out, [split for split in plan.keep if split.decoder != decoder]
            )
        except RetainedOutputError as error:
            raise LocationError(f"{self._out.url}: {error}") from error
        return plan

    @property
    def _manifest(self) -> Manifest:
        return self._stored.manifest

    def _check_manifest(self) -> None:
        """Raise LocationError if there are tables that no manifest lists."""
        if not self._manifest.run and any(
            True for name in TABLES for _ in (self._out / name).walk()
        ):
            raise LocationError(f"{self._out.url}: contains tables but no manifest of kafkalite")
        if self._manifest.splits and not self._stored.parts:
            self._reporter.step("the manifest of an earlier version is converted")

    def _reason_to_audit_again(self, settings: str) -> str:
        if not self._manifest.audited:
            reason = "the input changed"
        elif settings == self._manifest.audited:
            reason = "the report is missing"
        elif audits_hash() in self._manifest.audited:
            reason = "the options changed"
        else:
            reason = "another version of the audits wrote them"
        return f"writing the tables of the audits again: {reason}"

    def _decode(self, source: WorkerFiles | SparkFiles, plan: manifest.Plan) -> None:
        run = self._manifest.run + 1
        staged = self._output.begin()
        # Unique, because a task of an interrupted run may still write.
        name = f"{run:06}.{SystemEntropy().uuid4_text()[:8]}"
        (self._out / REDUCED).delete()  # of a run that was killed
        task = Task(
            staged=staged,
            name=name,
            options=self._job.options,
            reductions=self._reductions() if self._job.audits else None,
        )
        new: list[InputSplit] = []
        if plan.read:
            self._files_read, self._bytes_read = (
                len(plan.read),
                sum(file.size for file in plan.read),
            )
            new = [
                replace(split, decoder=decoder_hash())
                for split in source.decode(plan.read, task, self._job.split_bytes, self._reporter)
            ]
            if not plan.keep:
                _raise_if_nothing_readable(plan.read, new)
        unchanged, merged = self._compact(plan.keep, task)
        splits, written = (*unchanged, *merged, *new), [*merged, *new]
        stitched = stitch(self._spark, splits, written, self._out, task, self._reporter)
        manifest_ = Manifest(
            selection=_selection(self._job.options), run=run, splits=splits, stitched=stitched
        )
        self._commit(manifest_)
        self._reduced = frozenset(path for split in (*new, stitched) for path in split.requests)

    def _reductions(self) -> Reductions | None:
        """Return how tasks reduce the requests that they write; None if there are no tasks."""
        if is_local(self._spark):
            return None
        return reductions_below(self._out, self._job.audits, self._job.audit_options)

    def _compact(
        self, splits: Sequence[InputSplit], task: Task
    ) -> tuple[list[InputSplit], list[InputSplit]]:
        """Merge small splits; return the splits that stay, and the merged ones."""
        groups = groups_to_merge(splits, self._job.split_bytes)
        if not groups:
            return list(splits), []
        count = sum(map(len, groups))
        self._reporter.step(f"merging the output of {count:,} small splits")
        numbers = self._spark.range(0, len(groups), 1, numPartitions=len(groups))
        work = partial(merge_in_task, out=self._out, task=task, groups=groups)
        reports = [row.report for row in numbers.mapInArrow(work, REPORT_COLUMNS).collect()]
        merged = [
            merge(group, TaskReport.from_json(report))
            for group, report in zip(groups, reports, strict=True)
        ]
        replaced = {id(split) for group in groups for split in group}
        return [split for split in splits if id(split) not in replaced], merged

    def _commit(self, manifest_: Manifest) -> None:
        # The tasks' reports are used, because a listing of the folder would not show a missing
        # file. Tables of audits are of another input, so they are deleted.
        new = manifest_.outputs - self._manifest.outputs
        self._stored = self._output.commit(self._stored, manifest_, sorted(new))

    def _audit(self) -> str:
        settings = _audit_settings(self._job.audits, self._job.audit_options)
        report = self._out / REPORT
        if self._manifest.audited == settings and report.exists():
            self._reporter.step("audits are up to date: neither the input nor the options changed")
            return report.url
        if self._audited_before:
            self._reporter.step(self._reason_to_audit_again(settings))
        self._stored = write_audits(
            self._engine,
            self._output,
            self._stored,
            self._job.audits,
            self._job.audit_options,
            self._reporter,
            self._reduced,
        )
        self._reporter.step("report")
        write_report_of_audits(self._engine, self._manifest, self._out)
        return report.url


@dataclass(slots=True)
class AuditEngine:
    """Chooses what computes audits: the local engine, or Spark for many requests.

    Spark also computes what the local engine failed to compute, and everything after that.
    """

    spark: SparkSession
    reporter: ProgressReporter
    """Receives a line if the local engine fails."""
    _has_failed: bool = False
    _is_interrupted: bool = False
    _local: SparkSession | None = None

    def compute(self, what: str, rows: int, compute: Callable[[SparkSession], T]) -> T:
        """Return what `compute` returns for a session; `rows` is the number of requests."""
        if is_local(self.spark) or rows > MAX_LOCAL_REQUESTS or self._has_failed:
            return compute(self.spark)
        heap = self.spark.conf.get(HEAP_SETTING, None)
        try:
            with local_engine(duckdb_bytes(heap, machine_bytes()), MAX_LOCAL_ROWS) as session:
                self._local = session
                return compute(session)
        except LocalEngineError as error:
            if self._is_interrupted:
                raise
            self.reporter.step(f"Spark computes {what}, because the local engine failed: {error}")
        finally:
            self._local = None
        self._has_failed = True
        return compute(self.spark)

    def interrupt(self) -> None:
        """Let the local engine fail, without Spark instead; called by another thread."""
        self._is_interrupted = True
        local = self._local
        if local is not None:
            local.interruptAll()


def write_report_of_audits(engine: AuditEngine, manifest_: Manifest, out: Location) -> None:
    """Write the report with the engine of the audits."""
    inputs = [file.url for split in manifest_.splits for file in split.inputs]
    engine.compute(
        "the report",
        manifest_.rows,
        lambda session: write_report(session, out, manifest_.files, inputs),
    )


def write_audits(  # noqa: PLR0917 - called by runs and streams
    engine: AuditEngine,
    output: Output,
    stored: StoredManifest,
    audits: Sequence[str],
    options: AuditOptions,
    reporter: ProgressReporter,
    reduced: Collection[str] = (),
) -> StoredManifest:
    """Write and commit the tables of audits over the requests in `output`.

    `reduced` are the files whose requests were reduced by `reductions_below` when they were
    written.
    """

    def derive(session: SparkSession) -> DerivedTables:
        staged = output.begin()
        if not staged.is_object:  # files in a store have unique names, and a commit deletes them
            for folder in (STATE, AUDIT):  # those of an engine that failed
                (staged / folder).delete()
        output.unproven.delete()
        return _derive(session, engine.spark, output, stored, audits, options, reporter, reduced)

    try:
        derived = engine.compute("the tables", stored.manifest.rows, derive)
    finally:
        (output.out / REDUCED).delete()
    # After a change of the input, the tables of other audits are outdated.
    written = tuple(f"{folder}/" for folder in derived.files)
    others = (stored.manifest.derived or ()) if stored.manifest.audited else ()
    unchanged = [name for name in others if not name.startswith(written)]
    new = [name for names in derived.files.values() for name in names]
    done = replace(
        stored.manifest,
        audited=_audit_settings(audits, options),
        derived=tuple(sorted([*unchanged, *new])),
    )
    # The audits are repeated if writing the report fails.
    return output.commit(stored, done, new)


def _derive(  # noqa: PLR0917 - called here
    session: SparkSession,
    spark: SparkSession,
    output: Output,
    stored: StoredManifest,
    audits: Sequence[str],
    options: AuditOptions,
    reporter: ProgressReporter,
    reduced: Collection[str] = (),
) -> DerivedTables:
    """Compute the tables of audits with a session, and write them without a commit."""
    staged = output.begin()
    derived = DerivedTables(staged, output.unproven, options, reporter)
    tasks = (
        None
        if session is spark
        else SparkTasks(spark, reductions_below(output.out, audits, options), reduced)
    )
    requests = Requests.read(session, output.out, derived.state, stored.manifest.outputs, tasks)
    if is_local(session):
        derived.audit(requests, audits)
    else:
        with (
            single_task_settings(session)
            if requests.are_few
            else scan_settings(session, requests.parquet_bytes_per_task)
        ):
            derived.audit(requests, audits)
    return derived


def reductions_below(out: Location, audits: Iterable[str], options: AuditOptions) -> Reductions:
    """Return the reductions of requests for audits, with files below an output folder."""
    return Reductions(out / REDUCED, reductions(audits, options))


def write_descriptions(out: Location, manifest_: Manifest) -> None:
    """Write the descriptions of the tables in an output folder, unless they are there.

    A run that was killed after its commit may not have written them.
    """
    apis = {
        name.split("/")[1].removeprefix("api=") for name in manifest_.outputs if "/api=" in name
    }
    text = table_descriptions.describe_tables(map(api_key, apis))
    file = out / table_descriptions.FILE
    if file.read_text() != text:
        file.write_text(text)


def _audit_settings(audits: Sequence[str], options: AuditOptions) -> str:
    return json.dumps([audits_hash(), list(audits), repr(options)])


def _selection(options: Options) -> str:
    """Return a text with the options that determine which requests are decoded."""
    return json.dumps(
        (
            sorted(options.api_keys or ()),
            options.from_ns,
            options.until_ns,
            options.clients,
        )
    )


def _raise_if_nothing_readable(files: tuple[InputFile, ...], splits: list[InputSplit]) -> None:
    """Raise NothingToAuditError if no input file is a capture."""
    unread = {name for split in splits for name in (*split.quarantined, *split.skipped)}
    if len(unread) == len(files) and not any(split.rows or split.incomplete for split in splits):
        first = files[0].url
        more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
        raise NothingToAuditError(f"{first}{more}: not a capture that can be read")
