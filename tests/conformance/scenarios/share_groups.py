"""Share groups (KIP-932): membership, assignments and errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.create_partitions import CreatePartitionsRequest
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
)
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.protocol._generated.messages.offset_delete import OffsetDeleteRequest
from kafkalite.protocol._generated.messages.share_group_describe import ShareGroupDescribeRequest
from kafkalite.protocol._generated.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkalite.protocol.uuids import uuid_to_text
from tests.conformance.scenarios.commits import commit, fetch
from tests.conformance.scenarios.configs import GROUP, SET, alter, settled
from tests.conformance.scenarios.group_waits import until
from tests.conformance.setup import create_topic, wait_for_group_coordinator, wait_for_metadata

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

V1 = 1
LEAVE = -1
_KEYS_IN_A_LIST = 4


@dataclass(frozen=True, slots=True)
class Sharers:
    """Heartbeats of one share group's members."""

    group: str
    topic: str
    topic_id: bytes

    def join(self, member: str, *topics: str, **fields: Any) -> ShareGroupHeartbeatRequest:  # noqa: ANN401
        """Make a first heartbeat."""
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=member,
            member_epoch=0,
            subscribed_topic_names=list(topics or (self.topic,)),
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    def beat(self, member: str, epoch: int, **fields: Any) -> ShareGroupHeartbeatRequest:  # noqa: ANN401
        """Make a later heartbeat, which has only changed fields."""
        request = ShareGroupHeartbeatRequest(
            group_id=self.group, member_id=member, member_epoch=epoch
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    def given(self, cluster: ScenarioCluster, member: str, epoch: int) -> Any:  # noqa: ANN401
        """Send heartbeats until a response has an assignment; it is in the transcript."""
        return cluster.call_until(
            self.beat(member, epoch), V1, lambda response: response.assignment is not None
        )

    def reach(self, cluster: ScenarioCluster, epoch: int, **members: int) -> None:
        """Send heartbeats until the group and these members have an epoch; nothing is noted."""
        standing = dict(members)
        for member in members:
            while standing[member] != epoch:
                response = cluster.call_until(
                    self.beat(member, standing[member]),
                    V1,
                    partial(_is_further, standing[member]),
                    is_recorded=False,
                )
                assert standing[member] < response.member_epoch <= epoch, response
                standing[member] = response.member_epoch


def _is_further(epoch: int, response: Any) -> bool:  # noqa: ANN401 - any response class
    further: bool = response.member_epoch > epoch
    return further


def wait_for_coordinator_to_know(cluster: ScenarioCluster, group: str, topic: str) -> None:
    """Wait until the group coordinator knows a topic; in Kafka it gets topics last."""
    row = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    requested = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic(
        topic_name=topic, partitions=[]
    )
    cluster.call_until(
        DescribeShareGroupOffsetsRequest(groups=[row(group_id=group, topics=[requested])]),
        1,
        # A known topic without requested partitions has no row, an unknown topic has one.
        lambda response: not response.groups[0].topics,
        is_recorded=False,
    )


def new_share_group(cluster: ScenarioCluster, partitions: int = 4, name: str = "") -> Sharers:
    """Create a topic and get a coordinator for a group that will share it."""
    group = name or cluster.name
    topic_id = create_topic(cluster, f"{group}-topic", partitions)
    wait_for_group_coordinator(cluster, group)
    wait_for_coordinator_to_know(cluster, group, f"{group}-topic")
    return Sharers(group, f"{group}-topic", topic_id)


def sharing(cluster: ScenarioCluster, partitions: int = 4, name: str = "") -> tuple[Sharers, int]:
    """Create a topic and a group of one member; return the group and the member epoch."""
    group = new_share_group(cluster, partitions, name)
    joined = cluster.ask(group.join("a"), V1)
    return group, group.given(cluster, "a", joined.member_epoch).member_epoch


def emptied(cluster: ScenarioCluster, partitions: int = 2, name: str = "") -> Sharers:
    """Create a group whose only member has left."""
    group, _ = sharing(cluster, partitions, name)
    cluster.ask(group.beat("a", LEAVE), V1)
    return group


def described(cluster: ScenarioCluster, *groups: str) -> None:
    cluster.ask(ShareGroupDescribeRequest(group_ids=list(groups)), V1)


def members_join_and_leave_a_share_group(cluster: ScenarioCluster) -> None:
    group = new_share_group(cluster)
    described(cluster, group.group)
    joined = cluster.ask(group.join("a", rack_id="rack-1"), V1)
    response = group.given(cluster, "a", joined.member_epoch)
    described(cluster, group.group)
    epoch = response.member_epoch
    cluster.ask(group.beat("a", epoch), V1)
    cluster.ask(group.beat("a", epoch - 1), V1)
    cluster.ask(group.beat("a", epoch, subscribed_topic_names=[group.topic]), V1)
    cluster.ask(group.join("a"), V1)
    cluster.ask(group.beat("a", LEAVE), V1)
    described(cluster, group.group)
    cluster.ask(group.beat("a", epoch), V1)
    cluster.ask(group.beat("a", LEAVE), V1)


def first_share_heartbeats_are_checked(cluster: ScenarioCluster) -> None:
    group = new_share_group(cluster)
    wrongs: tuple[dict[str, Any], ...] = (
        {"group_id": ""},
        {"group_id": " "},
        {"member_id": ""},
        {"member_id": " "},
        {"member_id": "m" * 37},
        {"member_id": "m" * 30_000},
        {"rack_id": ""},
        {"rack_id": "  "},
        {"subscribed_topic_names": None},
        {"subscribed_topic_names": []},
        {"member_epoch": -2},
        {"member_epoch": -7},
        {"member_epoch": -1},
        {"member_epoch": 1},
        {"member_id": "", "group_id": ""},
        {"group_id": "", "rack_id": "", "member_epoch": -2},
        {"member_id": "m" * 36},
        {"subscribed_topic_names": ["no-such-topic"]},
    )
    for fields in wrongs:
        cluster.ask(group.join("a", **fields), V1)


def later_share_heartbeats_are_checked(cluster: ScenarioCluster) -> None:
    group, epoch = sharing(cluster)
    for member, wrong in (
        ("unknown", epoch), ("unknown", LEAVE),
        ("a", epoch + 1), ("a", epoch + 7), ("a", epoch - 2),
        ("a", epoch - 1), ("a", epoch),
    ):  # fmt: skip
        cluster.ask(group.beat(member, wrong), V1)
    missing = Sharers(f"{cluster.name}-missing", group.topic, group.topic_id)
    cluster.ask(missing.beat("a", epoch), V1)
    cluster.ask(missing.beat("a", LEAVE), V1)


def members_with_different_topics_share_partitions(cluster: ScenarioCluster) -> None:
    """With different subscriptions the assignment does not depend on topic ids."""
    group, epoch = sharing(cluster, partitions=5)
    other = f"{cluster.name}-other"
    create_topic(cluster, other, 3)
    cluster.ask(group.join("b", group.topic, other), V1)
    # Share state of the other topic is initialized concurrently and raises the group epoch again.
    group.reach(cluster, epoch + 2, a=epoch, b=epoch + 1)
    described(cluster, group.group)
    cluster.ask(group.join("c", other), V1)
    group.reach(cluster, epoch + 3, a=epoch + 2, b=epoch + 2)
    described(cluster, group.group)
    cluster.ask(group.beat("b", LEAVE), V1)
    cluster.ask(group.beat("a", epoch + 3), V1)
    cluster.ask(group.beat("c", epoch + 3), V1)
    described(cluster, group.group)


def members_of_one_topic_get_even_numbers_of_partitions(cluster: ScenarioCluster) -> None:
    """Compare only numbers: the assigned partitions depend on the random topic id."""
    group, _ = sharing(cluster, partitions=5)
    epochs = {"a": 0}

    def beat_all(label: str) -> None:
        for _ in range(2):
            for member, epoch in epochs.items():
                response = cluster.probe(
                    group.beat(member, epoch, subscribed_topic_names=[group.topic]), V1
                )
                epochs[member] = response.member_epoch
                if response.assignment is not None:
                    rows = response.assignment.topic_partitions
                    counts[member] = [len(row.partitions) for row in rows]
        cluster.record(label, [f"{member} {epochs[member]} {counts[member]}" for member in epochs])

    counts: dict[str, list[int]] = {}
    for new_member in "bcdefg":
        epochs[new_member] = 0
        beat_all(f"{new_member} came")
    for leaver in "aceg":
        del epochs[leaver]
        cluster.ask(group.beat(leaver, LEAVE), V1)
        beat_all(f"{leaver} left")


def share_subscriptions_change(cluster: ScenarioCluster) -> None:
    # Early, because a coordinator learns of a topic later than clients do.
    other = f"{cluster.name}-other"
    create_topic(cluster, other)
    group, epoch = sharing(cluster, partitions=2)
    both = [group.topic, other]
    changed = cluster.ask(group.beat("a", epoch, subscribed_topic_names=both), V1)
    response = group.given(cluster, "a", changed.member_epoch)
    same = cluster.ask(
        group.beat("a", response.member_epoch, subscribed_topic_names=both[::-1]), V1
    )
    last = cluster.ask(group.beat("a", same.member_epoch, subscribed_topic_names=[other]), V1)
    cluster.ask(group.beat("a", last.member_epoch, subscribed_topic_names=[]), V1)
    described(cluster, group.group)
    cluster.ask(group.beat("a", last.member_epoch + 1, rack_id="rack-2"), V1)
    described(cluster, group.group)


def topics_created_later_are_shared(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Sharers(cluster.name, f"{cluster.name}-late", bytes(16))
    joined = cluster.ask(group.join("a"), V1)
    cluster.ask(group.beat("a", joined.member_epoch), V1)
    create_topic(cluster, group.topic, partitions=2)
    moved = cluster.call_until(
        group.beat("a", joined.member_epoch),
        V1,
        lambda response: response.member_epoch > joined.member_epoch,
        is_recorded=False,
    )
    if moved.assignment is None:
        moved = cluster.call_until(
            group.beat("a", moved.member_epoch),
            V1,
            lambda response: response.assignment is not None,
            is_recorded=False,
        )
    cluster.record("epoch and rows", [moved.member_epoch, len(moved.assignment.topic_partitions)])
    described(cluster, group.group)


def shared_topics_get_partitions(cluster: ScenarioCluster) -> None:
    group, epoch = sharing(cluster, partitions=1)
    growth = CreatePartitionsRequest.CreatePartitionsTopic(
        name=group.topic, count=3, assignments=None
    )
    cluster.probe(CreatePartitionsRequest(topics=[growth], timeout_ms=10_000), 3)
    wait_for_metadata(cluster, group.topic, 3)
    grown = cluster.call_until(
        group.beat("a", epoch),
        V1,
        lambda response: response.member_epoch > epoch,
        is_recorded=False,
    )
    if grown.assignment is None or len(grown.assignment.topic_partitions[0].partitions) == 1:
        group.given(cluster, "a", grown.member_epoch)
    described(cluster, group.group)


def shared_topics_are_deleted(cluster: ScenarioCluster) -> None:
    group, epoch = sharing(cluster, partitions=2)
    doomed = DeleteTopicsRequest.DeleteTopicState(name=group.topic)
    cluster.probe(DeleteTopicsRequest(topics=[doomed], timeout_ms=10_000), 6)
    cluster.call_until(group.beat("a", epoch), V1, lambda response: response.member_epoch > epoch)
    described(cluster, group.group)


def share_groups_have_settings_of_their_own(cluster: ScenarioCluster) -> None:
    group, epoch = sharing(cluster)
    key = "share.heartbeat.interval.ms"
    cluster.ask(alter(GROUP, group.group, (key, SET, "2500")), 1)
    settled(cluster, key, "2500", kind=GROUP)
    cluster.call_until(
        group.beat("a", epoch), V1, lambda response: response.heartbeat_interval_ms == 2_500
    )
    for name, value in (
        (key, "1"), (key, "1000000"), ("share.session.timeout.ms", "1"),
        ("share.session.timeout.ms", "2400"), ("share.session.timeout.ms", "60001"),
        ("share.record.lock.duration.ms", "999"), ("share.record.lock.duration.ms", "60001"),
        ("share.auto.offset.reset", "sometimes"), ("share.auto.offset.reset", "by_duration:PT1H"),
        ("share.auto.offset.reset", "by_duration:-PT1H"), ("share.isolation.level", "chaos"),
        ("share.isolation.level", "read_committed"), ("share.delivery.count.limit", "1"),
        ("share.delivery.count.limit", "11"), ("share.partition.max.record.locks", "99"),
        ("share.no.such.key", "1"),
    ):  # fmt: skip
        cluster.ask(alter(GROUP, group.group, (name, SET, value)), 1)


def other_protocols_and_share_groups_do_not_mix(cluster: ScenarioCluster) -> None:
    group, epoch = sharing(cluster, partitions=1)
    beat = ConsumerGroupHeartbeatRequest(
        group_id=group.group,
        member_id="consumer",
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=[group.topic],
        topic_partitions=[],
    )
    cluster.ask(beat, 1)
    joining = JoinGroupRequest(
        group_id=group.group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    cluster.ask(joining, 9)
    joining.member_id = "unknown"
    cluster.ask(joining, 5)
    cluster.ask(commit(group.group, group.topic, 0, member_id="a", epoch=epoch), 9)
    cluster.ask(commit(group.group, group.topic, 0, member_id="", epoch=-1), 9)
    cluster.ask(fetch(group.group, group.topic, 0), 8)
    forget = OffsetDeleteRequest.OffsetDeleteRequestTopic(
        name=group.topic,
        partitions=[OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)],
    )
    cluster.ask(OffsetDeleteRequest(group_id=group.group, topics=[forget]), 0)
    for version in (5, 6):
        cluster.ask(DescribeGroupsRequest(groups=[group.group]), version)
    other = f"{cluster.name}-consumers"
    wait_for_group_coordinator(cluster, other)
    beat.group_id = other
    cluster.ask(beat, 1)
    cluster.ask(Sharers(other, group.topic, group.topic_id).join("a"), V1)
    cluster.ask(Sharers(other, group.topic, group.topic_id).beat("a", LEAVE), V1)
    described(cluster, other)
    classic = f"{cluster.name}-classic"
    wait_for_group_coordinator(cluster, classic)
    cluster.ask(commit(classic, group.topic, 0, member_id="", epoch=-1), 9)
    cluster.ask(Sharers(classic, group.topic, group.topic_id).join("a"), V1)
    described(cluster, classic, "", f"{cluster.name}-missing")


def share_groups_are_listed(cluster: ScenarioCluster) -> None:
    group, _ = sharing(cluster, partitions=1)

    def listed(version: int, **filters: Any) -> None:  # noqa: ANN401
        answer = cluster.probe(ListGroupsRequest(**filters), version)
        rows = [
            f"{row.protocol_type!r} {row.group_state!r} {row.group_type!r}"
            for row in answer.groups
            if row.group_id == group.group
        ]
        cluster.record(f"v{version} {sorted(filters.items())}", list(rows))

    for version in (3, 4, 5):
        listed(version)
    listed(5, types_filter=["SHARE"])
    listed(5, types_filter=["consumer"])
    listed(4, states_filter=["stable"])
    listed(4, states_filter=["Empty"])
    cluster.ask(group.beat("a", LEAVE), V1)
    listed(5, states_filter=["empty"], types_filter=["share", "classic"])


def share_groups_are_deleted(cluster: ScenarioCluster) -> None:
    group, _ = sharing(cluster, partitions=2)
    delete = DeleteGroupsRequest(groups_names=[group.group, f"{cluster.name}-missing"])
    cluster.ask(delete, 2)
    cluster.ask(group.beat("a", LEAVE), V1)
    cluster.ask(delete, 2)
    described(cluster, group.group)
    joined = cluster.ask(group.join("a"), V1)
    group.given(cluster, "a", joined.member_epoch)


def coordinators_of_share_partitions_are_found(cluster: ScenarioCluster) -> None:
    group, _ = sharing(cluster, partitions=1)
    key = f"{group.group}:{uuid_to_text(group.topic_id)}:0"

    def found(version: int, *keys: str) -> None:
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=list(keys))
        if version < _KEYS_IN_A_LIST:
            (request.key,) = keys
        answer = cluster.probe(request, version)
        rows = answer.coordinators or [answer]
        cluster.record(f"v{version}", [f"{row.error_code} {row.node_id}" for row in rows])

    found(6, key)
    for version in (1, 3, 4, 5):
        found(version, key)
    text = uuid_to_text(group.topic_id)
    found(6, "", "g", "g:t", f"g:{text}", f":{text}:0", f" :{text}:0", f"g:{text}:x", "g:t:0")
    found(6, f"g:h:{text}:7", f"g:{text}:-1", key)


def share_group_members_act_at_random(cluster: ScenarioCluster) -> None:
    """Run two hundred random actions: joins, heartbeats, new subscriptions and leaves.

    One member subscribes to a topic of its own. If subscriptions differ, the assignment
    does not depend on topic ids, so that every assignment can be compared.
    """
    topics = [f"{cluster.name}-{letter}" for letter in "abc"]
    for name, partitions in zip(topics, (5, 3, 1), strict=True):
        create_topic(cluster, name, partitions)
    group = new_share_group(cluster, partitions=2)
    # All topics have share state before the walk starts, because it is initialized concurrently.
    cluster.probe(group.join("first", *topics, group.topic), V1)
    everything = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(
        group_id=group.group, topics=None
    )
    cluster.call_until(
        DescribeShareGroupOffsetsRequest(groups=[everything]),
        1,
        lambda response: len(response.groups[0].topics) == len(topics) + 1,
        is_recorded=False,
    )
    cluster.probe(group.beat("first", LEAVE), V1)
    cluster.probe(group.join("other", group.topic), V1)
    dice = Random(20)  # noqa: S311 - the same walk every time
    epochs: dict[str, int] = {}
    for _ in range(200):
        member = dice.choice("mnopqrs")
        chosen = dice.sample(topics, dice.randint(1, 3))
        epoch = epochs.get(member, 0)
        match dice.randrange(8):
            case 0 | 1:
                response = cluster.ask(group.join(member, *chosen), V1)
            case 2 if epoch:
                response = cluster.ask(group.beat(member, LEAVE), V1)
                epochs.pop(member)
                continue
            case 3:
                response = cluster.ask(
                    group.beat(member, epoch or 7, subscribed_topic_names=chosen), V1
                )
            case 4:
                response = cluster.ask(group.beat(member, epoch - dice.randint(-1, 2)), V1)
            case _:
                response = cluster.ask(group.beat(member, epoch or 7), V1)
        if response.member_epoch > 0:
            epochs[member] = response.member_epoch
    described(cluster, group.group)


def a_share_member_without_heartbeats_is_removed(cluster: ScenarioCluster) -> None:
    """Remove a member without heartbeats; the other members learn of it."""
    group = new_share_group(cluster, partitions=1)
    cluster.ask(
        alter(
            GROUP,
            group.group,
            ("share.heartbeat.interval.ms", SET, "500"),
            ("share.session.timeout.ms", SET, "1000"),
        ),
        1,
    )
    settled(cluster, "share.session.timeout.ms", "1000", kind=GROUP)
    joined = cluster.ask(group.join("a"), V1)
    group.given(cluster, "a", joined.member_epoch)
    epoch = cluster.ask(group.join("b"), V1).member_epoch
    cluster.ask(group.beat("a", epoch - 1), V1)
    until(cluster, group.beat("b", epoch), V1, lambda response: response.member_epoch > epoch)
    cluster.ask(group.beat("a", epoch), V1)
    described(cluster, group.group)
    # From now on no member sends heartbeats.
    until(
        cluster,
        ShareGroupDescribeRequest(group_ids=[group.group]),
        V1,
        lambda response: response.groups[0].group_state == "Empty",
    )
    cluster.ask(group.beat("b", epoch + 1), V1)


WAITING = (a_share_member_without_heartbeats_is_removed,)

SCENARIOS = (
    share_group_members_act_at_random,
    members_join_and_leave_a_share_group,
    first_share_heartbeats_are_checked,
    later_share_heartbeats_are_checked,
    members_with_different_topics_share_partitions,
    members_of_one_topic_get_even_numbers_of_partitions,
    share_subscriptions_change,
    topics_created_later_are_shared,
    shared_topics_get_partitions,
    shared_topics_are_deleted,
    share_groups_have_settings_of_their_own,
    other_protocols_and_share_groups_do_not_mix,
    share_groups_are_listed,
    share_groups_are_deleted,
    coordinators_of_share_partitions_are_found,
)
