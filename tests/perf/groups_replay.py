"""How many records a second a coordinator takes in when it loads its log.

Two mixes: `typical`, where a few thousand partitions were committed over and over, as logs of
groups are until they are compacted; and `unique`, where every record is another partition's, as
they are just after. The floor is the same log walked batch by batch, with no record looked at.
"""

from __future__ import annotations

import gc
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple

from tests.perf.groups_records import append, batch_of, commit
from tests.perf.groups_world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalite.groups.group import Record
    from kafkalite.storage.log import Log

_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": str(2**31 - 1),
}
_PARTITIONS_OF_A_GROUP = 10
_TYPICAL_KEYS = 5_000
_ROUNDS = 3


class Replayed(NamedTuple):
    """Records a second of processor time, of loading and of its floor."""

    per_second: float
    floor_per_second: float


MIXES = {"typical": _TYPICAL_KEYS, "unique": None}
"""How many partitions are committed to; None: each but once."""


def measure(mix: str, per_batch: int, count: int) -> Replayed:
    """Load a log of `count` records some times, and return the fastest."""
    with tempfile.TemporaryDirectory() as directory:
        world = World(directory, _SETTINGS)
        topic = world.cluster.partitions.topic("__consumer_offsets")
        assert topic is not None
        log = topic.partitions[0].log
        append(log, _batches(MIXES[mix] or count, per_batch, count))
        floor = min(_seconds(lambda: _walk(log)) for _ in range(_ROUNDS))
        taken = min(_seconds(world.reload_groups) for _ in range(_ROUNDS))
        kept = sum(1 for _ in world.group_shard().machine.offsets.committed())
        assert kept == (MIXES[mix] or count), kept
        world.close()
    return Replayed(count / taken, count / floor)


def _batches(keys: int, per_batch: int, count: int) -> Iterator[bytes]:
    """Yield commits to `keys` partitions in turns; what comes again is not built again."""
    made: list[bytes] = []
    for start in range(0, keys, per_batch):
        batch = batch_of([_commit(number) for number in range(start, start + per_batch)])
        if keys < count:
            made.append(batch)
        yield batch
    for number in range((count - keys) // per_batch):
        yield made[number % len(made)]


def _commit(number: int) -> Record:
    group, partition = divmod(number, _PARTITIONS_OF_A_GROUP)
    return commit(f"consumers-of-{group:06d}", "orders", partition, number)


def _walk(log: Log) -> None:
    for _ in log.batches(log.start_offset):
        pass


def _seconds(work: Callable[[], object]) -> float:
    """Return the processor time of some work, with garbage left where it is, as in a start."""
    gc.collect()
    gc.disable()
    try:
        begun = time.process_time()
        work()
        return time.process_time() - begun
    finally:
        gc.enable()
