"""Unit tests of the table schemas."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kafkalite.lab.columnar import tables
from kafkalite.protocol import codec


@pytest.mark.parametrize("api_key", codec.api_keys())
def test_request_tables_have_envelope_and_both_messages(api_key: int) -> None:
    columns = tables.requests(api_key)

    assert columns.names == [*tables.ENVELOPE.names, "request", "response"]


@pytest.mark.parametrize("table", [tables.FRAMES, tables.ENVELOPE])
def test_times_are_microseconds_in_utc(table: pa.Schema) -> None:
    assert table.field("ts").type == pa.timestamp("us", tz="UTC")
