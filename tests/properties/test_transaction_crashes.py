"""A broker that crashes between any two records of a transaction leaves it committed or aborted.

This tests the complete broker except its sockets: requests as bytes, machines, partitions, and a
disk in memory. A producer writes to two partitions and commits a group's offset in each
transaction. The broker is killed at each step of its disk, and restarted with the remaining files.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from kafkalite.testing.files import CrashedError, FaultyFiles
from tests.properties.transaction_broker import (
    NEW,
    OLD,
    PARTITIONS,
    Broker,
    Versions,
    copy_disk,
    prepare_disk,
)

ENDS = (True, False, True, None)
"""The ends of the transactions; the last one stays open."""


each_protocol = pytest.mark.parametrize("versions", [OLD, NEW], ids=["old", "new"])


class Answers:
    """Requested and acknowledged ends of transactions, by number."""

    def __init__(self) -> None:
        self.requested_ends: dict[int, bool] = {}
        self.acknowledged_ends: dict[int, bool] = {}


def run_transactions(broker: Broker, answers: Answers) -> None:
    """Run one transaction after another."""
    producer = broker.init()
    for number, is_commit in enumerate(ENDS):
        broker.write(producer, number)
        if is_commit is not None:
            answers.requested_ends[number] = is_commit
            producer = broker.finish(producer, is_commit=is_commit)
            answers.acknowledged_ends[number] = is_commit


def check(broker: Broker, answers: Answers, *, times_out: bool) -> None:
    """Check that each transaction is complete and as acknowledged."""
    if times_out:
        broker.clock.advance(80_000)
        next_producer = None
    else:
        next_producer = broker.init()
    outcomes = [broker.committed(index) for index in PARTITIONS]
    assert outcomes[0] == outcomes[1], "a transaction was committed by half"
    committed = outcomes[0]
    assert committed == sorted(set(committed))
    assert broker.offset() == max(committed, default=-1), "records and offset do not agree"
    assert all(broker.is_stable(index) for index in PARTITIONS)
    for number, is_commit in answers.acknowledged_ends.items():
        assert (number in committed) is is_commit, "another end was acknowledged"
    for number in committed:
        assert answers.requested_ends.get(number), "its commit was not requested"
    producer = next_producer or broker.init()
    broker.write(producer, 99)
    broker.finish(producer, is_commit=True)
    for index in PARTITIONS:
        assert broker.committed(index) == [*committed, 99]
    assert broker.offset() == 99


@each_protocol
def test_reader_sees_complete_transactions_when_committed(versions: Versions) -> None:
    broker = Broker(prepare_disk(versions), versions)
    producer = broker.init()
    expected: list[int] = []
    for number, is_commit in enumerate(ENDS[:3]):
        broker.write(producer, number)
        for index in PARTITIONS:
            assert broker.committed(index) == expected
            assert not broker.is_stable(index)
        assert is_commit is not None
        producer = broker.finish(producer, is_commit=is_commit)
        expected += [number] * is_commit
        for index in PARTITIONS:
            assert broker.committed(index) == expected
            assert broker.is_stable(index)
        assert broker.offset() == expected[-1]


@each_protocol
def test_crash_at_any_step_leaves_no_partial_transaction(versions: Versions) -> None:
    disk = prepare_disk(versions)
    complete_run = FaultyFiles(copy_disk(disk))
    broker = Broker(complete_run, versions)
    first_step = complete_run.steps
    run_transactions(broker, Answers())
    for fail_at in range(first_step, complete_run.steps):
        # A record may be incomplete, and the next producer may come before or after the timeout.
        files = FaultyFiles(copy_disk(disk), fail_at=fail_at, part=0.5 * (fail_at % 3 == 0))
        broker, answers = Broker(files, versions), Answers()
        with pytest.raises(CrashedError):
            run_transactions(broker, answers)
        check(Broker(files.disk, versions), answers, times_out=fail_at % 2 == 0)


@each_protocol
def test_a_second_crash_while_markers_are_written_leaves_complete_transactions(
    versions: Versions,
) -> None:
    """The second start finds unfinished work of the first, and is killed too."""
    disk = prepare_disk(versions)
    complete_run = FaultyFiles(copy_disk(disk))
    broker = Broker(complete_run, versions)
    answers = Answers()
    broker.write(broker.init(), 0)
    answers.requested_ends[0] = True
    decided = complete_run.steps
    for fail_at in range(decided, decided + 6):
        files = FaultyFiles(copy_disk(disk), fail_at=fail_at, part=1.0)
        broker = Broker(files, versions)
        producer = broker.init()
        broker.write(producer, 0)
        with suppress(CrashedError):
            broker.finish(producer, is_commit=True)
        disk_after_crash = files.disk
        recovering = FaultyFiles(copy_disk(disk_after_crash))
        Broker(recovering, versions)
        for fail_again in range(recovering.steps):
            crashed_again = FaultyFiles(copy_disk(disk_after_crash), fail_at=fail_again, part=0.0)
            with pytest.raises(CrashedError):
                Broker(crashed_again, versions)
            check(Broker(crashed_again.disk, versions), answers, times_out=False)


@each_protocol
@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("refusals", [1, 4])
def test_full_disk_delays_the_end_of_a_transaction(
    versions: Versions, refusals: int, *, is_commit: bool
) -> None:
    disk = prepare_disk(versions)
    complete_run = FaultyFiles(copy_disk(disk))
    broker = Broker(complete_run, versions)
    broker.write(broker.init(), 0)
    decided = complete_run.steps
    for fail_at in range(decided, decided + 5):
        files = FaultyFiles(copy_disk(disk), fail_at=fail_at, crash=False, failing_steps=refusals)
        broker, answers = Broker(files, versions), Answers()
        producer = broker.init()
        broker.write(producer, 0)
        if broker.ask_end(producer, is_commit=is_commit).error_code:
            # No end was decided yet.
            broker.clock.advance(1_000)
            while broker.ask_end(producer, is_commit=is_commit).error_code:
                assert files.steps <= fail_at + refusals
        answers.requested_ends[0] = answers.acknowledged_ends[0] = is_commit
        broker.clock.advance(40_000)
        check(broker, answers, times_out=False)
        assert len(broker.cluster.outbox) == 0
