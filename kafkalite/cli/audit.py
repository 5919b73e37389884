"""`kafkalite audit`: write tables, audits and a report about captures.

Spark computes them, or for small captures DuckDB in this process.
The exit status is 0 if the report was written, also if some files could not be read; 1 if that
failed; 2 for invalid arguments, for an input without captures, and if Spark or Java is missing.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

from kafkalite.cli.argument_types import whole_number
from kafkalite.cli.broker_options import add_former_flag
from kafkalite.cli.output import FAILED_STATUS, USAGE_STATUS, exit_with_error
from kafkalite.cli.streams import open_closed_streams, try_print
from kafkalite.ports.extras import install_command
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.units import (
    MICROSECONDS_PER_MILLISECOND,
    MILLISECONDS_PER_SECOND,
    NANOSECONDS_PER_MILLISECOND,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from kafkalite.lab.columnar.options import Options
    from kafkalite.lab.spark.audits import AuditOptions
    from kafkalite.lab.spark.pipeline import Job, Outcome
    from kafkalite.lab.spark.progress import ConsoleReporter
    from kafkalite.lab.spark.requests import Requests

SIGNAL_STATUS_BASE = 128
"""Added to the number of a signal, this is the exit status, as in shells."""

MAX_LOCAL_BYTES: Final = 100_000_000
"""Below this size, the audits take less time than starting Spark."""

MAX_INTERPRETED_BYTES: Final = 1_000_000
"""Below this size, reading takes less time than loading what compiles the readers' loops."""

_AUTO, _LOCAL, _SPARK = "auto", "local", "spark"
_DEFAULT_PERIOD: Final = "1h"
_LOCAL_MASTER: Final = "local[*]"
_COMPRESSED: Final = (".gz", ".zst", ".xz", ".parquet")
_COMPRESSION_RATIO: Final = 8
_MIB: Final = 1 << 20
_MS_PER_DAY: Final = 86_400_000
_COUNT: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_TABLES_ONLY: Final = "requests"
_STDERR: Final = 2
_DISK_FULL_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Error numbers of a full disk. Like that of a large file, their text does not name the file."""


class AuditSetting(NamedTuple):
    """An option that sets a field of `spark.audits.AuditOptions`."""

    flag: str
    field: str
    default: str
    help: str
    former_flag: str | None = None


DURATIONS: Final = (
    AuditSetting(
        "--offset-retention",
        "retention_ms",
        "7d",
        "time after which brokers remove committed offsets",
    ),
    AuditSetting(
        "--session-timeout",
        "session_timeout_ms",
        "45s",
        "time after which brokers remove a member that sends no heartbeats",
    ),
    AuditSetting(
        "--transaction-timeout",
        "transaction_timeout_ms",
        "1m",
        "timeout of a transaction whose InitProducerId was not captured",
    ),
    AuditSetting(
        "--effect-window",
        "effect_window_ms",
        "1m",
        "time after a response with stale metadata within which an event counts as its effect",
        "--aftermath",
    ),
    AuditSetting(
        "--bucket",
        "bucket_ms",
        "10s",
        "maximum length of the intervals in tables and charts over time; a short capture is "
        "divided into at least 50 intervals",
    ),
)
COUNTS: Final = (
    AuditSetting(
        "--rebalance-storm-threshold",
        "rebalance_storm_threshold",
        "5",
        "number of rebalances within a minute that counts as a rebalance storm, unless restarts of "
        "clients explain them",
        "--storm",
    ),
)


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `audit`."""
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="capture file, directory or pattern, as a path or URL",
    )
    parser.add_argument(
        "--out", required=True, metavar="DIR", help="output directory for the tables and the report"
    )
    parser.add_argument(
        "--audits",
        metavar="NAME,NAME",
        help="audits to run; `requests` writes the tables only [all]",
    )
    add_former_flag(parser, "--jobs", "audits")
    parser.add_argument(
        "--follow",
        action="store_true",
        help="audit a growing capture until interrupted: `fencing` and `members` with each batch, "
        "and all audits by period",
    )
    parser.add_argument(
        "--period",
        metavar="DURATION",
        help="length of the periods of --follow; the tables of a period begin one period earlier "
        f"[{_DEFAULT_PERIOD}]",
    )
    _add_spark(parser)
    _add_selection(parser)
    _add_settings(parser)


def _add_spark(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        choices=(_AUTO, _LOCAL, _SPARK),
        default=_AUTO,
        help="what computes the tables: `local` needs no Java and is faster for small captures; "
        "`auto` is `local` for local files of less than 100 MB, if no option for Spark is given "
        "[auto]",
    )
    spark = parser.add_argument_group("Spark")
    spark.add_argument("--master", metavar="URL", help="master of Spark [local[*]]")
    spark.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="Spark configuration; repeatable",
    )
    spark.add_argument(
        "--read-with-spark",
        action="store_true",
        help="read the input with Hadoop's file systems and their credentials",
    )
    add_former_flag(parser, "--by-spark", "read_with_spark", {"action": "store_true"})
    spark.add_argument(
        "--task-mib",
        type=whole_number,
        default=128,
        metavar="N",
        help="MiB of input per task [128]",
    )


def _add_selection(parser: ArgumentParser) -> None:
    selection = parser.add_argument_group("selection of requests")
    selection.add_argument(
        "--from", dest="since", metavar="TIME", help="only requests from this time on"
    )
    selection.add_argument("--until", metavar="TIME", help="only requests before this time")
    selection.add_argument(
        "--client", metavar="GLOB", help="only requests of these clients, such as '10.0.0.*:*'"
    )
    selection.add_argument("--api", metavar="NAME,NAME", help="only requests of these APIs")
    selection.add_argument(
        "--keep-removed-inputs",
        action="store_true",
        help="keep the results of input files that were removed",
    )
    add_former_flag(parser, "--keep-vanished", "keep_removed_inputs", {"action": "store_true"})


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
        if setting.former_flag is not None:
            add_former_flag(parser, setting.former_flag, setting.field)


def run(arguments: Namespace) -> None:
    """Write the tables and the report; raises SystemExit if that fails."""
    open_closed_streams()
    try:
        # Imported here: a broker does not need them.
        from kafkalite.lab.spark.locations import LocationError  # noqa: PLC0415
        from kafkalite.lab.spark.pipeline import NothingToAuditError  # noqa: PLC0415

        outcome = _choose_engine(arguments)()
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        exit_with_error(USAGE_STATUS, f"audits need {missing}: {install_command('spark')}")
    except (NothingToAuditError, LocationError) as error:
        exit_with_error(USAGE_STATUS, str(error))
    except OSError as error:
        exit_with_error(FAILED_STATUS, system_failure_text(error, arguments.out))
    if outcome is not None:
        _print_outcome(outcome, _selection_text(arguments))


def _choose_engine(arguments: Namespace) -> Callable[[], Outcome | None]:
    """Return a function that runs the audits; the arguments and the names of files are valid."""
    master = arguments.master or _LOCAL_MASTER
    try:
        job, conf = _job(arguments), _spark_conf(arguments.conf)
        period_ms = _period_ms(arguments)
        _end_on_signal()
        # Invalid input is reported before output is written and before an engine starts.
        size = _input_size(job, master, is_following=arguments.follow)
        if _is_for_local_engine(arguments, job, size):
            return partial(_run_locally, job, size)
    except ValueError as error:
        exit_with_error(USAGE_STATUS, str(error))
    return partial(_run_with_spark, master, conf, job, size, period_ms)


def _is_for_local_engine(arguments: Namespace, job: Job, size: int | None) -> bool:
    """Whether the local engine runs the audits; raises ValueError if it was chosen but cannot."""
    if arguments.engine == _SPARK:
        return False
    reasons = [
        flag
        for flag, is_given in (
            ("--follow", arguments.follow),
            ("--master", arguments.master is not None),
            ("--conf", arguments.conf),
            ("--read-with-spark", arguments.read_with_spark),
        )
        if is_given
    ]
    remote = [url for url in (*job.inputs, job.out) if "://" in url and not url.startswith("file:")]
    if arguments.engine == _LOCAL and reasons:
        raise ValueError(f"{reasons[0]} needs Spark, so it cannot be combined with --engine local")
    if arguments.engine == _LOCAL and remote:
        raise ValueError(f"{remote[0]}: --engine local reads and writes files of this machine only")
    is_small = size is not None and size < MAX_LOCAL_BYTES
    return arguments.engine == _LOCAL or (is_small and not reasons and not remote)


def _run_locally(job: Job, size: int | None) -> Outcome:
    from kafkalite.lab.columnar.kernels import interpreted_kernels  # noqa: PLC0415 - as below
    from kafkalite.lab.spark.dataframes import LocalEngineError, local_engine  # noqa: PLC0415
    from kafkalite.lab.spark.pipeline import audit  # noqa: PLC0415
    from kafkalite.lab.spark.progress import ConsoleReporter  # noqa: PLC0415
    from kafkalite.ports.clock import AdjustableClock  # noqa: PLC0415 - see above

    try:
        is_tiny = size is not None and size < MAX_INTERPRETED_BYTES
        with local_engine() as session, interpreted_kernels() if is_tiny else nullcontext():
            return audit(session, job, ConsoleReporter(sys.stderr, AdjustableClock().now_ms))
    except LocalEngineError as error:
        exit_with_error(FAILED_STATUS, f"the local engine failed: {error}; try --engine spark")


def _run_with_spark(
    master: str, conf: Mapping[str, str], job: Job, size: int | None, period_ms: int | None
) -> Outcome | None:
    from py4j.protocol import Py4JError  # noqa: PLC0415 - see above
    from pyspark.errors import PySparkException  # noqa: PLC0415

    from kafkalite.lab.spark.jvm import NoJavaError  # noqa: PLC0415
    from kafkalite.ports.cache import cache_directory  # noqa: PLC0415

    try:
        return _run(master, conf, job, cache_directory(os.environ), size, period_ms)
    except NoJavaError as error:
        exit_with_error(USAGE_STATUS, str(error))
    except (PySparkException, Py4JError, OSError) as error:
        exit_with_error(FAILED_STATUS, _failure_text(error, job.out))


def _failure_text(error: Exception, out: str) -> str:
    """Return one line with the cause of a failure, and the option that helps if there is one."""
    from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415 - see above

    from kafkalite.lab.spark import failures  # noqa: PLC0415
    from kafkalite.lab.spark.session import java_process  # noqa: PLC0415

    is_unreachable = isinstance(error, (Py4JError, ConnectionError)) and not isinstance(
        error, Py4JJavaError
    )
    status = failures.java_exit_status(java_process(), is_unreachable=is_unreachable)
    if status is not None:
        return f"Spark failed: {failures.java_ended(status)}"
    if isinstance(error, OSError):
        return system_failure_text(error, out, failures.DISK_FULL)
    return f"Spark failed: {failures.known_failure(str(error)) or _root_cause(error)}"


def system_failure_text(error: OSError, out: str, disk_full: str | None = None) -> str:
    """Return one line with the cause of a failed system call, by default of the local engine."""
    from kafkalite.lab.spark import failures  # noqa: PLC0415 - see above

    if error.errno == errno.EFBIG:
        return f"{out}: {failures.FILE_TOO_LARGE}"
    return (
        f"{out}: {disk_full or failures.LOCAL_DISK_FULL}"
        if error.errno in _DISK_FULL_ERRORS
        else str(error)
    )


def _run(  # noqa: PLR0917 - called once
    master: str,
    conf: Mapping[str, str],
    job: Job,
    cache: Path,
    size: int | None,
    period_ms: int | None,
) -> Outcome | None:
    """Run a job; follow its input if `period_ms` has the length of periods."""
    from kafkalite.lab.spark.jvm_output import filtered_stderr  # noqa: PLC0415
    from kafkalite.lab.spark.locations import location  # noqa: PLC0415
    from kafkalite.lab.spark.output_journal import locked  # noqa: PLC0415
    from kafkalite.lab.spark.pipeline import audit  # noqa: PLC0415
    from kafkalite.lab.spark.progress import ConsoleReporter  # noqa: PLC0415
    from kafkalite.lab.spark.session import start, store_classes  # noqa: PLC0415
    from kafkalite.lab.spark.shipping import ship  # noqa: PLC0415
    from kafkalite.lab.spark.tuning import SMALL_BYTES  # noqa: PLC0415
    from kafkalite.ports.clock import AdjustableClock  # noqa: PLC0415 - see above

    is_local = master.startswith("local")
    is_small = is_local and size is not None and size < SMALL_BYTES
    # Storing classes takes about as long as Spark needs for this size.
    is_large = size is not None and size >= MAX_LOCAL_BYTES
    stores_classes = is_local and is_large and period_ms is None
    with locked(location(job.out)):
        pass
    console = ConsoleReporter(sys.stderr, AdjustableClock().now_ms)
    with filtered_stderr(sys.stderr) as stderr:
        _end_on_signal(stderr)
        session = start(master, conf, quick=is_small, size=size, stores_classes=stores_classes)
    _end_on_signal()  # Spark has replaced the handler
    try:
        if not master.startswith("local"):
            ship(session, cache)
        if period_ms is not None:
            _follow(session, job, console, period_ms)
            return None
        outcome = audit(session, job, console)
    finally:
        _stop(session)
    if stores_classes:
        store_classes(console)
    return outcome


def _stop(session: SparkSession) -> None:
    """Stop a session; its errors must not hide the error that ended the run."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - see above

    with suppress(Py4JError, OSError):
        session.stop()


def _input_size(job: Job, master: str, *, is_following: bool) -> int | None:
    """Return the size of the input in bytes; None if only Spark can list it.

    A compressed file counts as several times its size. Requests whose input files may be gone count
    as well.

    Raises an error if a name of it cannot be read.
    """
    from kafkalite.lab.spark.access_checks import check_paths_are_shared  # noqa: PLC0415
    from kafkalite.lab.spark.inputs import check_output_folder  # noqa: PLC0415 - see above
    from kafkalite.lab.spark.locations import find, location  # noqa: PLC0415
    from kafkalite.lab.spark.pipeline import NothingToAuditError  # noqa: PLC0415
    from kafkalite.lab.spark.requests import REQUESTS  # noqa: PLC0415

    out = location(job.out)
    check_paths_are_shared(master, (*job.inputs, job.out))
    check_output_folder(job.inputs, out)
    if job.read_with_spark:
        return None
    files = find(job.inputs, out)
    if not files and not (is_following or job.keep_removed_inputs):
        raise NothingToAuditError(f"{' '.join(job.inputs)}: no files found")
    if job.keep_removed_inputs:
        files += find([requests.url]) if (requests := out / REQUESTS).has_files() else []
    return sum(
        each.size * (_COMPRESSION_RATIO if each.url.endswith(_COMPRESSED) else 1) for each in files
    )


def _follow(session: SparkSession, job: Job, console: ConsoleReporter, period_ms: int) -> None:
    from kafkalite.lab.spark.audits import STATES  # noqa: PLC0415
    from kafkalite.lab.spark.follow.audits import IncrementalAudits, finding_lines  # noqa: PLC0415
    from kafkalite.lab.spark.follow.periods import PeriodAudits  # noqa: PLC0415
    from kafkalite.lab.spark.follow.stream import FollowedCapture, follow  # noqa: PLC0415
    from kafkalite.lab.spark.locations import location  # noqa: PLC0415
    from kafkalite.ports.clock import AdjustableClock  # noqa: PLC0415 - see above

    def derive(requests: Requests, name: str) -> DataFrame:
        return STATES[name].compute(requests, job.audit_options).cache()

    out = location(job.out) / "follow"
    audits = IncrementalAudits(session, out, job.audit_options)
    signals: list[int] = []

    def stop(number: int, _: object) -> None:
        signals.append(number)
        console.step("stopping; the next run continues; a second signal stops at once")
        _end_on_signal()

    def audit_batch(
        requests: Requests,
        number: int,
        pending_us: Mapping[int, int],
        is_last: bool,  # noqa: FBT001
    ) -> None:
        findings = audits.audit_batch(requests, number, pending_us, is_last=is_last)
        for line in finding_lines(findings):
            try_print(f"{line}\n")

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, stop)
    now_ms = AdjustableClock().now_ms
    periods = PeriodAudits(
        session, out, job.audit_options, console, now_ms, period_ms * MICROSECONDS_PER_MILLISECOND
    )
    capture = FollowedCapture(
        inputs=job.inputs,
        out=out,
        options=job.options,
        derive=derive,
        reporter=console,
        periods=periods,
    )
    follow(session, capture, audit_batch, should_stop=lambda: bool(signals))
    _end_on_signal()


def _end_on_signal(stderr: int = _STDERR) -> None:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, partial(_interrupted, stderr))


def _interrupted(stderr: int, number: int, _: object) -> NoReturn:
    """End the process: uncommitted output is discarded, and the JVM ends with the process.

    Spark's own handler would cancel jobs, which may interrupt another call to the JVM.
    """
    os.write(stderr, b"kafkalite: interrupted\n")
    os._exit(SIGNAL_STATUS_BASE + number)


def _selection_text(arguments: Namespace) -> str:
    """Return the options that select requests, as they were given."""
    values = {
        "--from": arguments.since,
        "--until": arguments.until,
        "--client": arguments.client,
        "--api": arguments.api,
    }
    return " ".join(f"{flag} {value}" for flag, value in values.items() if value is not None)


def _print_outcome(outcome: Outcome, selection: str) -> None:
    from kafkalite.lab.spark.progress import size_text  # noqa: PLC0415 - see above

    earlier_count = outcome.files - outcome.files_read
    earlier_text = f" ({earlier_count:,} were read by earlier runs)" if earlier_count else ""
    try_print(f"files: {outcome.files_read:,}, {size_text(outcome.bytes_read)}{earlier_text}\n")
    try_print(f"requests: {outcome.requests:,}\n")
    if selection and not outcome.requests:
        try_print(f"no request matches {selection}\n")
    if outcome.quarantined:
        try_print(f"not read completely: {_names_text(outcome.quarantined)}; see problems\n")
    if outcome.skipped:
        try_print(f"skipped, because they are no captures: {_names_text(outcome.skipped)}\n")
    if outcome.report is not None:
        try_print(f"report: {outcome.report}\n")


def _names_text(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1:,} more"


def _job(arguments: Namespace) -> Job:
    """Return the job that the options define; raises ValueError for invalid values."""
    from kafkalite.lab.spark.audits import AUDITS  # noqa: PLC0415 - see above
    from kafkalite.lab.spark.pipeline import Job  # noqa: PLC0415

    _check_not_empty(arguments)
    if arguments.follow and arguments.audits is not None:
        raise ValueError("--audits cannot be combined with --follow, which runs all audits")
    audits = tuple(AUDITS) if arguments.audits is None else tuple(_split_names(arguments.audits))
    if audits == (_TABLES_ONLY,):
        audits = ()
    elif _TABLES_ONLY in audits:
        raise ValueError(f"--audits: {_TABLES_ONLY!r} stands for no audit, so write it alone")
    for name in audits:
        if name not in AUDITS:
            known_names = ", ".join([*AUDITS, _TABLES_ONLY])
            raise ValueError(f"--audits: unknown audit {name!r}; the audits are {known_names}")
    if arguments.task_mib < 1:
        raise ValueError("--task-mib must be at least 1")
    return Job(
        inputs=tuple(arguments.inputs),
        out=arguments.out,
        options=_options(arguments),
        audits=audits,
        audit_options=_audit_options(arguments),
        keep_removed_inputs=arguments.keep_removed_inputs,
        read_with_spark=arguments.read_with_spark,
        split_bytes=arguments.task_mib * _MIB,
    )


def _check_not_empty(arguments: Namespace) -> None:
    """Raise ValueError for an empty value, such as that of a variable of a shell that is not set.

    An empty path would be the current directory, and an empty selection would match nothing.
    """
    values = {
        "INPUT": arguments.inputs,
        "--out": [arguments.out],
        "--client": [arguments.client],
    }
    lists = {"--api": arguments.api, "--audits": arguments.audits}
    empty = [name for name, given in values.items() if "" in given]
    empty += [name for name, text in lists.items() if text is not None and not _split_names(text)]
    if empty:
        raise ValueError(f"{empty[0]} is empty: is a variable of the shell not set?")


def _period_ms(arguments: Namespace) -> int | None:
    """Return the length of periods; None if the input is not followed."""
    if not arguments.follow:
        if arguments.period is not None:
            raise ValueError("--period needs --follow")
        return None
    period_ms = _duration_option("--period", arguments.period or _DEFAULT_PERIOD)
    if period_ms < MILLISECONDS_PER_SECOND or period_ms % MILLISECONDS_PER_SECOND:
        raise ValueError("--period must be a whole number of seconds, at least 1s")
    return period_ms


def _options(arguments: Namespace) -> Options:
    from kafkalite.lab.columnar.options import Options  # noqa: PLC0415
    from kafkalite.lab.spark.requests import api_key  # noqa: PLC0415
    from kafkalite.protocol.api_names import unknown_name_message  # noqa: PLC0415 - see above

    try:
        keys = (
            None if arguments.api is None else frozenset(map(api_key, _split_names(arguments.api)))
        )
    except KeyError as error:
        raise ValueError(f"--api: {unknown_name_message(error.args[0])}") from error
    return Options(
        api_keys=keys,
        from_ns=_instant_ns("--from", arguments.since),
        until_ns=_instant_ns("--until", arguments.until),
        clients=arguments.client,
    )


def _instant_ns(flag: str, text: str | None) -> int | None:
    from kafkalite.ports.times import instant_ms  # noqa: PLC0415 - see above

    return (
        None
        if text is None
        else _parse_option(flag, text, instant_ms) * NANOSECONDS_PER_MILLISECOND
    )


def _audit_options(arguments: Namespace) -> AuditOptions:
    from kafkalite.lab.spark.audits import AuditOptions  # noqa: PLC0415 - see above

    given = {
        setting.field: read(setting.flag, getattr(arguments, setting.field))
        for settings, read in ((DURATIONS, _duration_option), (COUNTS, _count_option))
        for setting in settings
    }
    for setting in (*DURATIONS, *COUNTS):
        if given[setting.field] < 1:
            raise ValueError(f"{setting.flag} must be greater than 0")
    return AuditOptions(**given)


def _duration_option(flag: str, text: str) -> int:
    from kafkalite.lab.spark.audits.contract import MAX_DURATION_MS  # noqa: PLC0415
    from kafkalite.ports.times import duration_ms  # noqa: PLC0415 - see above

    value = _parse_option(flag, text, duration_ms)
    if value > MAX_DURATION_MS:
        raise ValueError(f"{flag} must be at most {MAX_DURATION_MS // _MS_PER_DAY}d")
    return value


def _count_option(flag: str, text: str) -> int:
    if not _COUNT.fullmatch(text):
        raise ValueError(f"{flag}: {text[:40]!r} is not a whole number of at most 9 digits")
    return int(text)


def _parse_option(flag: str, text: str, read: Callable[[str], int]) -> int:
    try:
        return read(text)
    except ValueError as error:
        raise ValueError(f"{flag}: {error}") from error


def _spark_conf(settings: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"--conf {text!r}: write KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


def _split_names(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _root_cause(error: Exception) -> str:
    """Return the root cause of an error of Spark as one line."""
    text = _STREAM_PREFIX.sub("", str(error))
    error_lines = [match[1] for match in _PYTHON_TRACEBACK.finditer(text)]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = error_lines or [line for line in lines if line.startswith("Caused by:")]
    return (causes or lines or [type(error).__name__])[-1 if causes else 0]


_STREAM_PREFIX: Final = re.compile(r"\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: ")
_PYTHON_TRACEBACK: Final = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n)*(?:\w+\.)*(\w.*)"
)
"""A traceback of a Python worker; its last line is the error."""
