"""Offsets that are committed in transactions: pending, then committed or aborted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.offset_delete import OffsetDeleteRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.scenarios.classic_groups import Classic, stable_group
from tests.conformance.scenarios.commits import commit, fetch, fetch_all
from tests.conformance.scenarios.consumer_groups import new_group
from tests.conformance.scenarios.share_groups import Sharers
from tests.conformance.scenarios.streams_groups import Streams, reading
from tests.conformance.setup import create_topic, wait_for_group_coordinator
from tests.conformance.transactional_producer import (
    ABORT,
    COMMIT,
    NEW,
    OLD,
    Producer,
    Protocol,
    Transactor,
    commit_offsets,
    describe,
    in_both_protocols,
    start_producer,
)

if TYPE_CHECKING:
    from tests.conformance.world import World

_COMMIT_VERSIONS = range(6)
_FETCH_VERSION = 8
_STABLE_VERSIONS = (7, 8, 9)


def stable(group: str, topic: str, *partitions: int) -> Any:  # noqa: ANN401
    """Make an OffsetFetch with `require_stable`."""
    request = fetch(group, topic, *partitions or (0,))
    request.require_stable = True
    return request


def _look(world: World, *partitions: int, group: str = "") -> None:
    """Fetch the offsets with and without `require_stable`."""
    name = group or world.name
    world.ask(fetch(name, world.name, *partitions or (0,)), _FETCH_VERSION)
    world.ask(stable(name, world.name, *partitions), _FETCH_VERSION)


def _ready(world: World, protocol: Protocol, partitions: int = 1) -> Transactor:
    create_topic(world, world.name, partitions)
    wait_for_group_coordinator(world, world.name)
    return start_producer(world, protocol)


def _take_part(producer: Transactor, group: str = "") -> None:
    """Add the group to the transaction, as the old protocol requires before offset commits."""
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
    wait_for_group_coordinator(world, world.name)
    for version in _COMMIT_VERSIONS:
        producer = start_producer(
            world, OLD._replace(commit_offsets=version), f"{world.name}-{version}"
        )
        # The group is not yet part of the transaction.
        producer.commit_offsets(world.name, 1)
        producer.add_offsets(world.name)
        producer.commit_offsets(world.name, 10 + version)
        _look(world)
        producer.commit()
        _look(world)
        producer.commit_offsets(world.name, 2)
        world.ask(describe(producer.transactional_id), 0)


def producers_of_offset_commits_are_checked(world: World) -> None:
    create_topic(world, world.name)
    wait_for_group_coordinator(world, world.name)
    for version in _COMMIT_VERSIONS:
        name = f"{world.name}-{version}"
        producer = start_producer(world, OLD._replace(commit_offsets=version), name)
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


def commits_are_refused_per_partition(world: World) -> None:
    create_topic(world, world.name)
    wait_for_group_coordinator(world, world.name)
    missing = f"{world.name}-missing"
    for version in _COMMIT_VERSIONS:
        name = f"{world.name}-{version}"
        producer = start_producer(world, OLD._replace(commit_offsets=version), name).producer
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


def commits_to_missing_groups(world: World) -> None:
    create_topic(world, world.name)
    for version in _COMMIT_VERSIONS:
        group = f"{world.name}-{version}"
        wait_for_group_coordinator(world, group)
        producer = start_producer(world, OLD._replace(commit_offsets=version), group)
        producer.add_offsets(group)
        claims: tuple[dict[str, Any], ...] = (
            {"generation": 1},
            {"generation": 0},
            {"member_id": "m", "generation": 1},
        )
        for claim in claims:
            producer.commit_offsets(group, **claim)
        world.ask(DescribeGroupsRequest(groups=[group]), 5)
        unknown_members: tuple[dict[str, Any], ...] = ({"member_id": "m"}, {"instance": "i"}, {})
        for claim in unknown_members:
            producer.commit_offsets(group, **claim)
        world.ask(DescribeGroupsRequest(groups=[group]), 5)
        producer.commit()
        _look(world, group=group)
        world.ask(DescribeGroupsRequest(groups=[group]), 5)


def an_abort_leaves_an_empty_group(world: World, protocol: Protocol) -> None:
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
        producer = start_producer(
            world, OLD._replace(commit_offsets=version), f"{world.name}-{version}"
        )
        producer.add_offsets(world.name)
        for member_id in (member, "unknown", ""):
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


def static_members_commit_in_transactions_by_their_instance(world: World) -> None:
    create_topic(world, world.name)
    wait_for_group_coordinator(world, world.name)
    group = Classic(world.name, world.name)
    joined = world.ask(group.join(instance="i-1"), 9)
    member, generation = joined.member_id, joined.generation_id
    world.ask(group.sync(member, generation, member, instance="i-1"), 5)
    for version in _COMMIT_VERSIONS:
        producer = start_producer(
            world, OLD._replace(commit_offsets=version), f"{world.name}-{version}"
        )
        producer.add_offsets(world.name)
        for member_id in (member, "wrong", ""):
            for instance in ("i-1", "i-2", None):
                producer.commit_offsets(
                    world.name, member_id=member_id, generation=generation, instance=instance
                )
        producer.commit()


def transactional_commits_during_a_rebalance_are_checked(world: World) -> None:
    create_topic(world, world.name)
    group, member, generation = stable_group(world, world.name, world.name)
    refused = world.ask(group.join(), 9, on="second")
    world.send(group.join(refused.member_id), 9, on="second")
    world.call_until(group.heartbeat(member, generation), 4, lambda found: found.error_code != 0)
    producer = start_producer(world, NEW)
    claim: dict[str, Any] = {"member_id": member, "generation": generation}
    producer.commit_offsets(world.name, 5, **claim)
    producer.commit_offsets(world.name, 6)
    joined = world.ask(group.join(member), 9)
    world.receive("second", title="the join of the second")
    for claimed in (generation, joined.generation_id):
        producer.commit_offsets(world.name, 7, member_id=member, generation=claimed)
    producer.commit_offsets(world.name, 8)
    producer.commit()
    _look(world)


def members_of_consumer_groups_commit(world: World) -> None:
    """Commit at the member's epoch, at earlier and later epochs, and without a member."""
    group = new_group(world, 2)
    first = world.ask(group.join("a"), 1)
    world.ask(group.join("b"), 1)
    response = world.ask(group.heartbeat("a", first.member_epoch, [0, 1]), 1)
    owned = [index for row in response.assignment.topic_partitions for index in row.partitions]
    now = world.ask(group.heartbeat("a", response.member_epoch, owned), 1).member_epoch
    world.record("epochs", [first.member_epoch, now, len(owned)])
    gone = 1 - owned[0]
    for version in _COMMIT_VERSIONS:
        producer = start_producer(
            world, OLD._replace(commit_offsets=version), f"{world.name}-{version}"
        )
        producer.add_offsets(group.group)
        for epoch in (now, now + 1, now - 1, 0, -1, -2):
            for partitions in ((owned[0],), (gone,), (0, 1)):
                producer.commit_offsets(
                    group.group,
                    20 + version,
                    *partitions,
                    topic=group.topic,
                    member_id="a",
                    generation=epoch,
                )
        for member_id in ("unknown", ""):
            for epoch in (now, -1):
                producer.commit_offsets(
                    group.group, topic=group.topic, member_id=member_id, generation=epoch
                )
        for instance in ("i-1", ""):
            producer.commit_offsets(
                group.group,
                30 + version,
                owned[0],
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
    """Commit to a streams group, and to a share group, which has no offsets."""
    topic_id = create_topic(world, world.name, 2)
    for name in (f"{world.name}-streams", f"{world.name}-share"):
        wait_for_group_coordinator(world, name)
    streams = Streams(f"{world.name}-streams", (reading(world.name),))
    joined = world.ask(streams.join("a"), 0)
    sharers = Sharers(f"{world.name}-share", world.name, topic_id)
    world.ask(sharers.join("s"), 1)
    for version in _COMMIT_VERSIONS:
        producer = start_producer(
            world, OLD._replace(commit_offsets=version), f"{world.name}-{version}"
        )
        for group in (streams.group, sharers.group):
            producer.add_offsets(group)
            for member_id in ("a", "s", ""):
                for epoch in (joined.member_epoch, joined.member_epoch - 1, 9, -1):
                    producer.commit_offsets(group, 7, 0, 1, member_id=member_id, generation=epoch)
        producer.commit()
        world.ask(fetch(streams.group, world.name, 0, 1), _FETCH_VERSION)
        world.ask(fetch(sharers.group, world.name, 0, 1), _FETCH_VERSION)


def a_plain_commit_supersedes_a_pending_offset(world: World, protocol: Protocol) -> None:
    """Commit without a transaction while an offset is pending: the last write is valid."""
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


def the_last_of_several_commits_is_valid(world: World, protocol: Protocol) -> None:
    producer = _ready(world, protocol, 3)
    _take_part(producer)
    for offset, partitions in ((1, (0, 1)), (7, (1, 2)), (4, (0,)), (4, (0,))):
        producer.commit_offsets(world.name, offset, *partitions)
        _look(world, 0, 1, 2)
    producer.commit()
    _look(world, 0, 1, 2)


def two_producers_commit_the_same_offset(world: World, protocol: Protocol) -> None:
    first = _ready(world, protocol)
    second = start_producer(world, protocol, f"{world.name}-second")
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
            wait_for_group_coordinator(world, group)
            _take_part(producer, group)
            producer.commit_offsets(group, offset)
        producer.begin()
        for group in groups:
            _look(world, group=group)
        producer.end(is_commit=is_commit)
        for group in groups:
            _look(world, group=group)


def a_group_outside_the_transaction(world: World) -> None:
    """Commit for groups that were not added to the transaction in the old protocol."""
    create_topic(world, world.name)
    for version in (0, 3, 4):
        producer = start_producer(
            world, OLD._replace(commit_offsets=version), f"{world.name}-{version}"
        )
        wait_for_group_coordinator(world, world.name)
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
            wait_for_group_coordinator(world, group)
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
    world.call_until(refused, 3, is_refused, is_recorded=False)
    # The group is notified a little later and drops the pending offsets.
    world.call_until(stable(world.name, world.name), _FETCH_VERSION, _is_stable, is_recorded=False)
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
        speaker = producer.with_versions(commit_offsets=version)
        for step in (0, 1):
            claimed = Producer(zombie.producer_id, zombie.producer_epoch + step)
            speaker.commit_offsets(world.name, 11, producer=claimed)
    _take_part(producer)
    producer.commit_offsets(world.name, 12)
    for version in _COMMIT_VERSIONS:
        producer.with_versions(commit_offsets=version).commit_offsets(
            world.name, 13, producer=zombie
        )
    producer.commit()
    _look(world)


SCENARIOS = (
    *in_both_protocols(offsets_are_pending_until_the_end),
    offsets_are_committed_in_every_version,
    producers_of_offset_commits_are_checked,
    commits_are_refused_per_partition,
    commits_to_missing_groups,
    *in_both_protocols(an_abort_leaves_an_empty_group),
    members_of_classic_groups_commit,
    static_members_commit_in_transactions_by_their_instance,
    transactional_commits_during_a_rebalance_are_checked,
    members_of_consumer_groups_commit,
    members_of_other_groups_commit,
    *in_both_protocols(a_plain_commit_supersedes_a_pending_offset),
    *in_both_protocols(the_last_of_several_commits_is_valid),
    *in_both_protocols(two_producers_commit_the_same_offset),
    *in_both_protocols(a_transaction_spans_several_groups),
    a_group_outside_the_transaction,
    *in_both_protocols(offsets_are_deleted_while_pending),
    *in_both_protocols(groups_are_deleted_while_pending),
    *in_both_protocols(a_topic_is_deleted_while_pending),
    *in_both_protocols(a_fenced_producer_leaves_no_offsets),
)
