"""Checks that Spark can open a location, made before anything is read.

Workers write tables with pyarrow; Spark reads them with Hadoop's file systems. Hadoop's file
systems for object stores need jars that PySpark does not include.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.locations import LocationError, location

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from kafkalite.lab.spark.locations import Location

_JARS: Final = {
    "s3a": "hadoop-aws",
    "gs": "hadoop-gcp",
    "abfs": "hadoop-azure",
    "abfss": "hadoop-azure",
}
"""URL scheme → artifact of Hadoop that contains the file system."""
_HAS_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_PATTERN: Final = re.compile(r"[*?{}\[\]\\]")


def check_paths_are_shared(master: str, urls: Iterable[str]) -> None:
    """Raise LocationError if executors on other machines would not see a path of this machine.

    A URL that begins with `file:` states that all machines have the path.
    """
    if master.startswith("local"):
        return
    from kafkalite.lab.spark.session import is_local_machine  # noqa: PLC0415 - with Spark only

    if is_local_machine(master):
        return
    for url in urls:
        if not _HAS_SCHEME.match(url):
            raise LocationError(
                f"{url}: a path of this machine, which executors of {master} cannot open; use the"
                f" URL of a store, or file://{location(url).path} if all nodes mount it there"
            )


def check_table_access(spark: SparkSession, out: Location) -> None:
    """Check that Spark can read tables in `out`; raises LocationError if it cannot."""
    pattern = _PATTERN.search(out.url)
    if pattern is not None:
        raise LocationError(
            f"{out.url}: Spark reads {pattern[0]} in a path as a pattern; choose another --out"
        )
    check_access(spark, out.url)


def check_access(spark: SparkSession, url: str) -> None:
    """Check that Spark has a file system for `url`; raises LocationError with the missing jar."""
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return  # with Spark Connect, only the server can check
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - with Spark only

    jvm = context._jvm  # noqa: SLF001 - PySpark has no public access
    hadoop = jvm.org.apache.hadoop
    try:
        hadoop.fs.Path(url).getFileSystem(context._jsc.hadoopConfiguration())  # noqa: SLF001
    except Py4JJavaError as error:
        scheme = url.partition(":")[0]
        jar = _JARS.get(scheme)
        if jar is None or "FileSystem" not in str(error.java_exception):
            reason = str(error.java_exception).splitlines()[0]
            raise LocationError(f"{url}: Spark cannot open it: {reason}") from error
        version = hadoop.util.VersionInfo.getVersion()
        raise LocationError(
            f"{url}: Spark lacks the jar for {scheme}; add --conf"
            f" spark.jars.packages=org.apache.hadoop:{jar}:{version}"
        ) from error
