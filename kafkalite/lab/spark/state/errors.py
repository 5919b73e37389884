"""All error codes of all responses; the catalogue has their paths in each API's response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafkalite.capture.model import Direction
from kafkalite.lab.columnar.decoding.schema import message_type
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.dataframes import union
from kafkalite.lab.spark.state.tables import table
from kafkalite.protocol import codec
from kafkalite.protocol.catalogue import row
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests

ERRORS = table(
    "errors",
    "An error in a response, one row per occurrence",
    ("at", "timestamp", "time of the request"),
    ("client", "string", "the client: host:port"),
    ("client_id", "string", "the client id"),
    ("api", "string", "API of the request"),
    ("error", "smallint", "the error code; never 0"),
)

ERROR_NAMES: Final = {int(code): code.name for code in ErrorCode}
"""Names of error codes."""


def errors(requests: Requests) -> DataFrame:
    """Return the errors in all responses, as `ERRORS`."""
    tables = (
        _errors_of(requests, key) for key in requests.window.apis() if codes_sql(key) is not None
    )
    return union([ERRORS.empty(requests.spark), *tables])


def _errors_of(requests: Requests, key: int) -> DataFrame:
    codes = codes_sql(key)
    assert codes is not None
    return ERRORS.shape(
        requests.window.not_plain(key)
        .where("response_ts is not null")
        .select(
            f.col("ts").alias("at"),
            "client",
            "client_id",
            f.lit(codec.api_name(key)).alias("api"),
            f.expr(codes).alias("codes"),
        )
        # Filtered before exploding: most responses have no errors.
        .where("array_max(codes) != 0 or array_min(codes) != 0")
        .select("at", "client", "client_id", "api", f.explode("codes").alias("error"))
        .where("error != 0")
    )


def codes_sql(key: int) -> str | None:
    """Return SQL for an array of all error codes in an API's response; None if it has no fields.

    It consists of paths and functions that Spark compiles. With a lambda, Spark would interpret the
    whole query.
    """
    kind = message_type(key, Direction.RESPONSE)
    arrays = [_array_sql(kind, field_path.split(".")) for field_path in row(key).errors.split()]
    return f"concat({', '.join(arrays)})" if arrays else None


def _array_sql(kind: pa.DataType, names: Sequence[str]) -> str:
    """Return SQL for an array of the codes at a path; empty if the version lacks the field."""
    path, is_array = "response", False
    for name in names[:-1]:
        path, kind = f"{path}.{name}", kind.field(name).type
        if pa.types.is_list(kind):
            path, kind = f"flatten({path})" if is_array else path, kind.value_type
            is_array = True
    field = f"{path}.{names[-1]}"
    return f"coalesce({field if is_array else f'array({field})'}, {_EMPTY_ARRAY})"


_EMPTY_ARRAY: Final = "cast(array() as array<smallint>)"
