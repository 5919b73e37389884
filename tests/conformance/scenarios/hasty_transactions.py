"""Transactions on brokers in haste: they time out, and what nobody uses is forgotten.

The brokers look several times a second for transactions that took too long, for transactional ids
that nobody used, and for producers that wrote nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.scenarios.commits import fetch
from tests.conformance.scenarios.transactional_records import note_states
from tests.conformance.setup import create_topic, ready_group
from tests.conformance.transacting import (
    ABORT,
    COMMIT,
    NEW,
    OLD,
    Producer,
    Protocol,
    Transactor,
    begun,
    describe,
    describe_producers,
    in_both_protocols,
    initialise,
    latest,
    reached,
    read,
    ready_transactions,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.conformance.world import World

_EXPIRES_MS = 5_000
HASTE: Mapping[str, str] = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "300",
    "transactional.id.expiration.ms": str(_EXPIRES_MS),
    "producer.id.expiration.ms": str(_EXPIRES_MS),
    "producer.id.expiration.check.interval.ms": "300",
}
"""What these brokers are told beyond what the others are."""

_TIMEOUT_MS = 600
_PAUSE_S = 0.1
_PATIENCE_S = 12.0


def _timed_out(world: World, protocol: Protocol, name: str = "") -> tuple[Transactor, Producer]:
    """Leave a transaction open until it is aborted; gives its producer, who knows nothing of it."""
    producer = begun(world, protocol, name, timeout_ms=_TIMEOUT_MS)
    producer.begin()
    reached(world, producer.transactional_id, "CompleteAbort")
    return producer, producer.producer


def open_transactions_time_out(world: World, protocol: Protocol) -> None:
    create_topic(world, world.name)
    producer, late = _timed_out(world, protocol)
    world.ask(read(world.name), 11)
    for version in range(4):
        producer.speaking(add=version).add(producer=late)
    for version in (3, 10, 11, 12):
        producer.speaking(produce=version).write(producer=late, sequence=1)
    for version in range(5):
        producer.speaking(add_offsets=version).add_offsets(world.name, late)
        for is_commit in (COMMIT, ABORT):
            producer.speaking(end=version).end(is_commit=is_commit, producer=late)
    world.ask(describe_producers(world.name), 0)
    for version in (3, 4, 5):
        world.ask(initialise(world.name, late), version)
    producer.init()
    producer.begin()
    producer.commit()
    note_states(world, world.name, is_alone=False)


def ends_come_after_the_timeout(world: World, protocol: Protocol) -> None:
    """Abort late, which looks like an abort that is repeated, and commit late, which does not."""
    create_topic(world, world.name)
    for is_commit in (ABORT, COMMIT):
        for version in (4, 5):
            name = f"{world.name}-{is_commit:d}-{version}"
            producer, late = _timed_out(world, protocol, name)
            speaker = producer.speaking(end=version)
            speaker.end(is_commit=is_commit, producer=late)
            speaker.end(is_commit=is_commit, producer=late)
            speaker.end(is_commit=is_commit)
            speaker.init(speaker.producer)


def what_is_written_does_not_put_the_timeout_off(world: World, protocol: Protocol) -> None:
    create_topic(world, world.name, partitions=2)
    producer = begun(world, protocol, timeout_ms=_TIMEOUT_MS)
    producer.begin()
    sequence, code = 1, 0
    deadline = time.monotonic() + _PATIENCE_S
    while code == 0 and time.monotonic() < deadline:
        request = write(world.name, producer.producer, world.name, sequence=sequence)
        answer = world.probe(request, protocol.produce)
        code = answer.responses[0].partition_responses[0].error_code
        sequence += 1
        time.sleep(_PAUSE_S)
    world.note("refused in the end", ErrorCode(code).name)
    reached(world, world.name, "CompleteAbort")


def idle_producers_do_not_time_out(world: World) -> None:
    create_topic(world, world.name)
    idle = begun(world, NEW, f"{world.name}-idle", timeout_ms=1)
    ended = begun(world, NEW, f"{world.name}-ended", timeout_ms=_TIMEOUT_MS)
    ended.begin()
    ended.commit()
    _timed_out(world, NEW)
    for producer in (idle, ended):
        world.ask(describe(producer.transactional_id), 0)
    ended.begin()
    ended.commit()


def offsets_are_forgotten_with_their_transaction(world: World, protocol: Protocol) -> None:
    create_topic(world, world.name)
    ready_group(world, world.name)
    producer = begun(world, protocol, timeout_ms=_TIMEOUT_MS)
    if not producer.is_new:
        producer.add_offsets(world.name)
    producer.commit_offsets(world.name)
    stable = fetch(world.name, world.name, 0)
    stable.require_stable = True
    world.ask(stable, 8)
    reached(world, world.name, "CompleteAbort")
    world.ask(stable, 8)
    producer.commit_offsets(world.name)


def _gone(world: World, name: str) -> None:
    """Wait until a transactional id is no more."""

    def is_gone(found: Any) -> bool:  # noqa: ANN401 - any response class
        (row,) = found.transaction_states
        return bool(row.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)

    world.settle(describe(name), 0, is_gone)


def ids_that_nobody_uses_expire(world: World, protocol: Protocol) -> None:
    create_topic(world, world.name)
    names = [f"{world.name}-{state}" for state in ("empty", "committed", "aborted", "open")]
    producers = [begun(world, protocol, name) for name in names]
    for producer in producers[1:]:
        producer.begin()
    producers[1].commit()
    producers[2].abort()
    for name in names[:3]:
        _gone(world, name)
    world.ask(describe(names[3]), 0)
    for producer in producers[:3]:
        producer.add()
        producer.add_offsets(world.name)
        for version in (4, 5):
            producer.speaking(end=version).end(is_commit=COMMIT)
            producer.speaking(end=version).end(is_commit=ABORT)
        producer.write(sequence=5)
    note_states(world, *names, is_alone=False)
    for producer in producers[:3]:
        producer.init(producer.producer)
        producer.begin()
        producer.commit()
    producers[3].commit()


def an_id_in_use_does_not_expire(world: World) -> None:
    create_topic(world, world.name)
    ready_transactions(world, f"{world.name}-idle")
    begun(world, OLD, f"{world.name}-idle")
    begun(world, OLD)
    deadline = time.monotonic() + _PATIENCE_S
    is_there = True
    while is_there and time.monotonic() < deadline:
        world.probe(initialise(world.name), 5)
        (row,) = world.probe(describe(f"{world.name}-idle"), 0).transaction_states
        is_there = row.error_code == ErrorCode.NONE
        time.sleep(_PAUSE_S)
    world.note("the idle one is there", is_there)
    told = world.probe(describe(world.name), 0).transaction_states[0]
    world.note("the other is", told.transaction_state)


def partitions_forget_producers(world: World) -> None:
    """Forget who wrote nothing for a while, but nobody whose transaction is open."""
    create_topic(world, world.name)
    first = begun(world, OLD, f"{world.name}-a")
    second = begun(world, OLD, f"{world.name}-b")
    for producer in (first, second):
        producer.begin()
        producer.write(sequence=1)
    first.commit()
    world.ask(describe_producers(world.name), 0)
    world.settle(
        describe_producers(world.name),
        0,
        lambda found: len(found.topics[0].partitions[0].active_producers) == 1,
    )
    world.ask(latest(world.name), 7)
    second.write(sequence=2)
    second.abort()
    request = write(None, first.producer, world.name, sequence=7, attributes=0)
    world.ask(request, 11)
    world.ask(describe_producers(world.name), 0)


WAITING = (
    *in_both_protocols(open_transactions_time_out),
    *in_both_protocols(ends_come_after_the_timeout),
    *in_both_protocols(what_is_written_does_not_put_the_timeout_off),
    idle_producers_do_not_time_out,
    *in_both_protocols(offsets_are_forgotten_with_their_transaction),
    *in_both_protocols(ids_that_nobody_uses_expire),
    an_id_in_use_does_not_expire,
    partitions_forget_producers,
)
