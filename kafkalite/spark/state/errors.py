"""Every error code of every answer, wherever it stands in it: found by the shape of the message."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kafkalite.capture.model import Direction
from kafkalite.columnar.schema import message_type
from kafkalite.protocol import codec
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.spark.requests import Requests

ERRORS = table(
    "errors",
    "An error that an answer tells, once for each time it is told",
    ("at", "timestamp", "when the request came"),
    ("client", "string", "who was told: host:port"),
    ("client_id", "string", "and by which name"),
    ("api", "string", "what it had asked"),
    ("error", "smallint", "the error's code; never 0"),
)

ERROR_NAMES: Final = {int(code): code.name for code in ErrorCode}
"""What each code is called."""


def errors(requests: Requests) -> DataFrame:
    """Return the errors that all answers tell, as `ERRORS`."""
    told = (_of(requests, key) for key in requests.apis() if codes_sql(key) is not None)
    return reduce(DataFrame.unionByName, told, ERRORS.empty(requests.spark))


def _of(requests: Requests, key: int) -> DataFrame:
    codes = codes_sql(key)
    assert codes is not None
    return ERRORS.shape(
        requests.of(key)
        .where("answered is not null")
        .select(
            f.col("ts").alias("at"),
            "client",
            "client_id",
            f.lit(codec.api_name(key)).alias("api"),
            f.expr(codes).alias("codes"),
        )
        # Nearly all answers tell none: they go before anything is taken apart.
        .where("array_max(codes) != 0 or array_min(codes) != 0")
        .select("at", "client", "client_id", "api", f.explode("codes").alias("error"))
        .where("error != 0")
    )


def codes_sql(key: int) -> str | None:
    """Return SQL for an array of all error codes in an API's answer; None where it has none.

    It is made of paths and functions that Spark compiles: a lambda would be interpreted, and all
    of its query with it.
    """
    arrays = list(_arrays(message_type(key, Direction.RESPONSE), "response", is_array=False))
    return f"concat({', '.join(arrays)})" if arrays else None


def _arrays(kind: pa.StructType, path: str, *, is_array: bool) -> Iterator[str]:
    """Return SQL for one array for each field of codes; empty where the version lacks it."""
    for field in kind:
        here = f"{path}.{field.name}"
        if field.name.endswith("error_code") and pa.types.is_integer(field.type):
            yield f"coalesce({here if is_array else f'array({here})'}, {_NONE})"
        elif pa.types.is_struct(field.type):
            yield from _arrays(field.type, here, is_array=is_array)
        elif pa.types.is_list(field.type) and pa.types.is_struct(field.type.value_type):
            inner = f"flatten({here})" if is_array else here
            yield from _arrays(field.type.value_type, inner, is_array=True)


_NONE: Final = "cast(array() as array<smallint>)"
