"""The tables of captures are such as Spark takes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kafkalite.columnar import tables
from kafkalite.protocol import codec


@pytest.mark.parametrize("api_key", codec.api_keys())
def test_requests_carry_their_envelope_and_both_messages(api_key: int) -> None:
    columns = tables.requests(api_key)

    assert columns.names == [*tables.ENVELOPE.names, "request", "response"]


@pytest.mark.parametrize("table", [tables.FRAMES, tables.ENVELOPE])
def test_times_are_what_spark_keeps(table: pa.Schema) -> None:
    assert table.field("ts").type == pa.timestamp("us", tz="UTC")
