"""Measures how many records per second a coordinator loads from its log.

There are two mixes: `typical`, with repeated commits to a few thousand partitions, as in a log
before compaction; and `unique`, with one commit per partition, as after compaction. The upper limit
is iterating over the batches of the same log without decoding records.
"""

from __future__ import annotations

import gc
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple

from tests.perf.groups_records import append, batch_of, commit
from tests.perf.socketless_broker import SocketlessBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalite.groups.group import Record
    from kafkalite.storage.log import Log

_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": str(2**31 - 1),
}
_PARTITIONS_PER_GROUP = 10
_TYPICAL_KEYS = 5_000
_ROUNDS = 3


class ReplayRate(NamedTuple):
    """Records per second of CPU time, of loading and of iterating over batches."""

    per_second: float
    iterated_per_second: float


MIXES = {"typical": _TYPICAL_KEYS, "unique": None}
"""The number of partitions; None: one per record."""


def measure(mix: str, per_batch: int, count: int, rounds: int = _ROUNDS) -> ReplayRate:
    """Load a log of `count` records several times, and return the fastest.

    A small log of a mix with repeated commits has two commits per partition.
    """
    most_keys = MIXES[mix]
    keys = count if most_keys is None else min(most_keys, count // 2)
    with tempfile.TemporaryDirectory() as directory:
        broker = SocketlessBroker(directory, _SETTINGS)
        topic = broker.cluster.partitions.topic("__consumer_offsets")
        assert topic is not None
        log = topic.partitions[0].log
        append(log, _batches(keys, per_batch, count))
        iteration_s = min(_seconds(lambda: _iterate(log)) for _ in range(rounds))
        elapsed_s = min(_seconds(broker.reload_groups) for _ in range(rounds))
        committed = sum(1 for _ in broker.group_shard().machine.offsets.all_committed())
        assert committed == keys, committed
        broker.close()
    return ReplayRate(count / elapsed_s, count / iteration_s)


def _batches(keys: int, per_batch: int, count: int) -> Iterator[bytes]:
    """Yield batches of commits to `keys` partitions in turn; repeated batches are reused."""
    batches: list[bytes] = []
    for start in range(0, keys, per_batch):
        batch = batch_of([_commit(number) for number in range(start, start + per_batch)])
        if keys < count:
            batches.append(batch)
        yield batch
    for number in range((count - keys) // per_batch):
        yield batches[number % len(batches)]


def _commit(number: int) -> Record:
    group, partition = divmod(number, _PARTITIONS_PER_GROUP)
    return commit(f"consumers-of-{group:06d}", "orders", partition, number)


def _iterate(log: Log) -> None:
    for _ in log.batches(log.start_offset):
        pass


def _seconds(function: Callable[[], object]) -> float:
    """Return the CPU time of a call, without garbage collection, as during startup."""
    gc.disable()
    try:
        started = time.process_time()
        function()
        return time.process_time() - started
    finally:
        gc.enable()
