"""Starts the Spark session with measured settings, and its Java process.

A user's `conf` overrides these settings. Modules that executors import must not import this one,
because workers never start a session.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from kafkalite.lab.spark import class_archive, memory, tuning
from kafkalite.lab.spark.jvm import java_home
from kafkalite.ports.cache import cache_directory
from kafkalite.ports.system import machine_bytes

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

    from kafkalite.lab.spark.progress import ProgressReporter

LOCAL: Final = "local[*]"

_ARROW_JAVA: Final = (
    "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
)
"""Arrow in Java checks bounds for each value, which is half the cost of reading. Spark checks for
null before it reads a value, and the data comes from our own workers."""

_FIRST_COMPILER: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""With the first JIT compiler only, short queries need half the processor time. Java would then
limit its code cache to a fifth, which is too small for the queries of all audits."""

_JAVA_OPTIONS: Final = "spark.driver.defaultJavaOptions"
_PYTHON: Final = "spark.pyspark.python"

_COMMON_SETTINGS: Final[Mapping[str, str]] = {
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
    # Saves a third of the overhead of a Python task.
    "spark.python.unix.domain.socket.enabled": "true",
    # Saves a tenth of the time to pass rows between Java and Python: batches have megabytes.
    "spark.buffer.size": "1048576",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    _JAVA_OPTIONS: _ARROW_JAVA,
    "spark.executor.defaultJavaOptions": _ARROW_JAVA,
    # Java would record the Python line of each column, in several calls per column: a third of the
    # time to build a query. Errors would name lines of our own code, which does not help users.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # The default is a type that other readers of Parquet take for nanoseconds.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # Stateful processors need this provider.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}

_LOCAL_MACHINE_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}

_LOCAL_TASK_SETTINGS: Final[Mapping[str, str]] = {
    # An error fails the query, and its exception has the reason in one line. The log would have a
    # page.
    "spark.log.level": "OFF",
    # Throughput matters here, pauses do not. Java ends instead of collecting garbage most of the
    # time.
    _JAVA_OPTIONS: (
        f"{_ARROW_JAVA} -XX:+UseParallelGC -XX:GCTimeLimit=90 -XX:GCHeapFreeLimit=5"
        " -XX:+ExitOnOutOfMemoryError"
    ),
    "spark.python.daemon.module": "kafkalite.lab.spark.daemon",
    # Java would keep the plans of a thousand queries, for a web page that is off.
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "1",
    "spark.sql.maxPlanStringLength": "1000",
}
"""For sessions whose tasks run on this machine, with the driver's Python and package."""

_SMALL_CAPTURE_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.memory": "1g",
    "spark.default.parallelism": "2",
    _JAVA_OPTIONS: (
        f"{_ARROW_JAVA} {_FIRST_COMPILER} -XX:+UseSerialGC -XX:-UsePerfData"
        " -XX:+ExitOnOutOfMemoryError"
    ),
}


def start(
    master: str = LOCAL,
    conf: Mapping[str, str] | None = None,
    *,
    app: str = "kafkalite",
    quick: bool = False,
    size: int | None = None,
    stores_classes: bool = False,
) -> SparkSession:
    """Start this process's session, or return the existing one; raises NoJavaError.

    `quick` is for tests and small captures: the start is faster, and long work is slower. `size` is
    the size of the input in bytes, if it is known. `stores_classes` means that `store_classes` will
    end Java, if there is no archive of its classes.
    """
    chosen = settings(master, conf or {}, quick=quick, size=size)
    if SparkSession.getActiveSession() is None:
        prepare(master, conf or {})
        if master.startswith("local") and _JAVA_OPTIONS not in (conf or {}):
            chosen[_JAVA_OPTIONS] += _archive_options(stores_classes=stores_classes)
        _start_java({"spark.master": master, "spark.app.name": app, **chosen})
    session = (
        SparkSession.builder.master(master).appName(app).config(map=dict(chosen)).getOrCreate()
    )
    _ignore_lost_connection(session)
    _print_no_query_contexts()
    return session


def _ignore_lost_connection(session: SparkSession) -> None:
    """Let Spark's server for the progress of tasks print no traceback when Java has ended.

    The call that waits for Java raises an error, too, which has the reason.
    """
    server = session.sparkContext._accumulatorServer  # noqa: SLF001 - no public way
    server.handle_error = lambda *_: None  # type: ignore[method-assign]


def _print_no_query_contexts() -> None:
    """Let PySpark not print each error of a query as JSON, which its exception has already."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _start_java(conf: Mapping[str, str]) -> None:
    """Start Java in its own process session; it ends when we close its standard input.

    Otherwise a signal to our process group would end Java before we can finish our work.
    """
    if SparkContext._gateway is None:  # noqa: SLF001 - no public way to pass process options
        settings_ = SparkConf().setAll(list(conf.items()))
        gateway = launch_gateway(settings_, {"start_new_session": True})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway, conf=settings_)  # noqa: SLF001


def _archive_options(*, stores_classes: bool) -> str:
    archive = class_archive.archive_path(os.environ)
    if archive is None:
        return ""
    if archive.exists():
        return f" {class_archive.use_options(archive)}"
    return f" {class_archive.store_options(archive)}" if stores_classes else ""


def store_classes(reporter: ProgressReporter) -> None:
    """End the Java of a stopped session, and store its classes for faster starts of other runs.

    Does nothing if they are stored already.
    """
    archive, java = class_archive.archive_path(os.environ), java_process()
    if archive is not None and java is not None and not archive.exists():
        reporter.step("storing Java's classes, with which Spark starts faster next time")
        class_archive.store(archive, java)


def java_process() -> subprocess.Popen[bytes] | None:
    """Return the Java process that `start` has started, running or not; None without one."""
    return getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - no public way


def settings(
    master: str, conf: Mapping[str, str], *, quick: bool = False, size: int | None = None
) -> dict[str, str]:
    """Return a session's configuration: our settings, overridden by `conf`."""
    return {
        **_COMMON_SETTINGS,
        **(_LOCAL_MACHINE_SETTINGS if is_local_machine(master) else {}),
        **(_local_task_settings(size) if master.startswith("local") else {}),
        **({**_SMALL_CAPTURE_SETTINGS, **tuning.settings(0)} if quick else {}),
        **conf,
    }


def _local_task_settings(size: int | None) -> dict[str, str]:
    heap = f"{memory.heap_mib(machine_bytes())}m"
    options = _LOCAL_TASK_SETTINGS[_JAVA_OPTIONS]
    if size is not None and size < tuning.FIRST_COMPILER_BYTES:
        options = f"{options} {_FIRST_COMPILER}"
    return {**_LOCAL_TASK_SETTINGS, "spark.driver.memory": heap, _JAVA_OPTIONS: options}


def is_local_machine(master: str) -> bool:
    """Whether all of Spark runs on this machine."""
    return master.startswith("local") or urlsplit(master).hostname in {"127.0.0.1", "localhost"}


def prepare(master: str, conf: Mapping[str, str]) -> None:
    """Set the environment for Spark's launcher; raises NoJavaError if there is no Java."""
    home = java_home(os.environ, cache_directory(os.environ))
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if _PYTHON in conf:
        # Spark reads this only from the environment if the driver is Python.
        os.environ["PYSPARK_PYTHON"] = conf[_PYTHON]
    if is_local_machine(master):
        # Otherwise workers use the first python3 on the PATH, which lacks our libraries.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
