"""`kafkalite audit`: captures to tables, audits and a report, by Spark, here or on a cluster.

Exit status 0 when the report is made, also where some files could not be read; 1 when Spark
failed; 2 for bad use, for an input without captures, and where Spark or Java is missing.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from kafkalite.cli.ending import FAILED_STATUS, USAGE_STATUS, end
from kafkalite.cli.streams import open_closed_streams, say

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from kafkalite.columnar.options import Options
    from kafkalite.spark.audits import AuditOptions
    from kafkalite.spark.pipeline import Job, Outcome
    from kafkalite.spark.requests import Requests
    from kafkalite.spark.telling import Console

SIGNALLED_STATUS = 128

_MB: Final = 1_000_000
_MIB: Final = 1 << 20
_NS_PER_MS: Final = 1_000_000
_ONLY_REQUESTS: Final = "requests"
_STDERR: Final = 2
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What is wrong with where we write: such an error names no file of its own."""


class AuditSetting(NamedTuple):
    """An option that sets a field of `spark.audits.AuditOptions`."""

    flag: str
    field: str
    default: str
    help: str


DURATIONS: Final = (
    AuditSetting("--offset-retention", "retention_ms", "7d", "how long brokers keep offsets"),
    AuditSetting(
        "--session-timeout",
        "session_timeout_ms",
        "45s",
        "after how long brokers put out a silent member",
    ),
    AuditSetting(
        "--transaction-timeout",
        "transaction_timeout_ms",
        "1m",
        "how long a transaction may stay open whose InitProducerId was not captured",
    ),
    AuditSetting(
        "--aftermath",
        "aftermath_ms",
        "1m",
        "for how long what follows a stale answer is taken for its consequence",
    ),
    AuditSetting("--bucket", "bucket_ms", "10s", "the grain of what is told over time"),
)
COUNTS: Final = (
    AuditSetting(
        "--storm", "storm_rebalances", "5", "how many rebalances within a minute are a storm"
    ),
)


def add_audit(parser: ArgumentParser) -> None:
    """Let `parser` take what to audit, how, and where to put it."""
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="a capture, a folder of them or a pattern, by path or URL",
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="where tables and report go")
    parser.add_argument(
        "--jobs",
        metavar="NAME,NAME",
        help="the audits to make [all]; `requests` makes none, only the tables",
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="go on with the fencing and members audits as the capture grows, until interrupted",
    )
    _add_spark(parser)
    _add_chosen(parser)
    _add_settings(parser)


def _add_spark(parser: ArgumentParser) -> None:
    spark = parser.add_argument_group("Spark")
    spark.add_argument(
        "--master", default="local[*]", metavar="URL", help="where Spark runs [local[*]]"
    )
    spark.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of Spark's, by repetition several",
    )
    spark.add_argument(
        "--by-spark",
        action="store_true",
        help="let Spark read the input, by Hadoop's file systems and with their credentials",
    )
    spark.add_argument(
        "--task-mib", type=int, default=128, metavar="N", help="how much a task reads [128]"
    )


def _add_chosen(parser: ArgumentParser) -> None:
    chosen = parser.add_argument_group("what is read")
    chosen.add_argument("--from", dest="since", metavar="TIME", help="requests from this time on")
    chosen.add_argument("--until", metavar="TIME", help="requests before this time")
    chosen.add_argument("--client", metavar="GLOB", help="requests of clients, as '10.0.0.*:*'")
    chosen.add_argument("--api", metavar="NAME,NAME", help="requests of these APIs alone")
    chosen.add_argument(
        "--keep-vanished",
        action="store_true",
        help="keep what files gave that are no longer there",
    )


def _add_settings(parser: ArgumentParser) -> None:
    audits = parser.add_argument_group("audits")
    for setting in (*DURATIONS, *COUNTS):
        audits.add_argument(
            setting.flag,
            dest=setting.field,
            default=setting.default,
            metavar="DURATION" if setting in DURATIONS else "N",
            help=f"{setting.help} [{setting.default}]",
        )


def audit(asked: Namespace) -> None:
    """Make the tables and the report that are `asked` for; SystemExit."""
    open_closed_streams()
    try:
        # Imported here, for a broker needs none of it.
        from kafkalite.ports.cache import cache_folder  # noqa: PLC0415
        from kafkalite.spark.jvm import NoJavaError  # noqa: PLC0415
        from kafkalite.spark.pipeline import NothingToAuditError  # noqa: PLC0415
        from kafkalite.spark.places import PlaceError  # noqa: PLC0415
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        end(USAGE_STATUS, f"audits need {missing}: in kafkalite's clone, pip install '.[spark]'")
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        job, conf = _job(asked), _conf(asked.conf)
    except ValueError as error:
        end(USAGE_STATUS, str(error))
    try:
        outcome = _run(asked.master, conf, job, cache_folder(os.environ), asked.follow)
    except (NoJavaError, NothingToAuditError, PlaceError) as error:
        end(USAGE_STATUS, str(error))
    except (PySparkException, Py4JError) as error:
        end(FAILED_STATUS, f"Spark failed: {_reason(error)}")
    except OSError as error:
        end(FAILED_STATUS, f"{asked.out}: {error}" if error.errno in _FULL else str(error))
    if outcome is not None:
        _tell(outcome)


def _run(
    master: str,
    conf: Mapping[str, str],
    job: Job,
    cache: Path,
    is_followed: bool,  # noqa: FBT001
) -> Outcome | None:
    from kafkalite.ports.clock import DrivenClock  # noqa: PLC0415 - see above
    from kafkalite.spark.journal import alone  # noqa: PLC0415
    from kafkalite.spark.pipeline import audit as run  # noqa: PLC0415
    from kafkalite.spark.places import place  # noqa: PLC0415
    from kafkalite.spark.quiet import quietly  # noqa: PLC0415
    from kafkalite.spark.session import start  # noqa: PLC0415
    from kafkalite.spark.shipping import ship  # noqa: PLC0415
    from kafkalite.spark.telling import Console  # noqa: PLC0415

    _end_at_once_when_told()
    # What cannot be is told before anything is made, and before Spark is started.
    is_quick = _is_quick(master, job, is_followed=is_followed)
    with alone(place(job.out)):
        pass
    console = Console(sys.stderr, DrivenClock().now_ms)
    with quietly(sys.stderr) as stderr:
        _end_at_once_when_told(stderr)
        session = start(master, conf, quick=is_quick)
    _end_at_once_when_told()  # Spark has set a handler of its own
    try:
        if not master.startswith("local"):
            ship(session, cache)
        if is_followed:
            _follow(session, job, console)
            return None
        return run(session, job, console)
    finally:
        session.stop()


def _is_quick(master: str, job: Job, *, is_followed: bool) -> bool:
    """Whether work is over before a slow start is of use; raises for names that cannot be read."""
    from kafkalite.spark.inputs import keep_apart  # noqa: PLC0415 - see above
    from kafkalite.spark.pipeline import NothingToAuditError  # noqa: PLC0415
    from kafkalite.spark.places import find, place  # noqa: PLC0415
    from kafkalite.spark.sizing import SMALL_BYTES  # noqa: PLC0415

    out = place(job.out)
    keep_apart(job.inputs, out)
    if job.by_spark:
        return False
    files = find(job.inputs, out)
    if not files and not (is_followed or job.keep_vanished):
        raise NothingToAuditError(f"{' '.join(job.inputs)}: there are no files")
    return master.startswith("local") and sum(each.size for each in files) < SMALL_BYTES


def _follow(session: SparkSession, job: Job, console: Console) -> None:
    from kafkalite.spark.audits import STATES  # noqa: PLC0415 - see above
    from kafkalite.spark.follow import Follower, told_of  # noqa: PLC0415
    from kafkalite.spark.following import Subject, follow  # noqa: PLC0415
    from kafkalite.spark.places import place  # noqa: PLC0415

    def derive(requests: Requests, name: str) -> DataFrame:
        return STATES[name](requests, job.audit_options).cache()

    out = place(job.out) / "follow"
    follower = Follower(session, out, job.audit_options)
    told: list[int] = []

    def stop(number: int, _: object) -> None:
        told.append(number)
        console.step("stopping when this batch is done; once more ends it at once")
        _end_at_once_when_told()

    def absorb(
        requests: Requests,
        number: int,
        pending_us: Mapping[int, int],
        is_last: bool,  # noqa: FBT001
    ) -> None:
        news = follower.absorb(requests, number, pending_us, is_last=is_last)
        for line in told_of(news):
            say(f"{line}\n")

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, stop)
    subject = Subject(inputs=job.inputs, out=out, options=job.options, derive=derive, tell=console)
    follow(session, subject, absorb, told_to_stop=lambda: bool(told))
    _end_at_once_when_told()
    for row in follower.totals().where("commits > 0").collect():
        say(" ".join(f"{name}={value}" for name, value in row.asDict().items()) + "\n")


def _end_at_once_when_told(stderr: int = _STDERR) -> None:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, partial(_interrupted, stderr))


def _interrupted(stderr: int, number: int, _: object) -> NoReturn:
    """End at once: what a run has not committed is nothing, and Java ends when we do.

    Spark's own handler asks Java to cancel jobs, in the midst of whatever is being asked just then.
    """
    os.write(stderr, b"kafkalite: interrupted\n")
    os._exit(SIGNALLED_STATUS + number)


def _tell(outcome: Outcome) -> None:
    before = outcome.files - outcome.read
    known = f" ({before:,} were read before)" if before else ""
    say(f"files: {outcome.read:,}, {outcome.size / _MB:,.1f} MB{known}\n")
    say(f"requests: {outcome.requests:,}\n")
    if outcome.quarantined:
        more = len(outcome.quarantined) - 1
        others = f" and {more:,} more" if more else ""
        say(f"not read, or not to the end: {outcome.quarantined[0]}{others}; see problems\n")
    if outcome.report is not None:
        say(f"report: {outcome.report}\n")


def _job(asked: Namespace) -> Job:
    """Return what is asked for; ValueError when it cannot be understood."""
    from kafkalite.spark.audits import AUDITS  # noqa: PLC0415 - see above
    from kafkalite.spark.pipeline import Job  # noqa: PLC0415

    if asked.follow and asked.jobs is not None:
        raise ValueError("--jobs is of no use with --follow, which makes fencing and members")
    audits = tuple(AUDITS) if asked.jobs is None else tuple(_words(asked.jobs))
    if audits == (_ONLY_REQUESTS,):
        audits = ()
    for name in audits:
        if name not in AUDITS:
            known = ", ".join([*AUDITS, _ONLY_REQUESTS])
            raise ValueError(f"--jobs: there is no {name!r}: name some of {known}")
    if asked.task_mib < 1:
        raise ValueError("--task-mib must be 1 at least")
    return Job(
        inputs=tuple(asked.inputs),
        out=asked.out,
        options=_options(asked),
        audits=audits,
        audit_options=_audit_options(asked),
        keep_vanished=asked.keep_vanished,
        by_spark=asked.by_spark,
        lot_bytes=asked.task_mib * _MIB,
    )


def _options(asked: Namespace) -> Options:
    from kafkalite.columnar.options import Options  # noqa: PLC0415 - see above
    from kafkalite.spark.requests import api_key  # noqa: PLC0415

    try:
        keys = None if asked.api is None else frozenset(map(api_key, _words(asked.api)))
    except KeyError as error:
        raise ValueError(f"--api: Kafka has none called {error}") from error
    return Options(
        api_keys=keys,
        from_ns=_instant_ns("--from", asked.since),
        until_ns=_instant_ns("--until", asked.until),
        clients=asked.client,
    )


def _instant_ns(flag: str, text: str | None) -> int | None:
    from kafkalite.control.times import instant_ms  # noqa: PLC0415 - see above

    return None if text is None else _flagged(flag, text, instant_ms) * _NS_PER_MS


def _audit_options(asked: Namespace) -> AuditOptions:
    from kafkalite.control.times import duration_ms  # noqa: PLC0415 - see above
    from kafkalite.spark.audits import AuditOptions  # noqa: PLC0415

    given = {
        setting.field: _flagged(setting.flag, getattr(asked, setting.field), read)
        for settings, read in ((DURATIONS, duration_ms), (COUNTS, int))
        for setting in settings
    }
    for setting in (*DURATIONS, *COUNTS):
        if given[setting.field] < 1:
            raise ValueError(f"{setting.flag} must be more than nothing")
    return AuditOptions(**given)


def _flagged(flag: str, text: str, read: Callable[[str], int]) -> int:
    try:
        return read(text)
    except ValueError as error:
        raise ValueError(f"{flag}: {error}") from error


def _conf(settings: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"--conf {text!r}: write KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _reason(error: Exception) -> str:
    """Return what went wrong in one line: of an exception's long way, what was at its beginning."""
    text = _ON_ITS_WAY.sub("", str(error))
    raised = [match[1] for match in _RAISED.finditer(text)]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = raised or [line for line in lines if line.startswith("Caused by:")]
    return (causes or lines or [type(error).__name__])[-1 if causes else 0]


_ON_ITS_WAY: Final = re.compile(r"\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: ")
_RAISED: Final = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)*(?:\w+\.)*(\w.*)")
"""What a worker's Python says of an exception: its last line is the one that says what it was."""
