"""Captures to tables to audits: what `kafkalite audit` does, and what it leaves in its folder.

    requests/api=OffsetCommit/date=2026-11-22/*.parquet   typed requests with their responses
    connections/*.parquet                                 numbers of connections that are others'
    problems/*.parquet                                    what is wrong with the captures
    state/<table>/*.parquet                               what audits share
    audits/<table>/*.parquet                              what they found
    report.html                                           the same for people
    tables.md                                             what all columns say
    _kafkalite/                                           what was read and done: see `manifest`

What is there is a function of the input as it is: a second run does nothing, a run with new files
reads those alone, and one that is interrupted has done nothing. Audits that a run does not make
keep their tables as long as the input stays as it was, and no longer.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import kafkalite
from kafkalite.columnar.options import EVERYTHING
from kafkalite.spark import describing, journal, manifest
from kafkalite.spark.audits import AUDITS, AuditOptions
from kafkalite.spark.derived import FOLDERS, Derived
from kafkalite.spark.inputs import ByName, BySpark, keep_apart
from kafkalite.spark.journal import Change
from kafkalite.spark.manifest import Lot, Manifest
from kafkalite.spark.places import PlaceError, place
from kafkalite.spark.reach import reach_tables
from kafkalite.spark.report import write_report
from kafkalite.spark.requests import Requests, api_key
from kafkalite.spark.sizing import by_one_task, sized
from kafkalite.spark.stages.decoding import CONNECTIONS, LOOSE, PROBLEMS, REQUESTS, Task
from kafkalite.spark.stitch import stitch
from kafkalite.spark.telling import Silent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkalite.columnar.options import Options
    from kafkalite.spark.places import InputFile, Place
    from kafkalite.spark.telling import Teller

REPORT: Final = "report.html"

_TABLES: Final = (REQUESTS.rstrip("/"), PROBLEMS, CONNECTIONS, LOOSE)
"""Folders whose files the manifest knows one by one."""
_DERIVED: Final = (*FOLDERS, REPORT)
"""What audits leave."""


class NothingToAuditError(Exception):
    """There is no capture where one was said to be; the text is one line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is asked of a run."""

    inputs: tuple[str, ...]
    """Files, folders and patterns, by path or URL."""
    out: str
    options: Options = EVERYTHING
    audits: tuple[str, ...] = tuple(AUDITS)
    audit_options: AuditOptions = field(default_factory=AuditOptions)
    keep_vanished: bool = False
    """Whether what a file gave stays when the file is gone."""
    by_spark: bool = False
    """Whether Spark reads the input, with Hadoop's file systems and their credentials."""
    lot_bytes: int = 128 << 20
    """How much a task reads; files of several times as much are read in parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run did."""

    files: int
    """How many files there are."""
    read: int
    """How many were read in this run."""
    size: int
    """How many bytes they had."""
    requests: int
    """How many requests there are, of all files."""
    quarantined: tuple[str, ...]
    """Files that could not be read, or not to their ends."""
    report: str | None
    """Where the report is."""


def audit(spark: SparkSession, job: Job, tell: Teller | None = None) -> Outcome:
    """Bring the tables and the report in `job.out` up to what the input says.

    NothingToAuditError or PlaceError, each with one line for people, when that cannot be.
    """
    out = place(job.out)
    keep_apart(job.inputs, out)
    reach_tables(spark, out)
    with journal.alone(out):
        return _Run(spark, job, out, tell or Silent()).run()


class _Run:
    """One run."""

    def __init__(self, spark: SparkSession, job: Job, out: Place, tell: Teller) -> None:
        self._spark = spark
        self._job = job
        self._out = out
        self._tell = tell
        self._read = 0
        self._size = 0
        journal.recover(out)
        self._done = self._manifest()

    def run(self) -> Outcome:
        source = (BySpark if self._job.by_spark else ByName)(self._spark, self._job.inputs)
        listed = source.find(without=self._out)
        if not listed and not (self._job.keep_vanished and self._done.lots):
            raise NothingToAuditError(f"{' '.join(self._job.inputs)}: there are no files")
        with sized(self._spark, sum(each.size for each in listed)):
            return self._bring_up(source, listed)

    def _bring_up(self, source: ByName | BySpark, listed: list[InputFile]) -> Outcome:
        plan = manifest.plan(self._done, listed, keep_vanished=self._job.keep_vanished)
        if not plan.is_empty or self._done.stitched is None:
            self._decode(source, plan)
        report = self._audit() if self._job.audits else None
        lots = self._done.lots
        stitched = self._done.stitched
        return Outcome(
            files=len({each.url for lot in lots for each in lot.inputs}),
            read=self._read,
            size=self._size,
            requests=sum(lot.rows for lot in lots) + (stitched.rows if stitched else 0),
            quarantined=tuple(dict.fromkeys(name for lot in lots for name in lot.quarantined)),
            report=report,
        )

    def _manifest(self) -> Manifest:
        text = (self._out / manifest.NAME).read_text()
        if text is None and any(True for name in _TABLES for _ in (self._out / name).walk()):
            raise PlaceError(f"{self._out.url}: has tables that no run of this pipeline wrote")
        try:
            return Manifest.from_json(text, _decoder(self._job.options))
        except ValueError as error:
            raise PlaceError(f"{(self._out / manifest.NAME).url}: {error}") from error

    def _decode(self, source: ByName | BySpark, plan: manifest.Plan) -> None:
        run = self._done.run + 1
        staged = self._out / journal.STAGING
        task = Task(staged=staged, name=f"{run:06}", options=self._job.options)
        new: list[Lot] = []
        if plan.read:
            self._read, self._size = len(plan.read), sum(each.size for each in plan.read)
            new = source.decode(plan.read, task, self._job.lot_bytes, self._tell)
            if not plan.keep:
                _refuse_all_quarantined(plan.read, new)
        lots = (*plan.keep, *new)
        stitched = stitch(self._spark, lots, new, self._out, task, self._tell)
        kept = replace(self._done, run=run, lots=lots, stitched=stitched, audited="")
        self._commit(kept, staged)

    def _commit(self, kept: Manifest, staged: Place) -> None:
        outputs = kept.outputs
        gone = [
            f"{folder}/{name}"
            for folder in _TABLES
            for name in (self._out / folder).walk()
            if f"{folder}/{name}" not in outputs
        ]
        # By what tasks told of, not by what is staged: one may be missing.
        new = sorted(outputs - self._done.outputs)
        moves = [(f"{journal.STAGING}/{name}", name) for name in new]
        if not self._job.audits:
            gone += _DERIVED
        journal.commit(
            self._out,
            Change(moves=tuple(moves), deletes=tuple(gone), manifest=kept.to_json()),
        )
        staged.delete()
        seen = {name.split("/")[1].removeprefix("api=") for name in outputs if "/api=" in name}
        (self._out / describing.FILE).write_text(describing.described(map(api_key, seen)))
        self._done = kept

    def _audit(self) -> str:
        asked = json.dumps([list(self._job.audits), repr(self._job.audit_options)])
        report = self._out / REPORT
        if self._done.audited == asked and report.exists():
            self._tell.step("nothing is new since these audits were made")
            return report.url
        staged = self._out / journal.STAGING
        derived = Derived(staged, self._job.audit_options, self._tell)
        requests = Requests.read(self._spark, self._out, derived.state)
        with by_one_task(self._spark) if requests.are_few else nullcontext():
            derived.audit(requests, self._job.audits)
        moves = [(f"{journal.STAGING}/{source}", target) for source, target in derived.moves()]
        done = replace(self._done, audited=asked)
        # Where the input has changed, what other audits found is of another one.
        gone = (*derived.folders, REPORT) if self._done.audited else _DERIVED
        journal.commit(
            self._out,
            # Without its report, all of this is made again.
            Change(moves=tuple(moves), deletes=gone, manifest=done.to_json()),
        )
        self._done = done
        staged.delete()
        self._tell.step("report")
        write_report(self._spark, self._out)
        return report.url


def _decoder(options: Options) -> str:
    """Say how files are decoded, as far as it decides what is written."""
    chosen = (
        sorted(options.api_keys or ()),
        options.from_ns,
        options.until_ns,
        options.clients,
    )
    return f"{kafkalite.__version__} {json.dumps(chosen)}"


def _refuse_all_quarantined(files: tuple[InputFile, ...], lots: list[Lot]) -> None:
    """Refuse an input in which no file is a capture."""
    quarantined = {name for lot in lots for name in lot.quarantined}
    if len(quarantined) == len(files) and not any(lot.rows or lot.loose for lot in lots):
        first = files[0].url
        more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
        raise NothingToAuditError(f"{first}{more}: not a capture that could be read")
