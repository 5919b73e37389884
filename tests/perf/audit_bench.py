"""How many requests a second the fencing audit judges, from Parquet to its totals.

    python -m tests.perf.audit_bench [--check] [--events 200000] [--cores 2]

Heartbeats and commits of many groups, every thousandth of a group's time a new epoch, three commits
of a thousand at an old one. With --check the exit status is 1 below the floor.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt
    from pyspark.sql import DataFrame, SparkSession

    Ints = npt.NDArray[np.int64]

FLOOR_PER_SECOND = 2_000
GROUPS = 60
MEMBERS = 5
PARTITIONS = 4
_MEMBERS = GROUPS * MEMBERS
_BEATS_AN_EPOCH = 50
_TOPIC_ID = bytes(range(16))
_BEGUN_US = 1_700_000_000_000_000
_TAKES_US = 900
_STEP_US = 2_000
_CHUNK = 250_000


class Measured(NamedTuple):
    """What was done, and how fast."""

    events: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Requests judged in a second."""
        return self.events / self.seconds


def heartbeats(ids: Ints) -> pa.Table:
    """Return heartbeats: the first of each epoch brings the assignment."""
    beat, epoch = ids // _MEMBERS, _epoch(ids)
    is_new, is_first = beat % _BEATS_AN_EPOCH == 0, beat == 0
    nothing = _structs(topic_id=pa.array([], pa.binary()), partitions=_lists(0, pa.array([], _INT)))
    request = _structs(
        group_id=_names("group", ids % GROUPS, GROUPS),
        member_id=_names("member", ids % _MEMBERS, _MEMBERS),
        instance_id=pa.nulls(len(ids), pa.string()),
        member_epoch=_ints(np.where(is_first, 0, epoch - is_new)),
        topic_partitions=_some(np.zeros(len(ids), np.int32), nothing, is_there=is_first),
    )
    news = ids[is_new]
    assigned = _structs(topic_id=_topic_ids(news), partitions=_lists(PARTITIONS, _held(news)))
    response = _structs(
        member_id=_names("member", ids % _MEMBERS, _MEMBERS),
        member_epoch=_ints(epoch),
        error_code=_zeros(len(ids)),
        assignment=_structs(is_there=is_new, topic_partitions=_some(is_new, assigned)),
    )
    return _requests(ids, 0, 1, request, response)


def commits(ids: Ints) -> pa.Table:
    """Return commits between them, a few at an epoch of the past."""
    epoch = _epoch(ids)
    is_behind = (ids % 1000 < 3) & (epoch > 3)
    asked = _structs(partition_index=_held(ids), committed_offset=np.repeat(ids, PARTITIONS))
    told = _structs(partition_index=_held(ids), error_code=_zeros(len(ids) * PARTITIONS))
    request = _structs(
        group_id=_names("group", ids % GROUPS, GROUPS),
        member_id=_names("member", ids % _MEMBERS, _MEMBERS),
        generation_id_or_member_epoch=_ints(epoch - is_behind),
        retention_time_ms=np.full(len(ids), -1),
        topics=_of_one_topic(ids, asked),
    )
    return _requests(ids, _STEP_US // 2, 10, request, _structs(topics=_of_one_topic(ids, told)))


def metadata(ids: Ints) -> pa.Table:
    """Return the one answer that tells what the topic is called."""
    first = ids[:1]
    topic = _structs(topic_id=_topic_ids(first), name=pa.array(["bench"]))
    told = _structs(topics=_lists(1, topic))
    return _requests(first, 0, 12, _structs(topics=pa.nulls(1)), told)


_INT = pa.int32()


def _epoch(ids: Ints) -> Ints:
    return 2 + ids // _MEMBERS // _BEATS_AN_EPOCH


def _names(kind: str, numbers: Ints, count: int) -> pa.Array:
    return pa.array([f"{kind}-{each}" for each in range(count)]).take(pa.array(numbers))


def _ints(numbers: npt.NDArray[Any]) -> pa.Array:
    return pa.array(numbers.astype(np.int32))


def _zeros(count: int) -> pa.Array:
    return pa.array(np.zeros(count, np.int16))


def _topic_ids(ids: Ints) -> pa.Array:
    return pa.array([_TOPIC_ID]).take(pa.array(np.zeros(len(ids), np.int32)))


def _held(ids: Ints) -> pa.Array:
    """Return the partitions of each one's member, one after another."""
    first = ids % _MEMBERS * PARTITIONS
    return _ints((first[:, None] + np.arange(PARTITIONS)).ravel())


def _structs(is_there: npt.NDArray[np.bool_] | None = None, **fields: Any) -> pa.Array:  # noqa: ANN401 - what Arrow takes for an array
    mask = None if is_there is None else pa.array(~is_there)
    return pa.StructArray.from_arrays(
        [pa.array(each) for each in fields.values()], list(fields), mask=mask
    )


def _lists(each: int, values: pa.Array) -> pa.Array:
    """Return lists of so many each."""
    count = len(values) // each if each else 0
    return pa.ListArray.from_arrays(_ints(np.arange(count + 1) * each), values)


def _some(
    counts: npt.NDArray[Any], values: pa.Array, is_there: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return lists of these lengths, and none where there is none."""
    mask = None if is_there is None else pa.array(~is_there)
    return pa.ListArray.from_arrays(_ints(np.append(0, np.cumsum(counts))), values, mask=mask)


def _of_one_topic(ids: Ints, partitions: pa.Array) -> pa.Array:
    name = pa.array([""]).take(pa.array(np.zeros(len(ids), np.int32)))
    topic = _structs(name=name, topic_id=_topic_ids(ids), partitions=_lists(PARTITIONS, partitions))
    return _lists(1, topic)


def _requests(
    ids: Ints, after_us: int, version: int, request: pa.Array, response: pa.Array
) -> pa.Table:
    at = _BEGUN_US + ids * _STEP_US + after_us
    member = ids % _MEMBERS
    moment = pa.timestamp("us", tz="UTC")
    size = len(ids)
    return pa.table(
        {
            "ts": pa.array(at).cast(moment),
            "answered": pa.array(at + _TAKES_US).cast(moment),
            "latency_us": np.full(size, _TAKES_US),
            "connection": member,
            "client": _names("10.0.0.1:4", member, _MEMBERS),
            "broker": _names("10.0.1.1:909", np.zeros(size, np.int64), 1),
            "node_id": _ints(np.zeros(size)),
            "api_version": pa.array(np.full(size, version, np.int16)),
            "client_id": _names("bench", np.zeros(size, np.int64), 1),
            "file": _names("bench.pcapng", np.zeros(size, np.int64), 1),
            "offset": ids,
            "request": request,
            "response": response,
        }
    )


def write(folder: Path, make: Callable[[Ints], pa.Table], count: int) -> None:
    """Write requests to files, so many to each."""
    folder.mkdir(parents=True)
    for begin in range(0, count, _CHUNK):
        ids = np.arange(begin, min(begin + _CHUNK, count), dtype=np.int64)
        parquet.write_table(make(ids), folder / f"{begin}.parquet")


def measure(spark: SparkSession, folder: Path, events: int) -> Measured:
    """Audit all requests in a folder, states written to files as in any run; count."""
    from kafkalite.spark.audits import AUDITS, STATES, AuditOptions  # noqa: PLC0415 - heavy
    from kafkalite.spark.requests import Requests, api_key  # noqa: PLC0415 - heavy

    frames = {
        api_key(api.name): spark.read.parquet(str(api)) for api in (folder / "requests").iterdir()
    }

    def derive(every: Requests, name: str) -> DataFrame:
        made = STATES[name](every, AuditOptions())
        url = str(folder / "state" / name)
        made.write.mode("overwrite").parquet(url)
        return spark.read.schema(made.schema).parquet(url)

    begun = time.perf_counter()
    requests = Requests(spark, frames, derive=derive)
    told = AUDITS["fencing"].tables(requests, AuditOptions())["fencing_totals"]
    rows = {row["rule"]: row for row in told.collect()}
    seconds = time.perf_counter() - begun
    assert rows["strict"]["commits"] == events // 2
    assert 0.002 < rows["strict"]["commits_failed"] / (events // 2) < 0.004, rows
    assert rows["assignment-epoch"]["commits_failed"] == 0, rows
    return Measured(events, seconds)


def main() -> None:
    """Measure, print, and with --check judge."""
    from kafkalite.spark.session import start  # noqa: PLC0415 - heavy

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--cores", type=int, default=2)
    asked = parser.parse_args()
    conf = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": str(2 * asked.cores)}
    spark = start(f"local[{asked.cores}]", conf, quick=True)
    best: Measured | None = None
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        requests = folder / "requests"
        write(requests / "ConsumerGroupHeartbeat", heartbeats, asked.events // 2)
        write(requests / "OffsetCommit", commits, asked.events // 2)
        write(requests / "Metadata", metadata, 1)
        for _ in range(2):
            measured = measure(spark, folder, asked.events)
            sys.stdout.write(
                f"{measured.events:,} requests judged in {measured.seconds:.2f} s:"
                f" {measured.per_second:,.0f}/s\n"
            )
            sys.stdout.flush()
            if best is None or measured.seconds < best.seconds:
                best = measured
    spark.stop()
    assert best is not None
    if asked.check and best.per_second < FLOOR_PER_SECOND:
        sys.exit(f"below {FLOOR_PER_SECOND:,}/s")


if __name__ == "__main__":
    main()
