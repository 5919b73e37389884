"""How many requests a second the fencing audit judges, from Parquet to its totals.

    python -m tests.perf.audit_bench [--check] [--events 2000000] [--cores 2]

Heartbeats and commits of many groups, every thousandth of a group's time a new epoch, three commits
of a thousand at an old one. With --check the exit status is 1 below the floor.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.protocol import codec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLOOR_PER_SECOND = 600_000
GROUPS = 60
MEMBERS = 5
PARTITIONS = 4
_MEMBERS = GROUPS * MEMBERS
_BEATS_AN_EPOCH = 50

_ENVELOPE = (
    "timestamp_micros({at}) as ts",
    "timestamp_micros({at} + 900) as answered",
    "cast(900 as bigint) as latency_us",
    "{member} as connection",
    "concat('10.0.0.', {member} % 250, ':', 40000 + {member}) as client",
    "'10.0.1.1:9092' as broker",
    "0 as node_id",
    "cast({version} as smallint) as api_version",
    "'bench' as client_id",
    "'bench.pcapng' as file",
    "id as offset",
)

_GROUP = f"concat('group-', cast(id % {GROUPS} as string))"
_MEMBER = f"concat('member-', cast(id % {_MEMBERS} as string))"
_BEAT = f"div(id, {_MEMBERS})"
_EPOCH = f"cast(2 + div({_BEAT}, {_BEATS_AN_EPOCH}) as int)"
_PARTITION_OF = f"cast((id % {_MEMBERS}) * {PARTITIONS} as int)"
_HELD = f"transform(sequence(0, {PARTITIONS - 1}), p -> {_PARTITION_OF} + p)"
_TOPIC = "array(named_struct('topic_id', unhex('{hex}'), 'partitions', {parts}))"
_HEX = "000102030405060708090A0B0C0D0E0F"


class Measured(NamedTuple):
    """What was done, and how fast."""

    events: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Requests judged in a second."""
        return self.events / self.seconds


def heartbeats(spark: SparkSession, count: int) -> DataFrame:
    """Return heartbeats: the first of each epoch brings the assignment."""
    is_new = f"{_BEAT} % {_BEATS_AN_EPOCH} = 0"
    asked = f"if({_BEAT} = 0, 0, {_EPOCH} - cast({is_new} as int))"
    assigned = _TOPIC.format(hex=_HEX, parts=_HELD)
    request = (
        f"named_struct('group_id', {_GROUP}, 'member_id', {_MEMBER}, 'instance_id',"
        f" cast(null as string), 'member_epoch', {asked},"
        f" 'topic_partitions', if({_BEAT} = 0, array(), null)) as request"
    )
    response = (
        f"named_struct('member_id', {_MEMBER}, 'member_epoch', {_EPOCH}, 'error_code',"
        f" cast(0 as smallint), 'assignment', if({is_new}, named_struct('topic_partitions',"
        f" {assigned}), null)) as response"
    )
    nothing = "array()"
    typed = "cast(array() as array<struct<topic_id: binary, partitions: array<int>>>)"
    return _table(
        spark, count, at="id * 2000", version=1, rest=(request.replace(nothing, typed), response)
    )


def metadata(spark: SparkSession, _: int) -> DataFrame:
    """Return the one answer that tells what the topic is called."""
    topic = f"named_struct('topic_id', unhex('{_HEX}'), 'name', 'bench')"
    told = f"named_struct('topics', array({topic})) as response"
    return _table(spark, 1, at="id", version=12, rest=("null as request", told))


def commits(spark: SparkSession, count: int) -> DataFrame:
    """Return commits between them, a few at an epoch of the past."""
    epoch = f"if(id % 1000 < 3 and {_EPOCH} > 3, {_EPOCH} - 1, {_EPOCH})"
    parts = f"transform({_HELD}, p -> named_struct('partition_index', p, {{}}))"
    offsets = parts.format("'committed_offset', id")
    codes = parts.format("'error_code', cast(0 as smallint)")
    topics = "array(named_struct('name', '', 'topic_id', unhex('{}'), 'partitions', {}))"
    request = (
        f"named_struct('group_id', {_GROUP}, 'member_id', {_MEMBER},"
        f" 'generation_id_or_member_epoch', {epoch}, 'retention_time_ms', cast(-1 as bigint),"
        f" 'topics', {topics.format(_HEX, offsets)}) as request"
    )
    response = f"named_struct('topics', {topics.format(_HEX, codes)}) as response"
    return _table(spark, count, at="id * 2000 + 1000", version=10, rest=(request, response))


def _table(
    spark: SparkSession, count: int, *, at: str, version: int, rest: tuple[str, str]
) -> DataFrame:
    member = f"(id % {_MEMBERS})"
    begun = f"(1700000000000000 + {at})"
    columns = [each.format(at=begun, member=member, version=version) for each in _ENVELOPE]
    return spark.range(0, count, 1, 8).selectExpr(*columns, *rest)


def measure(spark: SparkSession, folder: str, events: int) -> Measured:
    """Write the requests, then judge them all and count."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - heavy

    from kafkalite.spark.audits import STATES, AuditOptions  # noqa: PLC0415 - heavy
    from kafkalite.spark.requests import Requests, api_key  # noqa: PLC0415 - heavy

    made = {"ConsumerGroupHeartbeat": heartbeats, "OffsetCommit": commits, "Metadata": metadata}
    frames = {}
    for name, make in made.items():
        assert name in {codec.api_name(key) for key in codec.api_keys()}
        make(spark, events // 2).write.mode("overwrite").parquet(f"{folder}/{name}")
        frames[api_key(name)] = spark.read.parquet(f"{folder}/{name}")
    requests = Requests(
        spark, frames, derive=lambda every, name: STATES[name](every, AuditOptions())
    )
    begun = time.perf_counter()
    judged = requests.state("judged_commits")
    told = judged.groupBy("truth", "strict", "revocation", "assignment").agg(
        f.count(f.lit(1)).alias("n")
    )
    rows = told.collect()
    seconds = time.perf_counter() - begun
    assert sum(row["n"] for row in rows) == events // 2 * PARTITIONS
    behind = sum(row["n"] for row in rows if row["truth"] == "innocent")
    assert 0.002 < behind / (events // 2 * PARTITIONS) < 0.004, rows
    return Measured(events, seconds)


def main() -> None:
    """Measure, print, and with --check judge."""
    from kafkalite.spark.session import start  # noqa: PLC0415 - heavy

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--cores", type=int, default=2)
    asked = parser.parse_args()
    conf = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": str(2 * asked.cores)}
    spark = start(f"local[{asked.cores}]", conf)
    best: Measured | None = None
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            measured = measure(spark, folder, asked.events)
            sys.stdout.write(
                f"{measured.events:,} requests judged in {measured.seconds:.2f} s:"
                f" {measured.per_second:,.0f}/s\n"
            )
            if best is None or measured.seconds < best.seconds:
                best = measured
    spark.stop()
    assert best is not None
    if asked.check and best.per_second < FLOOR_PER_SECOND:
        sys.exit(f"below {FLOOR_PER_SECOND:,}/s")


if __name__ == "__main__":
    main()
