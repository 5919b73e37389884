"""Records coming out: Fetch in every version, its limits, its waiting and its sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.messages.fetch import FetchRequest
from tests.conformance.batches import batch
from tests.conformance.setup import UNKNOWN_ID, create_topic, fill, produce

if TYPE_CHECKING:
    from tests.conformance.world import World

_BY_ID = 13
_MANY_BYTES = 1 << 20
_LONG_MS = 10_000


def _partition(index: int = 0, offset: int = 0, **fields: int) -> FetchRequest.FetchPartition:
    row = FetchRequest.FetchPartition(
        partition=index, fetch_offset=offset, partition_max_bytes=_MANY_BYTES
    )
    for name, value in fields.items():
        setattr(row, name, value)
    return row


def _fetch(
    topic: str | bytes,
    *partitions: FetchRequest.FetchPartition,
    max_wait_ms: int = 0,
    min_bytes: int = 0,
    max_bytes: int = _MANY_BYTES,
    session_id: int = 0,
    session_epoch: int = -1,
) -> FetchRequest:
    """Ask for partitions of one topic, by name or (v13) by id."""
    named = FetchRequest.FetchTopic(partitions=list(partitions))
    if isinstance(topic, bytes):
        named.topic_id = topic
    else:
        named.topic = topic
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[named] if partitions else [],
    )


def records_are_fetched_in_every_version(world: World) -> None:
    topic_id = create_topic(world, world.name)
    fill(world, world.name, b"a", b"b")
    fill(world, world.name, b"c")
    for version in range(4, 19):
        topic: str | bytes = topic_id if version >= _BY_ID else world.name
        for offset in (0, 1, 2, 3):
            world.ask(_fetch(topic, _partition(offset=offset)), version)


def offsets_outside_the_log_are_refused(world: World) -> None:
    create_topic(world, world.name)
    fill(world, world.name, b"a", b"b")
    for version in (4, 11, 12):
        for offset in (3, 99, -1, -2):
            world.ask(_fetch(world.name, _partition(offset=offset)), version)


def fetching_from_strangers_is_refused(world: World) -> None:
    topic_id = create_topic(world, world.name)
    for version in (4, 7, 12):
        world.ask(_fetch(f"{world.name}-missing", _partition()), version)
        world.ask(_fetch(world.name, _partition(7)), version)
    for version in (13, 17):
        world.ask(_fetch(UNKNOWN_ID, _partition()), version)
        world.ask(_fetch(topic_id, _partition(7)), version)
        world.ask(_fetch(bytes(16), _partition()), version)


def at_least_one_batch_is_given(world: World) -> None:
    create_topic(world, world.name, partitions=2)
    for partition in (0, 1):
        fill(world, world.name, b"x" * 1000, partition=partition)
        fill(world, world.name, b"y" * 1000, partition=partition)
    for version in (4, 12):
        world.ask(_fetch(world.name, _partition(), _partition(1), max_bytes=1), version)
        small = [_partition(index, partition_max_bytes=1) for index in (0, 1)]
        world.ask(_fetch(world.name, *small), version)
        world.ask(_fetch(world.name, *reversed(small)), version)
        exact = _partition(partition_max_bytes=1080)
        world.ask(_fetch(world.name, exact, _partition(1, partition_max_bytes=0)), version)


def leader_epochs_are_checked(world: World) -> None:
    topic_id = create_topic(world, world.name)
    fill(world, world.name, b"a")
    for epoch in (-1, 0, 1, 9, -2):
        world.ask(_fetch(world.name, _partition(current_leader_epoch=epoch)), 12)
        world.ask(_fetch(topic_id, _partition(current_leader_epoch=epoch)), 16)
    for last_epoch in (-1, 0, 3):
        row = _partition(offset=1, last_fetched_epoch=last_epoch)
        world.ask(_fetch(world.name, row), 12)


def isolation_makes_no_difference_without_transactions(world: World) -> None:
    create_topic(world, world.name)
    fill(world, world.name, b"a")
    for level in (0, 1):
        for version in (4, 12):
            request = _fetch(world.name, _partition())
            request.isolation_level = level
            world.ask(request, version)


def a_fetch_waits_for_enough_bytes(world: World) -> None:
    topic_id = create_topic(world, world.name)
    fill(world, world.name, b"a")
    for version, topic in ((11, world.name), (16, topic_id)):
        end = 1 if version == 11 else 2  # each round appends one record
        waiting = _fetch(topic, _partition(offset=end), max_wait_ms=_LONG_MS, min_bytes=1)
        world.send(waiting, version, on="waiting")
        world.ask(produce(world.name, batch(b"b")), 9)
        world.hear("waiting", asked=f"the fetch v{version} that waited")


def a_fetch_ends_when_its_time_is_over(world: World) -> None:
    create_topic(world, world.name)
    fill(world, world.name, b"a")
    for version in (4, 12):
        patient = _fetch(world.name, _partition(offset=1), max_wait_ms=100, min_bytes=1)
        world.ask(patient, version)
        greedy = _fetch(world.name, _partition(), max_wait_ms=100, min_bytes=_MANY_BYTES)
        world.ask(greedy, version)


def an_unknown_partition_does_not_end_the_waiting(world: World) -> None:
    create_topic(world, world.name)
    fill(world, world.name, b"a")
    rows = [_partition(offset=1), _partition(7)]
    world.ask(_fetch(world.name, *rows, max_wait_ms=200, min_bytes=1), 12)
    rows = [_partition(offset=1), _partition(1, offset=9)]
    world.ask(_fetch(world.name, *rows, max_wait_ms=200, min_bytes=1), 12)


def a_session_tells_only_what_changed(world: World) -> None:
    topic_id = create_topic(world, world.name, partitions=2)
    fill(world, world.name, b"a")
    rows = [_partition(), _partition(1)]
    for version, topic in ((12, world.name), (16, topic_id)):
        first = world.ask(_fetch(topic, *rows, session_epoch=0), version)
        session = first.session_id
        world.note("has a session", session != 0)
        same = _fetch(topic, session_id=session, session_epoch=1)
        world.ask(same, version)
        moved = _fetch(topic, _partition(offset=1), session_id=session, session_epoch=2)
        world.ask(moved, version)
        fill(world, world.name, b"b", partition=1)
        world.ask(_fetch(topic, session_id=session, session_epoch=3), version)
        forget = _fetch(topic, session_id=session, session_epoch=4)
        row = FetchRequest.ForgottenTopic(partitions=[1])
        if isinstance(topic, bytes):
            row.topic_id = topic
        else:
            row.topic = topic
        forget.forgotten_topics_data = [row]
        world.ask(forget, version)
        fill(world, world.name, b"c", partition=1)
        world.ask(_fetch(topic, session_id=session, session_epoch=5), version)
        world.ask(_fetch(topic, session_id=session, session_epoch=-1), version)
        world.ask(_fetch(topic, session_id=session, session_epoch=6), version)


def sessions_are_checked(world: World) -> None:
    create_topic(world, world.name)
    fill(world, world.name, b"a")
    for version in (7, 12):
        world.ask(_fetch(world.name, session_id=987_654, session_epoch=1), version)
        first = world.ask(_fetch(world.name, _partition(), session_epoch=0), version)
        session = first.session_id
        world.ask(_fetch(world.name, session_id=session, session_epoch=5), version)
        world.ask(_fetch(world.name, session_id=session, session_epoch=1), version)
        world.ask(_fetch(world.name, session_id=session, session_epoch=1), version)
        again = _fetch(world.name, _partition(), session_id=session, session_epoch=0)
        world.ask(again, version)
        world.ask(_fetch(world.name, session_id=session, session_epoch=2), version)
        world.ask(_fetch(world.name, session_id=0, session_epoch=3), version)


def a_session_remembers_unknown_topics(world: World) -> None:
    create_topic(world, world.name)
    fill(world, world.name, b"a")
    first = world.ask(_fetch(f"{world.name}-missing", _partition(), session_epoch=0), 12)
    world.ask(_fetch(world.name, session_id=first.session_id, session_epoch=1), 12)
    by_id = world.ask(_fetch(UNKNOWN_ID, _partition(), session_epoch=0), 16)
    world.ask(_fetch(b"", session_id=by_id.session_id, session_epoch=1), 16)


def replicas_that_are_none_are_refused(world: World) -> None:
    create_topic(world, world.name)
    fill(world, world.name, b"a")
    request = _fetch(world.name, _partition())
    request.replica_id = 9
    world.ask(request, 12)


SCENARIOS = (
    records_are_fetched_in_every_version,
    offsets_outside_the_log_are_refused,
    fetching_from_strangers_is_refused,
    at_least_one_batch_is_given,
    leader_epochs_are_checked,
    isolation_makes_no_difference_without_transactions,
    a_fetch_waits_for_enough_bytes,
    a_fetch_ends_when_its_time_is_over,
    an_unknown_partition_does_not_end_the_waiting,
    a_session_tells_only_what_changed,
    sessions_are_checked,
    a_session_remembers_unknown_topics,
    replicas_that_are_none_are_refused,
)
