"""Retention times of old clients, in the audit of offsets."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from kafkalite.lab.spark.audits.contract import MAX_DURATION_MS
from kafkalite.lab.spark.audits.retained_offsets import retention_us
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.dataframes import local_engine

NOW_US: Final = 1_700_000_000_000_000
WEEK_MS: Final = 7 * 24 * 3_600_000
EFFECTIVE_MS: Final = {
    -1: WEEK_MS,
    -(2**63): WEEK_MS,
    0: 0,
    5: 5,
    MAX_DURATION_MS + 1: MAX_DURATION_MS,
    2**63 // 1_000: MAX_DURATION_MS,
    2**63 - 1: MAX_DURATION_MS,
}
"""Retention time in a request → the retention time that counts."""


def test_any_retention_of_a_client_has_a_time_of_expiry() -> None:
    requested = pa.table({"retention_ms": pa.array(EFFECTIVE_MS, pa.int64())})
    with local_engine() as session:
        expires = f.expr(f"{NOW_US} + {retention_us(WEEK_MS)}").alias("expires_us")
        rows = session.createDataFrame(requested).select("retention_ms", expires).collect()
    assert {row.retention_ms: row.expires_us for row in rows} == {
        requested_ms: NOW_US + effective_ms * 1_000
        for requested_ms, effective_ms in EFFECTIVE_MS.items()
    }
