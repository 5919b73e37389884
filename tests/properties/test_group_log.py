"""Group state after transactions on a real log: reloaded, recovered and compacted."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.config.log_config import LogConfig
from kafkalite.partitions.coordinator_log import PartitionCoordinatorLog
from kafkalite.partitions.partition import Partition
from kafkalite.ports.background import run_steps
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.compaction import plan_log_compaction
from kafkalite.storage.log_cleaner import clean
from kafkalite.testing.files import MemoryFiles
from tests.effort import examples
from tests.properties.test_group_replay import hard_state
from tests.scenarios.group_coordinator import ManualGroupCoordinator, Producer, topic_image
from tests.unit.storage.logs import open_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.storage.log import Log

CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=700,
    index_interval_bytes=150,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=0,
)
TOPIC = topic_image("__consumer_offsets")

PRODUCERS = st.integers(1, 3).map(Producer)
PARTITIONS = st.tuples(st.just("t"), st.integers(0, 1))
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 9), min_size=1)
GROUPS = st.sampled_from(["g", "h"])


def commit_step(
    group: str, offsets: dict[tuple[str, int], int]
) -> Callable[[ManualGroupCoordinator], object]:
    return lambda coordinator: coordinator.commit(offsets, group=group)


def pending_commit_step(
    group: str, offsets: dict[tuple[str, int], int], producer: Producer
) -> Callable[[ManualGroupCoordinator], object]:
    return lambda coordinator: coordinator.commit(offsets, group=group, producer=producer)


def end_step(producer: Producer, *, is_commit: bool) -> Callable[[ManualGroupCoordinator], object]:
    return lambda coordinator: coordinator.end(producer, is_commit=is_commit)


def delete_step(
    group: str, partition: tuple[str, int]
) -> Callable[[ManualGroupCoordinator], object]:
    return lambda coordinator: coordinator.shard.write(
        lambda machine, _: machine.offsets.delete(group, [partition])
    )


STEPS = st.one_of(
    st.builds(commit_step, GROUPS, OFFSETS),
    st.builds(pending_commit_step, GROUPS, OFFSETS, PRODUCERS),
    st.builds(pending_commit_step, GROUPS, OFFSETS, PRODUCERS),
    st.builds(end_step, PRODUCERS, is_commit=st.booleans()),
    st.builds(delete_step, GROUPS, PARTITIONS),
)


def coordinator_on(log: Log) -> ManualGroupCoordinator:
    """Return a coordinator that loads this log."""
    partition = Partition(TOPIC.name, TOPIC.topic_id, TOPIC.partitions[0], log, is_internal=True)
    partition_log: Any = PartitionCoordinatorLog(partition)  # not a MemoryCoordinatorLog
    return ManualGroupCoordinator(log=partition_log, topics=[topic_image("t", 2)])


def compact(log: Log, coordinator: ManualGroupCoordinator) -> None:
    stable = log.producers.first_unstable_offset
    plan = plan_log_compaction(
        log,
        last_stable_offset=log.end_offset if stable is None else stable,
        now_ms=coordinator.clock.now_ms() + 10_000,
    )
    if plan is not None:
        run_steps(clean(log, plan, now_ms=coordinator.clock.now_ms() + 10_000))


@given(steps=st.lists(STEPS, min_size=1, max_size=40), compact_at=st.integers(0, 40))
@settings(max_examples=examples(60), deadline=None)
def test_reloaded_shard_has_the_same_state(
    steps: list[Callable[[ManualGroupCoordinator], object]], compact_at: int
) -> None:
    files = MemoryFiles()
    log = open_log(files, CONFIG)
    coordinator = coordinator_on(log)
    for number, step in enumerate(steps):
        with suppress(KafkaError):
            step(coordinator)
        if number == compact_at:
            compact(log, coordinator)
    decided = hard_state(coordinator.machine)
    assert hard_state(coordinator_on(log).machine) == decided
    # Opened again after a crash: producers and aborted transactions are restored from the batches.
    assert hard_state(coordinator_on(open_log(files, CONFIG)).machine) == decided
    compact(log, coordinator)
    assert hard_state(coordinator_on(log).machine) == decided
