"""Offsets that brokers before KIP-211 took away, and later ones do not: members or not, by age.

Whoever thinks of such a broker, or wonders what the newer rule is worth, reads it here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SPARED = table(
    "offsets_spared",
    "A committed offset that the rule before KIP-211 takes away, and today's later or not at all",
    ("group_id", "string", "the group"),
    ("topic", "string", "the topic's name, or its id in hex where the capture never names it"),
    ("partition", "int", "the partition"),
    ("committed_offset", "bigint", "the offset"),
    ("committed_at", "timestamp", "when it was committed"),
    ("expired_at", "timestamp", "when the retention was over, counted from then"),
    ("asked_at", "timestamp", "when the group asked for it after that: it had rewound; or null"),
    ("committed_again_at", "timestamp", "when it was next committed; null for never"),
    ("expires_at", "timestamp", "when the rule of KIP-211 takes it; null for not as far as seen"),
)

_KEY: Final = ("group_id", "topic", "partition", "at_us")


def retention_us(retention_ms: int) -> str:
    """Return SQL for how long a commit is kept: as its client says, else as the broker does."""
    return f"if(retention_ms >= 0, retention_ms, {retention_ms}) * 1000"


def spared(
    lasting: DataFrame,
    dues: DataFrame,
    asked: DataFrame,
    extent_: DataFrame,
    retention_ms: int,
) -> DataFrame:
    """Return what only the rule before KIP-211 takes away, as `SPARED`."""
    gone = (
        lasting.withColumn("gone_us", f.expr(f"at_us + {retention_us(retention_ms)}"))
        .crossJoin(f.broadcast(extent_))
        .where("gone_us <= least(coalesce(next_us, last_us), last_us)")
        .join(dues.select(*_KEY, "due_us"), list(_KEY), "left")
        .where("due_us is null or due_us > gone_us")
    )
    questions = asked.select(
        *(f.col(name).alias(f"of_{name}") for name in _KEY[:3]), f.col("at_us").alias("asked_us")
    )
    is_later = f.expr(
        "group_id = of_group_id and topic = of_topic and partition = of_partition"
        " and asked_us >= gone_us and (next_us is null or asked_us <= next_us)"
    )
    names = (*_KEY, "committed_offset", "gone_us", "next_us", "due_us")
    return SPARED.shape(
        gone.join(questions, is_later, "left")
        .groupBy(*names)
        .agg(f.min("asked_us").alias("asked_us"))
        .withColumns(
            {
                "committed_at": f.timestamp_micros("at_us"),
                "expired_at": f.timestamp_micros("gone_us"),
                "asked_at": f.timestamp_micros("asked_us"),
                "committed_again_at": f.timestamp_micros("next_us"),
                "expires_at": f.timestamp_micros("due_us"),
            }
        )
    )
