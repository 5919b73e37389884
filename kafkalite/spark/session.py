"""How a Spark session of ours starts: the settings that measurements chose, and its Java.

Whatever a user's `conf` says outweighs what is said here. Nothing that an executor imports may
import this module: a worker never starts a session.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from kafkalite.ports.cache import cache_folder
from kafkalite.spark import sizing
from kafkalite.spark.jvm import java_home

if TYPE_CHECKING:
    from collections.abc import Mapping

LOCAL: Final = "local[*]"

_ARROW_JAVA: Final = (
    "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
)
"""Arrow in Java looks at its bounds for each value that is read: half of what reading costs. Spark
asks whether a value is there before it reads it, and what it reads comes from our own workers."""

_PYTHON: Final = "spark.pyspark.python"

_EVERYWHERE: Final[Mapping[str, str]] = {
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
    # A third of the time that a task in Python costs over and above its work.
    "spark.python.unix.domain.socket.enabled": "true",
    # A tenth of what it costs a worker to hand over rows: batches are of megabytes.
    "spark.buffer.size": "1048576",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.driver.defaultJavaOptions": _ARROW_JAVA,
    "spark.executor.defaultJavaOptions": _ARROW_JAVA,
    # Java is told where in Python each column is made, in several calls a column: a third of what
    # it costs to build a query, for a line in errors that says nothing to who runs ours.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # The default is a type that other readers of Parquet take for nanoseconds.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # Processors of streams with state keep it nowhere else.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}

_ON_THIS_MACHINE: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}

_IN_THIS_PROCESS: Final[Mapping[str, str]] = {
    # What fails here fails the query, whose exception says why: in a line, not in a page of Java.
    "spark.log.level": "OFF",
    # Nobody waits for an answer: pauses cost less than what makes them short.
    "spark.driver.defaultJavaOptions": f"{_ARROW_JAVA} -XX:+UseParallelGC",
    "spark.python.daemon.module": "kafkalite.spark.daemon",
}
"""Where all tasks run beside the driver, with the Python and the package that it has itself."""

_QUICK: Final[Mapping[str, str]] = {
    "spark.driver.memory": "1g",
    "spark.default.parallelism": "2",
    # Half the processor time where no query lives long enough for the second compiler. Without it
    # room for code is a fifth, which the queries of all audits outgrow: Java fails then.
    "spark.driver.defaultJavaOptions": (
        f"{_ARROW_JAVA} -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
        " -XX:+UseSerialGC -XX:-UsePerfData"
    ),
}


def start(
    master: str = LOCAL,
    conf: Mapping[str, str] | None = None,
    *,
    app: str = "kafkalite",
    quick: bool = False,
) -> SparkSession:
    """Start the session of this process, or return the one there is; NoJavaError.

    `quick` is for tests and small captures: it starts sooner, and long work takes longer.
    """
    chosen = settings(master, conf or {}, quick=quick)
    if SparkSession.getActiveSession() is None:
        prepare(master, conf or {})
        _start_java({"spark.master": master, "spark.app.name": app, **chosen})
    return SparkSession.builder.master(master).appName(app).config(map=dict(chosen)).getOrCreate()


def _start_java(conf: Mapping[str, str]) -> None:
    """Start Java in a session of its own; whose end is ours, for we hold its standard input.

    Else a signal to all of our process group would end it in the midst of what it was asked,
    before we can end what we are at.
    """
    if SparkContext._gateway is None:  # noqa: SLF001 - no public way chooses how it is started
        told = SparkConf().setAll(list(conf.items()))
        gateway = launch_gateway(told, {"start_new_session": True})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway, conf=told)  # noqa: SLF001


def settings(master: str, conf: Mapping[str, str], *, quick: bool = False) -> dict[str, str]:
    """Return the configuration of a session: ours, outweighed by `conf`."""
    return {
        **_EVERYWHERE,
        **(_ON_THIS_MACHINE if is_here(master) else {}),
        **(_IN_THIS_PROCESS if master.startswith("local") else {}),
        **({**_QUICK, **sizing.settings(0)} if quick else {}),
        **conf,
    }


def is_here(master: str) -> bool:
    """Whether all of Spark runs on this machine."""
    return master.startswith("local") or urlsplit(master).hostname in {"127.0.0.1", "localhost"}


def prepare(master: str, conf: Mapping[str, str]) -> None:
    """Set the environment that Spark's launcher reads; NoJavaError where there is no Java."""
    home = java_home(os.environ, cache_folder(os.environ))
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if _PYTHON in conf:
        # Spark asks for it in the environment alone, once a driver of Python runs.
        os.environ["PYSPARK_PYTHON"] = conf[_PYTHON]
    if is_here(master):
        # Else the workers are whatever python3 is first on the PATH, without our libraries.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
