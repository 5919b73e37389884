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
    from tests.conformance.scenario_cluster import ScenarioCluster

_COMMIT_VERSIONS = range(6)
_FETCH_VERSION = 8
_STABLE_VERSIONS = (7, 8, 9)


def stable(group: str, topic: str, *partitions: int) -> Any:  # noqa: ANN401
    """Make an OffsetFetch with `require_stable`."""
    request = fetch(group, topic, *partitions or (0,))
    request.require_stable = True
    return request


def _look(cluster: ScenarioCluster, *partitions: int, group: str = "") -> None:
    """Fetch the offsets with and without `require_stable`."""
    name = group or cluster.name
    cluster.ask(fetch(name, cluster.name, *partitions or (0,)), _FETCH_VERSION)
    cluster.ask(stable(name, cluster.name, *partitions), _FETCH_VERSION)


def _ready(cluster: ScenarioCluster, protocol: Protocol, partitions: int = 1) -> Transactor:
    create_topic(cluster, cluster.name, partitions)
    wait_for_group_coordinator(cluster, cluster.name)
    return start_producer(cluster, protocol)


def _take_part(producer: Transactor, group: str = "") -> None:
    """Add the group to the transaction, as the old protocol requires before offset commits."""
    if not producer.is_new:
        producer.add_offsets(group or producer.cluster.name)


def _is_stable(answer: Any) -> bool:  # noqa: ANN401 - any response class
    (row,) = answer.groups[0].topics[0].partitions
    return bool(row.error_code == ErrorCode.NONE)


def offsets_are_pending_until_the_end(cluster: ScenarioCluster, protocol: Protocol) -> None:
    producer = _ready(cluster, protocol, 2)
    for is_commit in (ABORT, COMMIT, ABORT, COMMIT):
        _take_part(producer)
        producer.commit_offsets(cluster.name, 5 + is_commit, 0)
        for version in _STABLE_VERSIONS:
            cluster.ask(stable(cluster.name, cluster.name, 0, 1), version)
        cluster.ask(fetch(cluster.name, cluster.name, 0, 1), _FETCH_VERSION)
        cluster.ask(fetch_all(cluster.name), _FETCH_VERSION)
        everything = fetch_all(cluster.name)
        everything.require_stable = True
        cluster.ask(everything, _FETCH_VERSION)
        cluster.ask(describe(cluster.name), 0)
        producer.end(is_commit=is_commit)
        _look(cluster, 0, 1)


def offsets_are_committed_in_every_version(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    for version in _COMMIT_VERSIONS:
        producer = start_producer(
            cluster, OLD._replace(commit_offsets=version), f"{cluster.name}-{version}"
        )
        # The group is not yet part of the transaction.
        producer.commit_offsets(cluster.name, 1)
        producer.add_offsets(cluster.name)
        producer.commit_offsets(cluster.name, 10 + version)
        _look(cluster)
        producer.commit()
        _look(cluster)
        producer.commit_offsets(cluster.name, 2)
        cluster.ask(describe(producer.transactional_id), 0)


def producers_of_offset_commits_are_checked(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    for version in _COMMIT_VERSIONS:
        name = f"{cluster.name}-{version}"
        producer = start_producer(cluster, OLD._replace(commit_offsets=version), name)
        producer.init()
        number, epoch = producer.producer
        for stage in ("empty", "open", "part"):
            if stage == "open":
                producer.begin()
            if stage == "part":
                producer.add_offsets(cluster.name)
            for transactional_id, claimed in (
                (f"{name}-unknown", producer.producer),
                ("", producer.producer),
                (name, Producer(number + 1_000_000, epoch)),
                (name, producer.older),
                (name, producer.newer),
                (name, Producer(-1, -1)),
            ):
                offsets = {cluster.name: {0: 5}}
                cluster.ask(
                    commit_offsets(transactional_id, claimed, cluster.name, offsets), version
                )
            cluster.ask(describe(name), 0)
        producer.abort()
    _look(cluster)


def commits_are_refused_per_partition(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    missing = f"{cluster.name}-missing"
    for version in _COMMIT_VERSIONS:
        name = f"{cluster.name}-{version}"
        producer = start_producer(cluster, OLD._replace(commit_offsets=version), name).producer
        begun_with = Transactor(cluster, name, OLD, producer)
        begun_with.add_offsets(cluster.name)
        several: tuple[dict[str, dict[int, int]], ...] = (
            {missing: {0: 1}},
            {cluster.name: {7: 1}},
            {missing: {0: 1}, cluster.name: {0: 3, 7: 4}},
            {"in valid": {0: 1}},
            {"": {0: 1}},
            {cluster.name: {-1: 1}},
            {cluster.name: {}},
            {},
        )
        for offsets in several:
            cluster.ask(commit_offsets(name, producer, cluster.name, offsets), version)
        for metadata in ("x" * 4096, "x" * 4097, "", None):
            request = commit_offsets(
                name, producer, cluster.name, {cluster.name: {0: 4}}, metadata=metadata
            )
            cluster.ask(request, version)
        cluster.ask(commit_offsets(name, producer, cluster.name, {cluster.name: {0: -5}}), version)
        cluster.ask(commit_offsets(name, producer, "", {cluster.name: {0: 1}}), version)
        begun_with.commit()
        _look(cluster)


def commits_to_missing_groups(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for version in _COMMIT_VERSIONS:
        group = f"{cluster.name}-{version}"
        wait_for_group_coordinator(cluster, group)
        producer = start_producer(cluster, OLD._replace(commit_offsets=version), group)
        producer.add_offsets(group)
        claims: tuple[dict[str, Any], ...] = (
            {"generation": 1},
            {"generation": 0},
            {"member_id": "m", "generation": 1},
        )
        for claim in claims:
            producer.commit_offsets(group, **claim)
        cluster.ask(DescribeGroupsRequest(groups=[group]), 5)
        unknown_members: tuple[dict[str, Any], ...] = ({"member_id": "m"}, {"instance": "i"}, {})
        for claim in unknown_members:
            producer.commit_offsets(group, **claim)
        cluster.ask(DescribeGroupsRequest(groups=[group]), 5)
        producer.commit()
        _look(cluster, group=group)
        cluster.ask(DescribeGroupsRequest(groups=[group]), 5)


def an_abort_leaves_an_empty_group(cluster: ScenarioCluster, protocol: Protocol) -> None:
    producer = _ready(cluster, protocol)
    _take_part(producer)
    producer.commit_offsets(cluster.name)
    cluster.ask(DescribeGroupsRequest(groups=[cluster.name]), 6)
    producer.abort()
    cluster.ask(DescribeGroupsRequest(groups=[cluster.name]), 6)
    _look(cluster)


def members_of_classic_groups_commit(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    group, member, generation = stable_group(cluster, cluster.name, cluster.name)
    for version in _COMMIT_VERSIONS:
        producer = start_producer(
            cluster, OLD._replace(commit_offsets=version), f"{cluster.name}-{version}"
        )
        producer.add_offsets(cluster.name)
        for member_id in (member, "unknown", ""):
            for claimed in (generation, generation + 1, generation - 1, -1, -2):
                producer.commit_offsets(cluster.name, 10, member_id=member_id, generation=claimed)
        producer.commit_offsets(
            cluster.name, 11, member_id=member, generation=generation, instance="no-such-instance"
        )
        producer.commit()
        _look(cluster)
    cluster.ask(group.leave(member), 5)
    producer.add_offsets(cluster.name)
    claims: tuple[dict[str, Any], ...] = (
        {"member_id": member, "generation": generation},
        {"member_id": "x"},
        {},
    )
    for claim in claims:
        producer.commit_offsets(cluster.name, 12, **claim)
    producer.abort()


def static_members_commit_in_transactions_by_their_instance(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name, cluster.name)
    joined = cluster.ask(group.join(instance="i-1"), 9)
    member, generation = joined.member_id, joined.generation_id
    cluster.ask(group.sync(member, generation, member, instance="i-1"), 5)
    for version in _COMMIT_VERSIONS:
        producer = start_producer(
            cluster, OLD._replace(commit_offsets=version), f"{cluster.name}-{version}"
        )
        producer.add_offsets(cluster.name)
        for member_id in (member, "wrong", ""):
            for instance in ("i-1", "i-2", None):
                producer.commit_offsets(
                    cluster.name, member_id=member_id, generation=generation, instance=instance
                )
        producer.commit()


def transactional_commits_during_a_rebalance_are_checked(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    group, member, generation = stable_group(cluster, cluster.name, cluster.name)
    refused = cluster.ask(group.join(), 9, on="second")
    cluster.send(group.join(refused.member_id), 9, on="second")
    cluster.call_until(group.heartbeat(member, generation), 4, lambda found: found.error_code != 0)
    producer = start_producer(cluster, NEW)
    claim: dict[str, Any] = {"member_id": member, "generation": generation}
    producer.commit_offsets(cluster.name, 5, **claim)
    producer.commit_offsets(cluster.name, 6)
    joined = cluster.ask(group.join(member), 9)
    cluster.receive("second", title="the join of the second")
    for claimed in (generation, joined.generation_id):
        producer.commit_offsets(cluster.name, 7, member_id=member, generation=claimed)
    producer.commit_offsets(cluster.name, 8)
    producer.commit()
    _look(cluster)


def members_of_consumer_groups_commit(cluster: ScenarioCluster) -> None:
    """Commit at the member's epoch, at earlier and later epochs, and without a member."""
    group = new_group(cluster, 2)
    first = cluster.ask(group.join("a"), 1)
    cluster.ask(group.join("b"), 1)
    response = cluster.ask(group.heartbeat("a", first.member_epoch, [0, 1]), 1)
    owned = [index for row in response.assignment.topic_partitions for index in row.partitions]
    now = cluster.ask(group.heartbeat("a", response.member_epoch, owned), 1).member_epoch
    cluster.record("epochs", [first.member_epoch, now, len(owned)])
    gone = 1 - owned[0]
    for version in _COMMIT_VERSIONS:
        producer = start_producer(
            cluster, OLD._replace(commit_offsets=version), f"{cluster.name}-{version}"
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
        cluster.ask(fetch(group.group, group.topic, 0, 1), _FETCH_VERSION)
    claimed = fetch(group.group, group.topic, 0, member_id="a", epoch=now)
    claimed.require_stable = True
    producer.add_offsets(group.group)
    producer.commit_offsets(group.group, topic=group.topic, member_id="a", generation=now)
    cluster.ask(claimed, 9)
    producer.abort()
    cluster.ask(claimed, 9)


def members_of_other_groups_commit(cluster: ScenarioCluster) -> None:
    """Commit to a streams group, and to a share group, which has no offsets."""
    topic_id = create_topic(cluster, cluster.name, 2)
    for name in (f"{cluster.name}-streams", f"{cluster.name}-share"):
        wait_for_group_coordinator(cluster, name)
    streams = Streams(f"{cluster.name}-streams", (reading(cluster.name),))
    joined = cluster.ask(streams.join("a"), 0)
    sharers = Sharers(f"{cluster.name}-share", cluster.name, topic_id)
    cluster.ask(sharers.join("s"), 1)
    for version in _COMMIT_VERSIONS:
        producer = start_producer(
            cluster, OLD._replace(commit_offsets=version), f"{cluster.name}-{version}"
        )
        for group in (streams.group, sharers.group):
            producer.add_offsets(group)
            for member_id in ("a", "s", ""):
                for epoch in (joined.member_epoch, joined.member_epoch - 1, 9, -1):
                    producer.commit_offsets(group, 7, 0, 1, member_id=member_id, generation=epoch)
        producer.commit()
        cluster.ask(fetch(streams.group, cluster.name, 0, 1), _FETCH_VERSION)
        cluster.ask(fetch(sharers.group, cluster.name, 0, 1), _FETCH_VERSION)


def a_plain_commit_supersedes_a_pending_offset(
    cluster: ScenarioCluster, protocol: Protocol
) -> None:
    """Commit without a transaction while an offset is pending: the last write is valid."""
    producer = _ready(cluster, protocol, 2)
    for is_commit in (COMMIT, ABORT):
        cluster.ask(commit(cluster.name, cluster.name, 0, offset=3), 8)
        _take_part(producer)
        producer.commit_offsets(cluster.name, 10, 0, 1)
        cluster.ask(commit(cluster.name, cluster.name, 0, offset=20), 8)
        _look(cluster, 0, 1)
        producer.end(is_commit=is_commit)
        _look(cluster, 0, 1)
        _take_part(producer)
        producer.commit_offsets(cluster.name, 30, 0)
        cluster.ask(commit(cluster.name, cluster.name, 0, offset=40), 8)
        producer.commit_offsets(cluster.name, 50, 0)
        producer.end(is_commit=is_commit)
        _look(cluster, 0, 1)


def the_last_of_several_commits_is_valid(cluster: ScenarioCluster, protocol: Protocol) -> None:
    producer = _ready(cluster, protocol, 3)
    _take_part(producer)
    for offset, partitions in ((1, (0, 1)), (7, (1, 2)), (4, (0,)), (4, (0,))):
        producer.commit_offsets(cluster.name, offset, *partitions)
        _look(cluster, 0, 1, 2)
    producer.commit()
    _look(cluster, 0, 1, 2)


def two_producers_commit_the_same_offset(cluster: ScenarioCluster, protocol: Protocol) -> None:
    first = _ready(cluster, protocol)
    second = start_producer(cluster, protocol, f"{cluster.name}-second")
    plans = (
        ((first, COMMIT), (second, COMMIT)),
        ((second, COMMIT), (first, COMMIT)),
        ((first, ABORT), (second, COMMIT)),
        ((second, COMMIT), (first, ABORT)),
    )
    for enders in plans:
        for offset, producer in ((5, first), (6, second)):
            _take_part(producer)
            producer.commit_offsets(cluster.name, offset)
        _look(cluster)
        for producer, is_commit in enders:
            producer.end(is_commit=is_commit)
            _look(cluster)


def a_transaction_spans_several_groups(cluster: ScenarioCluster, protocol: Protocol) -> None:
    producer = _ready(cluster, protocol)
    groups = [f"{cluster.name}-{letter}" for letter in "abcdef"]
    for is_commit in (ABORT, COMMIT):
        for offset, group in enumerate(groups):
            wait_for_group_coordinator(cluster, group)
            _take_part(producer, group)
            producer.commit_offsets(group, offset)
        producer.begin()
        for group in groups:
            _look(cluster, group=group)
        producer.end(is_commit=is_commit)
        for group in groups:
            _look(cluster, group=group)


def a_group_outside_the_transaction(cluster: ScenarioCluster) -> None:
    """Commit for groups that were not added to the transaction in the old protocol."""
    create_topic(cluster, cluster.name)
    for version in (0, 3, 4):
        producer = start_producer(
            cluster, OLD._replace(commit_offsets=version), f"{cluster.name}-{version}"
        )
        wait_for_group_coordinator(cluster, cluster.name)
        producer.begin()
        producer.commit_offsets(cluster.name)
        producer.add_offsets(cluster.name)
        producer.commit_offsets(cluster.name)
        producer.abort()


def offsets_are_deleted_while_pending(cluster: ScenarioCluster, protocol: Protocol) -> None:
    producer = _ready(cluster, protocol, 2)
    row = OffsetDeleteRequest.OffsetDeleteRequestPartition
    for is_commit in (COMMIT, ABORT):
        cluster.ask(commit(cluster.name, cluster.name, 0, offset=3), 8)
        _take_part(producer)
        producer.commit_offsets(cluster.name, 10, 0, 1)
        topic = OffsetDeleteRequest.OffsetDeleteRequestTopic(
            name=cluster.name, partitions=[row(partition_index=index) for index in (0, 1, 2)]
        )
        cluster.ask(OffsetDeleteRequest(group_id=cluster.name, topics=[topic]), 0)
        _look(cluster, 0, 1)
        producer.end(is_commit=is_commit)
        _look(cluster, 0, 1)


def groups_are_deleted_while_pending(cluster: ScenarioCluster, protocol: Protocol) -> None:
    producer = _ready(cluster, protocol)
    for is_commit in (COMMIT, ABORT):
        for is_known in (False, True):
            group = f"{cluster.name}-{is_commit:d}{is_known:d}"
            wait_for_group_coordinator(cluster, group)
            if is_known:
                cluster.ask(commit(group, cluster.name, 0, offset=3), 8)
            _take_part(producer, group)
            producer.commit_offsets(group, 10)
            cluster.ask(DeleteGroupsRequest(groups_names=[group]), 2)
            _look(cluster, group=group)
            producer.end(is_commit=is_commit)
            _look(cluster, group=group)
            cluster.ask(DescribeGroupsRequest(groups=[group]), 6)
            cluster.ask(DeleteGroupsRequest(groups_names=[group]), 2)


def a_topic_is_deleted_while_pending(cluster: ScenarioCluster, protocol: Protocol) -> None:
    producer = _ready(cluster, protocol)
    _take_part(producer)
    producer.commit_offsets(cluster.name, 10)
    cluster.ask(DeleteTopicsRequest(topic_names=[cluster.name], timeout_ms=10_000), 5)

    def is_refused(answer: Any) -> bool:  # noqa: ANN401 - any response class
        (row,) = answer.topics[0].partitions
        return bool(row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    refused = commit_offsets(cluster.name, producer.older, cluster.name, {cluster.name: {0: 5}})
    cluster.call_until(refused, 3, is_refused, is_recorded=False)
    # The group is notified a little later and drops the pending offsets.
    cluster.call_until(
        stable(cluster.name, cluster.name), _FETCH_VERSION, _is_stable, is_recorded=False
    )
    cluster.ask(fetch_all(cluster.name), _FETCH_VERSION)
    producer.commit()
    cluster.ask(fetch_all(cluster.name), _FETCH_VERSION)


def a_fenced_producer_leaves_no_offsets(cluster: ScenarioCluster, protocol: Protocol) -> None:
    producer = _ready(cluster, protocol)
    _take_part(producer)
    producer.commit_offsets(cluster.name, 10)
    zombie = producer.producer
    producer.fence()
    _look(cluster)
    for version in _COMMIT_VERSIONS:
        speaker = producer.with_versions(commit_offsets=version)
        for step in (0, 1):
            claimed = Producer(zombie.producer_id, zombie.producer_epoch + step)
            speaker.commit_offsets(cluster.name, 11, producer=claimed)
    _take_part(producer)
    producer.commit_offsets(cluster.name, 12)
    for version in _COMMIT_VERSIONS:
        producer.with_versions(commit_offsets=version).commit_offsets(
            cluster.name, 13, producer=zombie
        )
    producer.commit()
    _look(cluster)


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
