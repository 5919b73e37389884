"""Whether Spark itself can open what is named: asked before anything is read, not after.

Workers write tables by pyarrow, and Spark reads them by Hadoop's file systems; those of object
stores are jars that PySpark does not bring.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError

from kafkalite.spark.places import PlaceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkalite.spark.places import Place

_JARS: Final = {
    "s3a": "hadoop-aws",
    "gs": "hadoop-gcp",
    "abfs": "hadoop-azure",
    "abfss": "hadoop-azure",
}
"""Schemes of URLs, and which of Hadoop's jars opens them."""
_PATTERN: Final = re.compile(r"[*?{}\[\]\\]")


def reach_tables(spark: SparkSession, out: Place) -> None:
    """Make sure that Spark reads the tables that are written to `out`; PlaceError as of `reach`."""
    pattern = _PATTERN.search(out.url)
    if pattern is not None:
        raise PlaceError(
            f"{out.url}: Spark takes a name with {pattern[0]} for a pattern: have another --out"
        )
    reach(spark, out.url)


def reach(spark: SparkSession, url: str) -> None:
    """Make sure that Spark has a file system for `url`; PlaceError says what to do about it."""
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return  # Spark Connect: only the server knows
    jvm = context._jvm  # noqa: SLF001 - PySpark has no other way to ask
    hadoop = jvm.org.apache.hadoop
    try:
        hadoop.fs.Path(url).getFileSystem(context._jsc.hadoopConfiguration())  # noqa: SLF001
    except Py4JJavaError as error:
        scheme = url.partition(":")[0]
        jar = _JARS.get(scheme)
        if jar is None or "FileSystem" not in str(error.java_exception):
            why = str(error.java_exception).splitlines()[0]
            raise PlaceError(f"{url}: Spark cannot open it: {why}") from error
        version = hadoop.util.VersionInfo.getVersion()
        raise PlaceError(
            f"{url}: Spark lacks the jar that opens {scheme}: --conf"
            f" spark.jars.packages=org.apache.hadoop:{jar}:{version}"
        ) from error
