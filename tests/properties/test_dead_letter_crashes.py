"""A disk that fails at any step loses no dead letter; it may be written twice, as in Kafka.

The broker is killed at each step of its disk, or its disk is full for some steps. A member rejects
records, and lets the locks of others expire after the last delivery.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalite.metadata.configs import AlterOperation, ConfigChange
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.storage.batch import split_batches
from kafkalite.testing.files import CrashedError, FaultyFiles, MemoryFiles
from tests.cluster.shares import ACCEPT, FIRST, LOCK_MS, REJECT, Ack, ShareCluster, acquired

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEAD_LETTER_TOPIC = "dlq.a"
LONG_MS = 300_000


class Plan(NamedTuple):
    """The number of records, and the acknowledgements; the locks of the others expire."""

    records: int
    acks: tuple[Ack, ...]
    accepted: frozenset[int]


PLANS = {
    "in batches": Plan(6, ((0, 1, REJECT), (3, 3, REJECT), (2, 2, ACCEPT)), frozenset({2})),
    # The writer of dead letters needs two turns.
    "one by one": Plan(28, ((0, 23, [REJECT, ACCEPT] * 12),), frozenset(range(1, 24, 2))),
}
each_plan = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)

CONFIG = {
    "errors.deadletterqueue.auto.create.topics.enable": "true",
    "group.share.delivery.count.limit": "2",
    "share.coordinator.state.topic.num.partitions": "1",
    "broker.id": "1",
}


def new_cluster(files: FaultyFiles, plan: Plan) -> ShareCluster:
    """Return a cluster whose group `g` has a dead-letter topic, and records to read."""
    wire = ShareCluster(Path("/data"), config=CONFIG, files=files)
    changes = {
        "errors.deadletterqueue.topic.name": DEAD_LETTER_TOPIC,
        "errors.deadletterqueue.copy.record.enable": "true",
    }
    errors = wire.cluster.metadata.alter_configs(
        {
            ConfigResource(ResourceType.GROUP, "g"): [
                ConfigChange(name, AlterOperation.SET, value) for name, value in changes.items()
            ]
        },
        validate_only=False,
    )
    assert not any(errors.values())
    wire.produce(plan.records)
    return wire


class Outcome:
    """The records that a member acknowledged, and those of successful answers."""

    def __init__(self) -> None:
        self.requested: set[int] = set()
        self.answered: set[int] = set()


def work(wire: ShareCluster, plan: Plan, outcome: Outcome) -> None:
    """Acknowledge records at their second delivery, and let the locks of the rest expire twice."""
    epoch = FIRST
    for attempt in range(2):
        wire.fetch(epoch)
        epoch += 1
        if attempt:
            for batch in plan.acks:
                offsets = range(batch[0], batch[1] + 1)
                outcome.requested.update(offsets)
                if wire.ack(epoch, batch) == (0, 0):
                    outcome.answered.update(offsets)
                epoch += 1
        wire.clock.advance(LOCK_MS)
    wire.clock.advance(LONG_MS)


def dead_letters(wire: ShareCluster) -> Sequence[int]:
    """Return the offsets of the original records in the dead-letter topic, in its order."""
    topic = wire.cluster.partitions.topic(DEAD_LETTER_TOPIC)
    if topic is None:
        return []
    log = topic.partitions[0]
    data = log.read(0, max_bytes=1 << 20, limit_offset=log.end_offset, at_least_one=True)
    headers: list[Mapping[str, bytes | None]] = [
        dict(record.headers) for batch in split_batches(data) for record in batch.records()
    ]
    return [int(each["__dlq.errors.offset"] or b"") for each in headers]


def deliver_again(wire: ShareCluster) -> set[int]:
    """Return the offsets that another member gets, which accepts them."""
    rows = acquired(wire.fetch(FIRST, "b"))
    wire.clock.advance(1_000)
    ranges = [(first, last, ACCEPT) for each in rows.values() for first, last, _ in each]
    if ranges:
        assert wire.ack(1, *ranges, member="b") == (0, 0)
    return {offset for first, last, _ in ranges for offset in range(first, last + 1)}


def check(wire: ShareCluster, plan: Plan, outcome: Outcome) -> None:
    """Check that each record is delivered again, accepted or a dead letter."""
    again = deliver_again(wire)
    letters = dead_letters(wire)
    assert not plan.accepted & outcome.answered & {*letters, *again}
    for offset in {*range(plan.records)} - (plan.accepted & outcome.requested):
        assert offset in letters or offset in again, f"record {offset} is lost"
        if offset in outcome.answered:
            assert offset in letters, f"record {offset} is not a dead letter"
            assert offset not in again, f"record {offset} is delivered after its acknowledgement"
    summary = wire.cluster.shares.summary("g", wire.topic_id, 0)
    assert summary.start_offset + summary.delivery_complete_count == plan.records


def check_twice(wire: ShareCluster, plan: Plan, outcome: Outcome, disk: MemoryFiles) -> None:
    """Check the records, and that another start adds no dead letters."""
    wire.restart_after_kill(disk)
    check(wire, plan, outcome)
    before = dead_letters(wire)
    wire.restart_after_kill(disk)
    assert acquired(wire.fetch(FIRST, "c")) in ({}, {0: []})
    assert dead_letters(wire) == before


@each_plan
def test_without_a_failure_each_rejected_record_is_one_dead_letter(plan: Plan) -> None:
    files = FaultyFiles(MemoryFiles())
    wire, outcome = new_cluster(files, plan), Outcome()
    work(wire, plan, outcome)
    assert outcome.answered == outcome.requested
    assert dead_letters(wire) == sorted({*range(plan.records)} - plan.accepted)
    check_twice(wire, plan, outcome, files.disk)


def steps_of_work(plan: Plan) -> range:
    files = FaultyFiles(MemoryFiles())
    wire = new_cluster(files, plan)
    first_step = files.steps
    work(wire, plan, Outcome())
    return range(first_step, files.steps)


@each_plan
def test_a_crash_at_any_step_loses_no_record(plan: Plan) -> None:
    for fail_at in steps_of_work(plan):
        files = FaultyFiles(MemoryFiles(), fail_at=fail_at, part=0.5 * (fail_at % 3))
        wire, outcome = new_cluster(files, plan), Outcome()
        with pytest.raises(CrashedError):
            work(wire, plan, outcome)
        check_twice(wire, plan, outcome, files.disk)


@pytest.mark.endurance
@each_plan
@pytest.mark.parametrize("failing_steps", [1, 2, 5, 1_000])
def test_a_full_disk_loses_no_record(failing_steps: int, plan: Plan) -> None:
    for fail_at in steps_of_work(plan):
        files = FaultyFiles(
            MemoryFiles(), fail_at=fail_at, crash=False, failing_steps=failing_steps
        )
        wire, outcome = new_cluster(files, plan), Outcome()
        work(wire, plan, outcome)
        files.fail_from(None)
        wire.clock.advance(LONG_MS)
        rejected = outcome.answered - plan.accepted
        assert rejected <= {*dead_letters(wire)}, "the records wait for a restart"
        check_twice(wire, plan, outcome, files.disk)
