"""Offsets that are committed within transactions: pending, then true or forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol.messages.offset_delete import OffsetDeleteRequest
from tests.conformance.scenarios.classic_groups import Classic, stable_group
from tests.conformance.scenarios.commits import commit, fetch, fetch_all
from tests.conformance.scenarios.consumer_groups import new_group
from tests.conformance.scenarios.share_groups import Sharers
from tests.conformance.scenarios.streams_groups import Streams, reading
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
    commit_offsets,
    describe,
    in_both_protocols,
)

if TYPE_CHECKING:
    from tests.conformance.world import World

_COMMIT_VERSIONS = range(6)
_FETCH_VERSION = 8
_STABLE_VERSIONS = (7, 8, 9)


def stable(group: str, topic: str, *partitions: int) -> Any:  # noqa: ANN401
    """Ask for offsets that no open transaction may change."""
    request = fetch(group, topic, *partitions or (0,))
    request.require_stable = True
    return request


def _look(world: World, *partitions: int, group: str = "") -> None:
    """Ask for the offsets as everybody may, and as those who need to be sure."""
    name = group or world.name
    world.ask(fetch(name, world.name, *partitions or (0,)), _FETCH_VERSION)
    world.ask(stable(name, world.name, *partitions), _FETCH_VERSION)


def _ready(world: World, protocol: Protocol, partitions: int = 1) -> Transactor:
    create_topic(world, world.name, partitions)
    ready_group(world, world.name)
    return begun(world, protocol)


def _take_part(producer: Transactor, group: str = "") -> None:
    """Do what the old protocol does before it commits offsets."""
    if not producer.is_new:
        producer.add_offsets(group or producer.world.name)


def _is_stable(answer: Any) -> bool:  # noqa: ANN401 - any response class
    (row,) = answer.groups[0].topics[0].partitions
    return bool(row.error_code == ErrorCode.NONE)


def offsets_are_pending_until_the_end(world: World, protocol: Protocol) -> None:
    producer = _ready(world, protocol, 2)
    for is_commit in (ABORT, COMMIT, ABORT, COMMIT):
        _take_part(producer)
        producer.commit_offsets(world.name, 5 + is_commit, 0)
        for version in _STABLE_VERSIONS:
            world.ask(stable(world.name, world.name, 0, 1), version)
        world.ask(fetch(world.name, world.name, 0, 1), _FETCH_VERSION)
        world.ask(fetch_all(world.name), _FETCH_VERSION)
        everything = fetch_all(world.name)
        everything.require_stable = True
        world.ask(everything, _FETCH_VERSION)
        world.ask(describe(world.name), 0)
        producer.end(is_commit=is_commit)
        _look(world, 0, 1)


def offsets_are_committed_in_every_version(world: World) -> None:
    create_topic(world, world.name)
    ready_group(world, world.name)
    for version in _COMMIT_VERSIONS:
        producer = begun(world, OLD._replace(commit_offsets=version), f"{world.name}-{version}")
        # Not yet part of the transaction.
        producer.commit_offsets(world.name, 1)
        producer.add_offsets(world.name)
        producer.commit_offsets(world.name, 10 + version)
        _look(world)
        producer.commit()
        _look(world)
        producer.commit_offsets(world.name, 2)
        world.ask(describe(producer.transactional_id), 0)


def who_commits_offsets_is_checked(world: World) -> None:
    create_topic(world, world.name)
    ready_group(world, world.name)
    for version in _COMMIT_VERSIONS:
        name = f"{world.name}-{version}"
        producer = begun(world, OLD._replace(commit_offsets=version), name)
        producer.init()
        number, epoch = producer.producer
        for stage in ("empty", "open", "part"):
            if stage == "open":
                producer.begin()
            if stage == "part":
                producer.add_offsets(world.name)
            for transactional_id, claimed in (
                (f"{name}-unknown", producer.producer),
                ("", producer.producer),
                (name, Producer(number + 1_000_000, epoch)),
                (name, producer.older),
                (name, producer.newer),
                (name, Producer(-1, -1)),
            ):
                offsets = {world.name: {0: 5}}
                world.ask(commit_offsets(transactional_id, claimed, world.name, offsets), version)
            world.ask(describe(name), 0)
        producer.abort()
    _look(world)


def commits_are_refused_partition_by_partition(world: World) -> None:
    create_topic(world, world.name)
    ready_group(world, world.name)
    missing = f"{world.name}-missing"
    for version in _COMMIT_VERSIONS:
        name = f"{world.name}-{version}"
        producer = begun(world, OLD._replace(commit_offsets=version), name).producer
        begun_with = Transactor(world, name, OLD, producer)
        begun_with.add_offsets(world.name)
        several: tuple[dict[str, dict[int, int]], ...] = (
            {missing: {0: 1}},
            {world.name: {7: 1}},
            {missing: {0: 1}, world.name: {0: 3, 7: 4}},
            {"in valid": {0: 1}},
            {"": {0: 1}},
            {world.name: {-1: 1}},
            {world.name: {}},
            {},
        )
        for offsets in several:
            world.ask(commit_offsets(name, producer, world.name, offsets), version)
        for metadata in ("x" * 4096, "x" * 4097, "", None):
            request = commit_offsets(
                name, producer, world.name, {world.name: {0: 4}}, metadata=metadata
            )
            world.ask(request, version)
        world.ask(commit_offsets(name, producer, world.name, {world.name: {0: -5}}), version)
        world.ask(commit_offsets(name, producer, "", {world.name: {0: 1}}), version)
        begun_with.commit()
        _look(world)


def commits_to_groups_that_are_not_there(world: World) -> None:
    create_topic(world, world.name)
    for version in _COMMIT_VERSIONS:
        group = f"{world.name}-{version}"
        ready_group(world, group)
        producer = begun(world, OLD._replace(commit_offsets=version), group)
        producer.add_offsets(group)
        claims: tuple[dict[str, Any], ...] = (
            {"generation": 1},
            {"generation": 0},
            {"member_id": "m", "generation": 1},
        )
        for claim in claims:
            producer.commit_offsets(group, **claim)
        world.ask(DescribeGroupsRequest(groups=[group]), 5)
        strangers: tuple[dict[str, Any], ...] = ({"member_id": "m"}, {"instance": "i"}, {})
        for claim in strangers:
            producer.commit_offsets(group, **claim)
        world.ask(DescribeGroupsRequest(groups=[group]), 5)
        producer.commit()
        _look(world, group=group)
        world.ask(DescribeGroupsRequest(groups=[group]), 5)


def an_abort_leaves_a_group_that_is_empty(world: World, protocol: Protocol) -> None:
    producer = _ready(world, protocol)
    _take_part(producer)
    producer.commit_offsets(world.name)
    world.ask(DescribeGroupsRequest(groups=[world.name]), 6)
    producer.abort()
    world.ask(DescribeGroupsRequest(groups=[world.name]), 6)
    _look(world)


def members_of_classic_groups_commit(world: World) -> None:
    create_topic(world, world.name)
    group, member, generation = stable_group(world, world.name, world.name)
    for version in _COMMIT_VERSIONS:
        producer = begun(world, OLD._replace(commit_offsets=version), f"{world.name}-{version}")
        producer.add_offsets(world.name)
        for member_id in (member, "nobody", ""):
            for claimed in (generation, generation + 1, generation - 1, -1, -2):
                producer.commit_offsets(world.name, 10, member_id=member_id, generation=claimed)
        producer.commit_offsets(
            world.name, 11, member_id=member, generation=generation, instance="no-such-instance"
        )
        producer.commit()
        _look(world)
    world.ask(group.leave(member), 5)
    producer.add_offsets(world.name)
    claims: tuple[dict[str, Any], ...] = (
        {"member_id": member, "generation": generation},
        {"member_id": "x"},
        {},
    )
    for claim in claims:
        producer.commit_offsets(world.name, 12, **claim)
    producer.abort()


def static_members_commit_by_their_instance(world: World) -> None:
    create_topic(world, world.name)
    ready_group(world, world.name)
    group = Classic(world.name, world.name)
    joined = world.ask(group.join(instance="i-1"), 9)
    member, generation = joined.member_id, joined.generation_id
    world.ask(group.sync(member, generation, member, instance="i-1"), 5)
    for version in _COMMIT_VERSIONS:
        producer = begun(world, OLD._replace(commit_offsets=version), f"{world.name}-{version}")
        producer.add_offsets(world.name)
        for member_id in (member, "wrong", ""):
            for instance in ("i-1", "i-2", None):
                producer.commit_offsets(
                    world.name, member_id=member_id, generation=generation, instance=instance
                )
        producer.commit()


def commits_during_a_rebalance_are_judged(world: World) -> None:
    create_topic(world, world.name)
    group, member, generation = stable_group(world, world.name, world.name)
    refused = world.ask(group.join(), 9, on="second")
    world.send(group.join(refused.member_id), 9, on="second")
    world.settle(group.heartbeat(member, generation), 4, lambda found: found.error_code != 0)
    producer = begun(world, NEW)
    claim: dict[str, Any] = {"member_id": member, "generation": generation}
    producer.commit_offsets(world.name, 5, **claim)
    producer.commit_offsets(world.name, 6)
    joined = world.ask(group.join(member), 9)
    world.hear("second", asked="the join of the second")
    for claimed in (generation, joined.generation_id):
        producer.commit_offsets(world.name, 7, member_id=member, generation=claimed)
    producer.commit_offsets(world.name, 8)
    producer.commit()
    _look(world)


def members_of_consumer_groups_commit(world: World) -> None:
    """Commit at the member's epoch, at ones before and behind it, and as nobody in particular."""
    group = new_group(world, 2)
    first = world.ask(group.join("a"), 1)
    world.ask(group.join("b"), 1)
    told = world.ask(group.heartbeat("a", first.member_epoch, [0, 1]), 1)
    kept = [index for row in told.assignment.topic_partitions for index in row.partitions]
    now = world.ask(group.heartbeat("a", told.member_epoch, kept), 1).member_epoch
    world.note("epochs", [first.member_epoch, now, len(kept)])
    gone = 1 - kept[0]
    for version in _COMMIT_VERSIONS:
        producer = begun(world, OLD._replace(commit_offsets=version), f"{world.name}-{version}")
        producer.add_offsets(group.group)
        for epoch in (now, now + 1, now - 1, 0, -1, -2):
            for partitions in ((kept[0],), (gone,), (0, 1)):
                producer.commit_offsets(
                    group.group,
                    20 + version,
                    *partitions,
                    topic=group.topic,
                    member_id="a",
                    generation=epoch,
                )
        for member_id in ("nobody", ""):
            for epoch in (now, -1):
                producer.commit_offsets(
                    group.group, topic=group.topic, member_id=member_id, generation=epoch
                )
        for instance in ("i-1", ""):
            producer.commit_offsets(
                group.group,
                30 + version,
                kept[0],
                topic=group.topic,
                member_id="a",
                generation=now,
                instance=instance,
            )
            producer.commit_offsets(group.group, topic=group.topic, instance=instance)
        producer.commit()
        world.ask(fetch(group.group, group.topic, 0, 1), _FETCH_VERSION)
    claimed = fetch(group.group, group.topic, 0, member_id="a", epoch=now)
    claimed.require_stable = True
    producer.add_offsets(group.group)
    producer.commit_offsets(group.group, topic=group.topic, member_id="a", generation=now)
    world.ask(claimed, 9)
    producer.abort()
    world.ask(claimed, 9)


def members_of_other_groups_commit(world: World) -> None:
    """Try a streams group, which may, and a share group, which has no offsets to commit."""
    topic_id = create_topic(world, world.name, 2)
    for name in (f"{world.name}-streams", f"{world.name}-share"):
        ready_group(world, name)
    streams = Streams(f"{world.name}-streams", (reading(world.name),))
    joined = world.ask(streams.join("a"), 0)
    sharers = Sharers(f"{world.name}-share", world.name, topic_id)
    world.ask(sharers.join("s"), 1)
    for version in _COMMIT_VERSIONS:
        producer = begun(world, OLD._replace(commit_offsets=version), f"{world.name}-{version}")
        for group in (streams.group, sharers.group):
            producer.add_offsets(group)
            for member_id in ("a", "s", ""):
                for epoch in (joined.member_epoch, joined.member_epoch - 1, 9, -1):
                    producer.commit_offsets(group, 7, 0, 1, member_id=member_id, generation=epoch)
        producer.commit()
        world.ask(fetch(streams.group, world.name, 0, 1), _FETCH_VERSION)
        world.ask(fetch(sharers.group, world.name, 0, 1), _FETCH_VERSION)


def a_plain_commit_comes_between(world: World, protocol: Protocol) -> None:
    """Commit plainly while an offset is pending: who wrote last is right in the end."""
    producer = _ready(world, protocol, 2)
    for is_commit in (COMMIT, ABORT):
        world.ask(commit(world.name, world.name, 0, offset=3), 8)
        _take_part(producer)
        producer.commit_offsets(world.name, 10, 0, 1)
        world.ask(commit(world.name, world.name, 0, offset=20), 8)
        _look(world, 0, 1)
        producer.end(is_commit=is_commit)
        _look(world, 0, 1)
        _take_part(producer)
        producer.commit_offsets(world.name, 30, 0)
        world.ask(commit(world.name, world.name, 0, offset=40), 8)
        producer.commit_offsets(world.name, 50, 0)
        producer.end(is_commit=is_commit)
        _look(world, 0, 1)


def the_last_of_several_commits_counts(world: World, protocol: Protocol) -> None:
    producer = _ready(world, protocol, 3)
    _take_part(producer)
    for offset, partitions in ((1, (0, 1)), (7, (1, 2)), (4, (0,)), (4, (0,))):
        producer.commit_offsets(world.name, offset, *partitions)
        _look(world, 0, 1, 2)
    producer.commit()
    _look(world, 0, 1, 2)


def two_producers_commit_the_same_offset(world: World, protocol: Protocol) -> None:
    first = _ready(world, protocol)
    second = begun(world, protocol, f"{world.name}-second")
    plans = (
        ((first, COMMIT), (second, COMMIT)),
        ((second, COMMIT), (first, COMMIT)),
        ((first, ABORT), (second, COMMIT)),
        ((second, COMMIT), (first, ABORT)),
    )
    for enders in plans:
        for offset, producer in ((5, first), (6, second)):
            _take_part(producer)
            producer.commit_offsets(world.name, offset)
        _look(world)
        for producer, is_commit in enders:
            producer.end(is_commit=is_commit)
            _look(world)


def a_transaction_spans_several_groups(world: World, protocol: Protocol) -> None:
    producer = _ready(world, protocol)
    groups = [f"{world.name}-{letter}" for letter in "abcdef"]
    for is_commit in (ABORT, COMMIT):
        for offset, group in enumerate(groups):
            ready_group(world, group)
            _take_part(producer, group)
            producer.commit_offsets(group, offset)
        producer.begin()
        for group in groups:
            _look(world, group=group)
        producer.end(is_commit=is_commit)
        for group in groups:
            _look(world, group=group)


def a_group_was_not_part_of_the_transaction(world: World) -> None:
    """Commit for groups whose log the old protocol has not brought in."""
    create_topic(world, world.name)
    for version in (0, 3, 4):
        producer = begun(world, OLD._replace(commit_offsets=version), f"{world.name}-{version}")
        ready_group(world, world.name)
        producer.begin()
        producer.commit_offsets(world.name)
        producer.add_offsets(world.name)
        producer.commit_offsets(world.name)
        producer.abort()


def offsets_are_deleted_while_pending(world: World, protocol: Protocol) -> None:
    producer = _ready(world, protocol, 2)
    row = OffsetDeleteRequest.OffsetDeleteRequestPartition
    for is_commit in (COMMIT, ABORT):
        world.ask(commit(world.name, world.name, 0, offset=3), 8)
        _take_part(producer)
        producer.commit_offsets(world.name, 10, 0, 1)
        topic = OffsetDeleteRequest.OffsetDeleteRequestTopic(
            name=world.name, partitions=[row(partition_index=index) for index in (0, 1, 2)]
        )
        world.ask(OffsetDeleteRequest(group_id=world.name, topics=[topic]), 0)
        _look(world, 0, 1)
        producer.end(is_commit=is_commit)
        _look(world, 0, 1)


def groups_are_deleted_while_pending(world: World, protocol: Protocol) -> None:
    producer = _ready(world, protocol)
    for is_commit in (COMMIT, ABORT):
        for is_known in (False, True):
            group = f"{world.name}-{is_commit:d}{is_known:d}"
            ready_group(world, group)
            if is_known:
                world.ask(commit(group, world.name, 0, offset=3), 8)
            _take_part(producer, group)
            producer.commit_offsets(group, 10)
            world.ask(DeleteGroupsRequest(groups_names=[group]), 2)
            _look(world, group=group)
            producer.end(is_commit=is_commit)
            _look(world, group=group)
            world.ask(DescribeGroupsRequest(groups=[group]), 6)
            world.ask(DeleteGroupsRequest(groups_names=[group]), 2)


def a_topic_is_deleted_while_pending(world: World, protocol: Protocol) -> None:
    producer = _ready(world, protocol)
    _take_part(producer)
    producer.commit_offsets(world.name, 10)
    world.ask(DeleteTopicsRequest(topic_names=[world.name], timeout_ms=10_000), 5)

    def is_refused(answer: Any) -> bool:  # noqa: ANN401 - any response class
        (row,) = answer.topics[0].partitions
        return bool(row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    refused = commit_offsets(world.name, producer.older, world.name, {world.name: {0: 5}})
    world.settle(refused, 3, is_refused, note=False)
    # The group hears of it a little later, and forgets what was pending.
    world.settle(stable(world.name, world.name), _FETCH_VERSION, _is_stable, note=False)
    world.ask(fetch_all(world.name), _FETCH_VERSION)
    producer.commit()
    world.ask(fetch_all(world.name), _FETCH_VERSION)


def a_fenced_producer_leaves_no_offsets(world: World, protocol: Protocol) -> None:
    producer = _ready(world, protocol)
    _take_part(producer)
    producer.commit_offsets(world.name, 10)
    zombie = producer.producer
    producer.fence()
    _look(world)
    for version in _COMMIT_VERSIONS:
        speaker = producer.speaking(commit_offsets=version)
        for step in (0, 1):
            claimed = Producer(zombie.producer_id, zombie.producer_epoch + step)
            speaker.commit_offsets(world.name, 11, producer=claimed)
    _take_part(producer)
    producer.commit_offsets(world.name, 12)
    for version in _COMMIT_VERSIONS:
        producer.speaking(commit_offsets=version).commit_offsets(world.name, 13, producer=zombie)
    producer.commit()
    _look(world)


SCENARIOS = (
    *in_both_protocols(offsets_are_pending_until_the_end),
    offsets_are_committed_in_every_version,
    who_commits_offsets_is_checked,
    commits_are_refused_partition_by_partition,
    commits_to_groups_that_are_not_there,
    *in_both_protocols(an_abort_leaves_a_group_that_is_empty),
    members_of_classic_groups_commit,
    static_members_commit_by_their_instance,
    commits_during_a_rebalance_are_judged,
    members_of_consumer_groups_commit,
    members_of_other_groups_commit,
    *in_both_protocols(a_plain_commit_comes_between),
    *in_both_protocols(the_last_of_several_commits_counts),
    *in_both_protocols(two_producers_commit_the_same_offset),
    *in_both_protocols(a_transaction_spans_several_groups),
    a_group_was_not_part_of_the_transaction,
    *in_both_protocols(offsets_are_deleted_while_pending),
    *in_both_protocols(groups_are_deleted_while_pending),
    *in_both_protocols(a_topic_is_deleted_while_pending),
    *in_both_protocols(a_fenced_producer_leaves_no_offsets),
)
