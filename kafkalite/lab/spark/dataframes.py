"""The API of data frames in which the audits are written, of Spark or of the local engine.

Modules of the audits import `functions` and `Window` from here instead of PySpark. Inside of
`local_engine` they are those of `lab.spark.local`.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

__all__ = [
    "LocalEngineError",
    "Window",
    "ddl_schema",
    "empty_frame",
    "functions",
    "is_local",
    "local_engine",
    "shared",
    "to_schema",
    "union",
]

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession, Window, functions
    from pyspark.sql.types import StructType


class LocalEngineError(Exception):
    """The local engine failed, for example because of too little memory; the text is one line."""


_IS_LOCAL: ContextVar[bool] = ContextVar("is_local", default=False)


@contextmanager
def local_engine(
    memory_bytes: int | None = None, max_rows: int | None = None
) -> Iterator[SparkSession]:
    """Let data frames be computed in this process, without Spark, by the session returned.

    `memory_bytes` is a limit, beyond which it uses the disk. None stands for DuckDB's default of
    80 % of the machine. A query that reads more than `max_rows` rows of tables fails.
    """
    from kafkalite.lab.spark.local.session import LocalSession  # noqa: PLC0415 - needs DuckDB

    token = _IS_LOCAL.set(True)
    session: Any = LocalSession(memory_bytes, max_rows)
    try:
        yield session
    finally:
        _IS_LOCAL.reset(token)
        session.close()


def is_local(session: SparkSession) -> bool:
    """Whether this is the session of `local_engine`."""
    return not type(session).__module__.startswith("pyspark")


def union(frames: Iterable[DataFrame]) -> DataFrame:
    """Return the rows of all frames, which have the same columns."""
    return reduce(lambda left, right: left.unionByName(right), frames)


def shared(frame: DataFrame) -> DataFrame:
    """Return a table that several others use; the local engine computes it once, now.

    Spark would write it, or keep it in memory, which costs more than computing it again.
    """
    return frame.cache() if is_local(frame.sparkSession) else frame


def to_schema(schema: pa.Schema) -> StructType:
    """Return columns of Arrow as a schema of the engine."""
    if _IS_LOCAL.get():
        local: Any = schema
        return local  # type: ignore[no-any-return]
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - see above

    return from_arrow_schema(schema)


def ddl_schema(columns: Iterable[tuple[str, str, str]]) -> StructType:
    """Return a schema of the engine from names, types in Spark SQL, and comments."""
    if _IS_LOCAL.get():
        from kafkalite.lab.spark.local.data_types import parse_type  # noqa: PLC0415 - see above

        local: Any = pa.schema(
            [
                pa.field(name, parse_type(kind), metadata={"comment": about})
                for name, kind, about in columns
            ]
        )
        return local  # type: ignore[no-any-return]
    from pyspark.sql.types import StructType  # noqa: PLC0415 - see above

    texts = []
    for name, kind, about in columns:
        comment = about.replace("'", "\\'")
        texts.append(f"{name} {kind} COMMENT '{comment}'")
    schema = StructType.fromDDL(", ".join(texts))
    assert isinstance(schema, StructType)
    return schema


def empty_frame(session: SparkSession, schema: StructType) -> DataFrame | None:
    """Return a table of the local engine without rows; None for another engine."""
    if not is_local(session):
        return None
    local: Any = session
    return local.createDataFrame(schema.empty_table())  # type: ignore[attr-defined, no-any-return]


class _OfEngine:
    """The attributes of an object of the engine in use."""

    def __init__(self, spark: tuple[str, str], local: tuple[str, str]) -> None:
        self._spark = spark
        self._local = local

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any function
        module, owner = self._local if _IS_LOCAL.get() else self._spark
        target: Any = import_module(module)
        return getattr(getattr(target, owner) if owner else target, name)


if not TYPE_CHECKING:
    functions: Final = _OfEngine(
        ("pyspark.sql.functions", ""), ("kafkalite.lab.spark.local.functions", "")
    )
    Window: Final = _OfEngine(
        ("pyspark.sql", "Window"), ("kafkalite.lab.spark.local.expressions", "WINDOW")
    )
