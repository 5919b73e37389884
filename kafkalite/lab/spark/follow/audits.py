"""The fencing and members audits over a growing capture, batch by batch.

The state after each batch is stored in a new folder, computed from the folder of the batch before.
A batch that is repeated after a failure starts from the same state and replaces its output. Streams
do not use Spark's state stores, so that they can use the queries of the other audits, over stored
and new rows. A test checks that both give the same results.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from kafkalite.lab.spark.audits.classic import COMMIT_COUNTS
from kafkalite.lab.spark.audits.commit_checks import BY_EPOCH, CLASSIFIED
from kafkalite.lab.spark.audits.fencing import add_counted_commits, cases, totals
from kafkalite.lab.spark.audits.members import GHOSTS
from kafkalite.lab.spark.follow.batch import ENDS, MAX_LISTED, Batch, Findings, TimeLimits
from kafkalite.lab.spark.follow.proofs import PROVEN_COMMITS, PROVEN_GHOSTS
from kafkalite.lab.spark.follow.state import StoredTables
from kafkalite.lab.spark.report.formatting import commands
from kafkalite.lab.spark.state.time_range import time_range
from kafkalite.lab.spark.tuning import single_task_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kafkalite.lab.spark.audits import AuditOptions
    from kafkalite.lab.spark.follow.state import BatchState
    from kafkalite.lab.spark.locations import Location
    from kafkalite.lab.spark.requests import Requests

MAX_CLASSIFICATION_DELAY_US: Final = 60_000_000
"""Time after which a commit is classified even if requests are still in flight."""
MEMBER_RETENTION_US: Final = 24 * 3_600_000_000
"""Time without requests after which a member is removed from the stored state."""


class IncrementalAudits:
    """The audits of a growing capture, with state in a folder."""

    def __init__(
        self,
        spark: SparkSession,
        out: Location,
        options: AuditOptions,
        *,
        max_delay_us: int = MAX_CLASSIFICATION_DELAY_US,
        member_retention_us: int = MEMBER_RETENTION_US,
    ) -> None:
        """Continue with the state in `out`, or start if there is none."""
        self._spark = spark
        self._tables = StoredTables(spark, out, (PROVEN_COMMITS, ENDS))
        self._limits = TimeLimits(options.session_timeout_ms, max_delay_us, member_retention_us)

    def audit_batch(
        self,
        requests: Requests,
        number: int,
        pending_us: Mapping[int, int] | None = None,
        *,
        is_last: bool = False,
    ) -> Findings:
        """Audit one batch; a repeated batch replaces its previous output.

        `pending_us` has, by API, the time of the oldest request without a response so far. With
        `is_last`, all remaining commits are classified. No state is stored then, so a later batch
        with the same number replaces this one.
        """
        state = self._tables.begin(number, are_few=requests.are_few)
        batch_range = time_range(requests).collect()[0]
        previous_batch = state.previous_batch
        if batch_range["first_us"] is None and not previous_batch.tables:
            return Findings()
        first_us = min(
            previous_batch.first_us, _value_or(batch_range["first_us"], previous_batch.first_us)
        )
        last_us = max(
            previous_batch.last_us, _value_or(batch_range["last_us"], previous_batch.last_us)
        )
        batch = Batch(state, self._limits, requests, first_us, last_us, pending_us or {})
        with self._small_query_settings(state, requests):
            findings = batch.run(is_last=is_last)
        if not is_last:
            state.end(first_us, last_us)
        return findings

    @contextmanager
    def _small_query_settings(self, state: BatchState, requests: Requests) -> Iterator[None]:
        """Use the settings for small queries in both sessions; a stream has its own session."""
        with ExitStack() as stack:
            for session in {self._spark, requests.spark} if state.is_small else ():
                stack.enter_context(single_task_settings(session))
            yield

    def classified(self) -> DataFrame:
        """Return all commits so far that were checked one by one, as `PROVEN_COMMITS`."""
        return self._tables.findings(PROVEN_COMMITS)

    def cases(self) -> DataFrame:
        """Return the commits so far that the fencing audit lists, as its cases."""
        return cases(self.classified())

    def totals(self) -> DataFrame:
        """Return each rule's totals so far, as the fencing audit's totals."""
        counted = self._tables.findings(COMMIT_COUNTS)
        is_plain = f.col("commit_kind") == BY_EPOCH
        return add_counted_commits(
            totals(self.classified(), self._tables.findings(ENDS)),
            counted.where(~is_plain),
            counted.where(is_plain),
        )

    def ghosts(self) -> DataFrame:
        """Return the ghosts so far, as `PROVEN_GHOSTS`."""
        return self._tables.findings(PROVEN_GHOSTS)


def _value_or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def finding_lines(findings: Findings) -> Iterator[str]:
    """Yield a batch's findings as lines of text, with commands that show their requests."""
    for row in findings.cases[:MAX_LISTED]:
        member = row["member_id"] or row["transactional_id"] or row["client"]
        rules = (
            f"strict {row['strict_decision']}, revocation-epoch {row['revocation_epoch_decision']},"
            f" assignment-epoch {row['assignment_epoch_decision']}"
        )
        yield (
            f"{row['at']:%Y-%m-%dT%H:%M:%S} commit: {row['classification']}: group"
            f" {row['group_id']}, member {member}, {row['topic']}-{row['partition']} at epoch"
            f" {row['commit_epoch']}, member epoch {_or_unknown(row['member_epoch'])}; {rules};"
            f" broker: {_or_unknown(row['broker_decision'])}"
        )
        yield from _command_lines(row)
    for row in findings.ghosts[:MAX_LISTED]:
        yield (
            f"{row['last_seen']:%Y-%m-%dT%H:%M:%S} ghost: {row['kind']}: group {row['group_id']},"
            f" member {row['member_id'] or '?'} of {row['client_id'] or row['client']},"
            f" {row['partitions_owned']} partitions for"
            f" {row['partition_seconds_owned']:.0f} seconds"
        )
        yield from _command_lines(row)
    for rows, table in ((findings.cases, CLASSIFIED.name), (findings.ghosts, GHOSTS.name)):
        if len(rows) > MAX_LISTED:
            yield f"more in table {table}"


def _command_lines(row: Mapping[str, Any]) -> Iterator[str]:
    for command in commands(row["proofs"]):
        yield f"  $ {command}"


def _or_unknown(value: object) -> object:
    return "unknown" if value is None else value
