"""Offsets that only the rule before KIP-211 expires: by age, even while the group has members.

The table shows which offsets an upgrade to a broker with KIP-211 retains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.audits.contract import MAX_DURATION_MS
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.tables import table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RETAINED_OFFSETS = table(
    "retained_offsets",
    "A committed offset that expires by the rule before KIP-211, but later or never by KIP-211",
    ("group_id", "string", "the group"),
    ("topic", "string", "the topic's name; its id in hex if the capture has no name for it"),
    ("partition", "int", "the partition"),
    ("committed_offset", "bigint", "the offset"),
    ("committed_at", "timestamp", "time of the commit"),
    ("expired_at", "timestamp", "time at which it expires by the rule before KIP-211"),
    (
        "fetched_at",
        "timestamp",
        "time at which the group then fetched it, which would have rewound it; null for none",
    ),
    ("next_commit_at", "timestamp", "time of the next commit; null for none"),
    (
        "expires_at",
        "timestamp",
        "time at which it expires by KIP-211; null if the capture shows no reason for it",
    ),
    times=("expired_at", "fetched_at"),
)

_KEY: Final = ("group_id", "topic", "partition", "at_us")


def retention_us(retention_ms: int) -> str:
    """Return SQL for the retention of a commit: the client's if set, else the broker's.

    Clients send the largest number to retain offsets forever. In microseconds, it would not fit
    into 64 bits.
    """
    return f"least(if(retention_ms >= 0, retention_ms, {retention_ms}), {MAX_DURATION_MS}) * 1000"


def retained_offsets(
    expiry_candidates: DataFrame,
    expirations: DataFrame,
    fetched: DataFrame,
    capture_range: DataFrame,
    retention_ms: int,
) -> DataFrame:
    """Return the offsets that expire only by the rule before KIP-211, as `RETAINED_OFFSETS`."""
    expired = (
        expiry_candidates.withColumn("expired_us", f.expr(f"at_us + {retention_us(retention_ms)}"))
        .crossJoin(f.broadcast(capture_range))
        .where("expired_us <= least(coalesce(next_us, last_us), last_us)")
        .join(expirations.select(*_KEY, "due_us"), list(_KEY), "left")
        .where("due_us is null or due_us > expired_us")
    )
    fetches = fetched.select(
        *(f.col(name).alias(f"of_{name}") for name in _KEY[:3]), f.col("at_us").alias("fetched_us")
    )
    is_later = f.expr(
        "group_id = of_group_id and topic = of_topic and partition = of_partition"
        " and fetched_us >= expired_us and (next_us is null or fetched_us <= next_us)"
    )
    names = (*_KEY, "committed_offset", "expired_us", "next_us", "due_us")
    return RETAINED_OFFSETS.shape(
        expired.join(fetches, is_later, "left")
        .groupBy(*names)
        .agg(f.min("fetched_us").alias("fetched_us"))
        .withColumns(
            {
                "committed_at": f.timestamp_micros("at_us"),
                "expired_at": f.timestamp_micros("expired_us"),
                "fetched_at": f.timestamp_micros("fetched_us"),
                "next_commit_at": f.timestamp_micros("next_us"),
                "expires_at": f.timestamp_micros("due_us"),
            }
        )
    )
