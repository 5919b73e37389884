"""A broker that dies between any two records of a transaction leaves it whole: committed, or not.

The whole broker but its sockets: requests as bytes, machines, partitions, a disk in memory. A
producer writes to two partitions and commits a group's offset in each of its transactions; the
broker is killed at each step of its disk in turn and starts again on what is left.
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
    copied,
    prepared,
)

ENDS = (True, False, True, None)
"""How the transactions of the story end; the last one is left open."""


each_protocol = pytest.mark.parametrize("versions", [OLD, NEW], ids=["old", "new"])


class Told:
    """What a producer was told before the broker died."""

    def __init__(self) -> None:
        self.asked: dict[int, bool] = {}
        self.answered: dict[int, bool] = {}


def story(broker: Broker, told: Told) -> None:
    """Be a producer: one transaction after another."""
    producer = broker.init()
    for number, is_commit in enumerate(ENDS):
        broker.write(producer, number)
        if is_commit is not None:
            told.asked[number] = is_commit
            producer = broker.finish(producer, is_commit=is_commit)
            told.answered[number] = is_commit


def judge(broker: Broker, told: Told, *, times_out: bool) -> None:
    """See that each transaction is whole, and as its producer was told; and that things go on."""
    if times_out:
        broker.clock.advance(80_000)
        newcomer = None
    else:
        newcomer = broker.init()
    outcomes = [broker.committed(index) for index in PARTITIONS]
    assert outcomes[0] == outcomes[1], "a transaction was committed by half"
    committed = outcomes[0]
    assert committed == sorted(set(committed))
    assert broker.offset() == max(committed, default=-1), "records and offset do not agree"
    assert all(broker.is_stable(index) for index in PARTITIONS)
    for number, is_commit in told.answered.items():
        assert (number in committed) is is_commit, "it was said otherwise"
    for number in committed:
        assert told.asked.get(number), "nobody asked for this to be committed"
    producer = newcomer or broker.init()
    broker.write(producer, 99)
    broker.finish(producer, is_commit=True)
    for index in PARTITIONS:
        assert broker.committed(index) == [*committed, 99]
    assert broker.offset() == 99


@each_protocol
def test_a_reader_sees_whole_transactions_as_they_are_committed(versions: Versions) -> None:
    broker = Broker(prepared(versions), versions)
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
def test_a_crash_at_any_step_leaves_no_transaction_half(versions: Versions) -> None:
    disk = prepared(versions)
    whole = FaultyFiles(copied(disk))
    broker = Broker(whole, versions)
    first = whole.steps
    story(broker, Told())
    for fail_at in range(first, whole.steps):
        # A record may be torn, and a newcomer may come before the timeout does, or after.
        files = FaultyFiles(copied(disk), fail_at=fail_at, part=0.5 * (fail_at % 3 == 0))
        broker, told = Broker(files, versions), Told()
        with pytest.raises(CrashedError):
            story(broker, told)
        judge(Broker(files.disk, versions), told, times_out=fail_at % 2 == 0)


@each_protocol
def test_a_crash_while_markers_are_written_after_a_crash(versions: Versions) -> None:
    """The second start finds what the first one had not finished, and is killed as well."""
    disk = prepared(versions)
    whole = FaultyFiles(copied(disk))
    broker = Broker(whole, versions)
    told = Told()
    broker.write(broker.init(), 0)
    told.asked[0] = True
    decided = whole.steps
    for fail_at in range(decided, decided + 6):
        files = FaultyFiles(copied(disk), fail_at=fail_at, part=1.0)
        broker = Broker(files, versions)
        producer = broker.init()
        broker.write(producer, 0)
        with suppress(CrashedError):
            broker.finish(producer, is_commit=True)
        left = files.disk
        again = FaultyFiles(copied(left))
        Broker(again, versions)
        for fail_again in range(again.steps):
            twice = FaultyFiles(copied(left), fail_at=fail_again, part=0.0)
            with pytest.raises(CrashedError):
                Broker(twice, versions)
            judge(Broker(twice.disk, versions), told, times_out=False)


@each_protocol
@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("refusals", [1, 4])
def test_a_disk_that_is_full_for_a_while_holds_an_end_up(
    versions: Versions, refusals: int, *, is_commit: bool
) -> None:
    disk = prepared(versions)
    whole = FaultyFiles(copied(disk))
    broker = Broker(whole, versions)
    broker.write(broker.init(), 0)
    decided = whole.steps
    for fail_at in range(decided, decided + 5):
        files = FaultyFiles(copied(disk), fail_at=fail_at, crash=False, refusals=refusals)
        broker, told = Broker(files, versions), Told()
        producer = broker.init()
        broker.write(producer, 0)
        if broker.ask_end(producer, is_commit=is_commit).error_code:
            # Nothing was decided then.
            broker.clock.advance(1_000)
            while broker.ask_end(producer, is_commit=is_commit).error_code:
                assert files.steps <= fail_at + refusals
        told.asked[0] = told.answered[0] = is_commit
        broker.clock.advance(40_000)
        judge(broker, told, times_out=False)
        assert len(broker.cluster.outbox) == 0
