"""Transactions read by share groups: open ones wait, aborted ones are not delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.scenarios.share_fetching import ACCEPT, FIRST, GAP, V, shared_topic
from tests.conformance.setup import fill
from tests.conformance.transactional_producer import (
    NEW,
    OLD,
    Transactor,
    wait_for_transaction_coordinator,
)

if TYPE_CHECKING:
    from tests.conformance.scenarios.share_fetching import Shared
    from tests.conformance.transactional_producer import Protocol
    from tests.conformance.world import World

COMMITTED = {"share.isolation.level": "read_committed"}


def _ready(
    world: World, protocol: Protocol = NEW, *, committed: bool = True
) -> tuple[Shared, Transactor]:
    """Return a share group, and a producer that writes to its topic."""
    shared = shared_topic(world, config=COMMITTED if committed else None)
    wait_for_transaction_coordinator(world, world.name)
    producer = Transactor(world, world.name, protocol)
    producer.init()
    return shared, producer


def records_of_open_transactions_are_not_delivered(world: World) -> None:
    shared, producer = _ready(world)
    fill(world, shared.topic, b"plain")
    producer.write(b"a", b"b", topic=shared.topic)
    fill(world, shared.topic, b"behind")
    world.ask(shared.fetch("m", FIRST, 0), V)
    world.ask(shared.fetch("m", 1, acks={0: [(0, 0, [ACCEPT])]}), V)
    producer.commit()
    world.ask(shared.fetch("m", 2), V)
    world.ask(shared.ack("m", 3, (1, 2, [ACCEPT]), (3, 3, [ACCEPT]), (4, 4, [GAP])), V)
    shared.note_state()


def aborted_records_are_not_delivered(world: World) -> None:
    shared, producer = _ready(world)
    producer.write(b"a", b"b", topic=shared.topic)
    fill(world, shared.topic, b"between")
    producer.write(b"c", topic=shared.topic, sequence=2)
    producer.abort()
    world.ask(shared.fetch("m", FIRST, 0), V)
    shared.note_state()
    producer.write(b"d", topic=shared.topic)
    producer.commit()
    world.ask(shared.fetch("m", 1), V)
    world.ask(shared.ack("m", 2, (2, 2, [ACCEPT]), (4, 4, [GAP])), V)
    world.ask(shared.ack("m", 3, (5, 5, [ACCEPT]), (6, 6, [GAP])), V)
    shared.note_state()


def only_aborted_records_deliver_nothing(world: World) -> None:
    shared, producer = _ready(world)
    producer.write(b"a", b"b", topic=shared.topic)
    producer.abort()
    world.ask(shared.fetch("m", FIRST, 0), V)
    shared.note_state()
    fill(world, shared.topic, b"later")
    world.ask(shared.fetch("m", 1), V)
    shared.note_state()


def a_client_of_the_old_protocol_writes_for_a_share_group(world: World) -> None:
    shared, producer = _ready(world, OLD)
    producer.add(topic=shared.topic)
    producer.write(b"a", topic=shared.topic)
    world.ask(shared.fetch("m", FIRST, 0), V)
    producer.commit()
    world.ask(shared.fetch("m", 1), V)
    producer.add(topic=shared.topic)
    producer.write(b"b", topic=shared.topic, sequence=1)
    producer.abort()
    world.ask(shared.fetch("m", 2), V)
    shared.note_state()


def a_group_that_reads_uncommitted_gets_all(world: World) -> None:
    shared, producer = _ready(world, committed=False)
    producer.write(b"a", b"b", topic=shared.topic)
    world.ask(shared.fetch("m", FIRST, 0), V)
    producer.abort()
    producer.write(b"c", topic=shared.topic)
    world.ask(shared.fetch("m", 1), V)
    shared.note_state()


def transactions_interleave_before_a_share_group(world: World) -> None:
    shared, producer = _ready(world)
    wait_for_transaction_coordinator(world, f"{world.name}-2")
    other = Transactor(world, f"{world.name}-2", NEW)
    other.init()
    producer.write(b"a1", topic=shared.topic)
    other.write(b"b1", topic=shared.topic)
    producer.write(b"a2", topic=shared.topic, sequence=1)
    other.commit()
    world.ask(shared.fetch("m", FIRST, 0), V)
    producer.abort()
    world.ask(shared.fetch("m", 1), V)
    shared.note_state()
    world.ask(shared.fetch("n", FIRST, 0), V)


SCENARIOS = (
    records_of_open_transactions_are_not_delivered,
    aborted_records_are_not_delivered,
    only_aborted_records_deliver_nothing,
    a_client_of_the_old_protocol_writes_for_a_share_group,
    a_group_that_reads_uncommitted_gets_all,
    transactions_interleave_before_a_share_group,
)
