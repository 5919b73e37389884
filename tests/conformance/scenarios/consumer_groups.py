"""Groups of the consumer protocol (KIP-848): every step of a rebalance, and every refusal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from tests.conformance.scenarios.classic_groups import Classic, stable_group
from tests.conformance.scenarios.commits import commit, fetch
from tests.conformance.scenarios.configs import GROUP, SET, alter, settled
from tests.conformance.setup import create_topic, wait_for_group_coordinator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conformance.scenario_cluster import ScenarioCluster

_HEARTBEAT = 1
_REBALANCE_MS = 30_000
_LEAVE, _LEAVE_FOR_A_WHILE = -1, -2


@dataclass(frozen=True, slots=True)
class Consumers:
    """Heartbeats of one group's members."""

    group: str
    topic: str
    topic_id: bytes

    def join(self, member: str, **fields: Any) -> ConsumerGroupHeartbeatRequest:  # noqa: ANN401
        """Make a first heartbeat, with all required fields."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=member,
            member_epoch=0,
            rebalance_timeout_ms=_REBALANCE_MS,
            subscribed_topic_names=[self.topic],
            topic_partitions=[],
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    def heartbeat(
        self,
        member_id: str,
        epoch: int,
        owned: Sequence[int] | None = None,
        **fields: Any,  # noqa: ANN401
    ) -> ConsumerGroupHeartbeatRequest:
        """Make a later heartbeat, which has only changed fields."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=None,
            topic_partitions=self._owned(owned),
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    def _owned(
        self, owned: Sequence[int] | None
    ) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None:
        if owned is None:
            return None
        row = ConsumerGroupHeartbeatRequest.TopicPartitions
        return [row(topic_id=self.topic_id, partitions=list(owned))] if owned else []


def new_group(cluster: ScenarioCluster, partitions: int = 4, name: str = "") -> Consumers:
    """Create a topic and get a coordinator for a group that will read it."""
    group = name or cluster.name
    topic_id = create_topic(cluster, f"{group}-topic", partitions)
    wait_for_group_coordinator(cluster, group)
    return Consumers(group, f"{group}-topic", topic_id)


def joined_consumer(cluster: ScenarioCluster, group: str, topic: str) -> Any:  # noqa: ANN401
    """Let one member join a group for an existing topic."""
    wait_for_group_coordinator(cluster, group)
    return cluster.ask(Consumers(group, topic, bytes(16)).join("member-a"), _HEARTBEAT)


def _owns(answer: Any, topic_id: bytes) -> list[int]:  # noqa: ANN401 - any response class
    assert answer.assignment is not None, answer
    rows = answer.assignment.topic_partitions
    return sorted(index for row in rows if row.topic_id == topic_id for index in row.partitions)


def a_rebalance_takes_several_steps(cluster: ScenarioCluster) -> None:
    """Two members, four partitions: revoke before assign, and epochs that fence commits."""
    group = new_group(cluster)

    def committed(member: str, epoch: int, *partitions: int) -> None:
        request = commit(group.group, group.topic, *partitions, member_id=member, epoch=epoch)
        cluster.ask(request, 9)

    first = cluster.ask(group.join("a"), _HEARTBEAT)
    cluster.ask(group.join("b"), _HEARTBEAT)
    response = cluster.ask(group.heartbeat("a", first.member_epoch), _HEARTBEAT)
    owned = _owns(response, group.topic_id)
    given = sorted(set(range(4)) - set(owned))
    cluster.ask(group.heartbeat("a", first.member_epoch), _HEARTBEAT)
    committed("a", first.member_epoch, given[0])
    second = cluster.ask(group.heartbeat("a", first.member_epoch, owned), _HEARTBEAT)
    committed("a", first.member_epoch, owned[0])
    committed("a", first.member_epoch, given[0])
    cluster.ask(group.heartbeat("a", first.member_epoch, owned[:1]), _HEARTBEAT)
    cluster.ask(group.heartbeat("b", second.member_epoch), _HEARTBEAT)
    cluster.ask(group.heartbeat("b", _LEAVE), _HEARTBEAT)
    third = cluster.ask(group.heartbeat("a", second.member_epoch), _HEARTBEAT)
    committed("a", second.member_epoch, owned[0], given[0])
    committed("a", third.member_epoch, *range(4))
    cluster.ask(fetch(group.group, group.topic, *range(4)), 8)


def a_reconciling_group_is_described(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)

    def described() -> None:
        for version in (0, 1):
            cluster.ask(ConsumerGroupDescribeRequest(group_ids=[group.group]), version)

    first = cluster.ask(group.join("a", rack_id="rack-1"), _HEARTBEAT)
    described()
    cluster.ask(group.join("b", instance_id="i-1"), _HEARTBEAT)
    described()
    response = cluster.ask(group.heartbeat("a", first.member_epoch), _HEARTBEAT)
    described()
    owned = _owns(response, group.topic_id)
    cluster.ask(group.heartbeat("a", first.member_epoch, owned), _HEARTBEAT)
    described()
    cluster.ask(group.heartbeat("a", _LEAVE), _HEARTBEAT)
    described()


def first_heartbeats_are_checked(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    wrongs: tuple[dict[str, Any], ...] = (
        {"group_id": ""},
        {"member_id": ""},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"subscribed_topic_names": None},
        {"subscribed_topic_names": []},
        {"server_assignor": "magic"},
        {"instance_id": ""},
        {"rack_id": ""},
        {"member_epoch": -3},
        {"subscribed_topic_regex": "["},
        {"subscribed_topic_names": None, "subscribed_topic_regex": ""},
    )
    for fields in wrongs:
        cluster.ask(group.join("a", **fields), _HEARTBEAT)
    with_partitions = group.join("a")
    row = ConsumerGroupHeartbeatRequest.TopicPartitions
    with_partitions.topic_partitions = [row(topic_id=group.topic_id, partitions=[0])]
    cluster.ask(with_partitions, _HEARTBEAT)


def member_ids_are_generated_by_the_broker_in_version_0(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    joined = cluster.ask(group.join(""), 0)
    cluster.record("has an id", bool(joined.member_id))
    cluster.ask(group.heartbeat(joined.member_id, joined.member_epoch), 0)


def later_heartbeats_are_checked(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    joined = cluster.ask(group.join("a"), _HEARTBEAT)
    epoch = joined.member_epoch
    cluster.ask(group.heartbeat("unknown", epoch), _HEARTBEAT)
    cluster.ask(Consumers("", group.topic, group.topic_id).heartbeat("a", epoch), _HEARTBEAT)
    missing = Consumers(f"{cluster.name}-missing", group.topic, group.topic_id)
    cluster.ask(missing.heartbeat("a", epoch), _HEARTBEAT)
    cluster.ask(missing.heartbeat("a", _LEAVE), _HEARTBEAT)
    cluster.ask(group.heartbeat("unknown", _LEAVE), _HEARTBEAT)
    for wrong in (epoch + 1, epoch + 7):
        cluster.ask(group.heartbeat("a", wrong), _HEARTBEAT)
    cluster.ask(group.heartbeat("a", epoch), _HEARTBEAT)
    cluster.ask(group.heartbeat("a", epoch, [0]), _HEARTBEAT)
    cluster.ask(group.heartbeat("a", epoch - 1), _HEARTBEAT)
    cluster.ask(group.heartbeat("a", epoch - 1, [0, 1]), _HEARTBEAT)
    cluster.ask(group.join("a"), _HEARTBEAT)
    cluster.ask(group.heartbeat("a", _LEAVE_FOR_A_WHILE), _HEARTBEAT)


def assignors_can_be_chosen(cluster: ScenarioCluster) -> None:
    for assignor in ("uniform", "range"):
        group = new_group(cluster, partitions=5, name=f"{cluster.name}-{assignor}")
        cluster.ask(group.join("a", server_assignor=assignor), _HEARTBEAT)
        second = cluster.ask(group.join("b", server_assignor=assignor), _HEARTBEAT)
        first_epoch = second.member_epoch - 1
        response = cluster.ask(group.heartbeat("a", first_epoch), _HEARTBEAT)
        owned = _owns(response, group.topic_id)
        cluster.ask(group.heartbeat("a", first_epoch, owned), _HEARTBEAT)
        cluster.ask(group.heartbeat("b", second.member_epoch), _HEARTBEAT)
        cluster.ask(ConsumerGroupDescribeRequest(group_ids=[group.group]), 1)


def assignments_wait_for_the_assignment_interval(cluster: ScenarioCluster) -> None:
    """Delay a new assignment until the assignment interval has passed (KIP-1263)."""
    group = new_group(cluster)
    key = "consumer.assignment.interval.ms"
    cluster.ask(alter(GROUP, group.group, (key, SET, "15000")), 1)
    settled(cluster, key, "15000", kind=GROUP)
    first = cluster.ask(group.join("a"), _HEARTBEAT)
    cluster.ask(group.join("b"), _HEARTBEAT)
    cluster.ask(group.heartbeat("a", first.member_epoch), _HEARTBEAT)
    cluster.ask(ConsumerGroupDescribeRequest(group_ids=[group.group]), 1)


def subscriptions_change(cluster: ScenarioCluster) -> None:
    group = new_group(cluster, partitions=2)
    other = f"{cluster.name}-other"
    create_topic(cluster, other)
    joined = cluster.ask(group.join("a"), _HEARTBEAT)
    epoch = joined.member_epoch
    both = [group.topic, other]
    changed = cluster.ask(group.heartbeat("a", epoch, subscribed_topic_names=both), _HEARTBEAT)
    same = cluster.ask(
        group.heartbeat("a", changed.member_epoch, subscribed_topic_names=both[::-1]), _HEARTBEAT
    )
    cluster.ask(group.heartbeat("a", same.member_epoch, subscribed_topic_names=[]), _HEARTBEAT)


def topics_created_later_are_assigned(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Consumers(cluster.name, f"{cluster.name}-late", bytes(16))
    joined = cluster.ask(group.join("a"), _HEARTBEAT)
    create_topic(cluster, group.topic, partitions=2)
    cluster.call_until(
        group.heartbeat("a", joined.member_epoch),
        _HEARTBEAT,
        lambda found: found.assignment is not None,
    )


def regular_expressions_select_topics(cluster: ScenarioCluster) -> None:
    for suffix in ("one", "two"):
        create_topic(cluster, f"{cluster.name}-{suffix}")
    wait_for_group_coordinator(cluster, cluster.name)
    group = Consumers(cluster.name, "", bytes(16))
    chosen = f"{cluster.name}-(one|two)"
    joined = cluster.ask(
        group.join("a", subscribed_topic_names=None, subscribed_topic_regex=chosen), _HEARTBEAT
    )
    if joined.assignment is None or not joined.assignment.topic_partitions:
        # Kafka resolves an expression outside the heartbeat and assigns at a later one.
        cluster.call_until(
            group.heartbeat("a", joined.member_epoch),
            _HEARTBEAT,
            lambda found: bool(found.assignment and found.assignment.topic_partitions),
        )
    cluster.ask(group.join("b", subscribed_topic_regex="("), _HEARTBEAT)
    cluster.ask(group.join("b", subscribed_topic_regex="(?=x)"), _HEARTBEAT)


def static_members_return(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    first = cluster.ask(group.join("a", instance_id="i-1"), _HEARTBEAT)
    cluster.ask(group.join("b", instance_id="i-1"), _HEARTBEAT)
    cluster.ask(group.heartbeat("x", first.member_epoch, instance_id="i-1"), _HEARTBEAT)
    cluster.ask(group.heartbeat("a", _LEAVE_FOR_A_WHILE, instance_id="i-1"), _HEARTBEAT)
    cluster.ask(ConsumerGroupDescribeRequest(group_ids=[group.group]), 1)
    back = cluster.ask(group.join("c", instance_id="i-1"), _HEARTBEAT)
    cluster.ask(group.heartbeat("a", first.member_epoch, instance_id="i-1"), _HEARTBEAT)
    cluster.ask(group.heartbeat("c", back.member_epoch, instance_id="i-1"), _HEARTBEAT)
    cluster.ask(group.heartbeat("c", _LEAVE, instance_id="i-1"), _HEARTBEAT)
    cluster.ask(ConsumerGroupDescribeRequest(group_ids=[group.group]), 1)


def commits_and_fetches_require_the_right_epoch(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    joined = cluster.ask(group.join("a"), _HEARTBEAT)
    epoch = joined.member_epoch
    claims = (("a", epoch), ("a", epoch + 1), ("a", -1), ("unknown", epoch), ("", -1))
    for version in (8, 9):
        for member, wrong in claims:
            request = commit(group.group, group.topic, 0, member_id=member, epoch=wrong)
            cluster.ask(request, version)
    readers: tuple[tuple[str | None, int], ...] = ((None, -1), *claims)
    for reader, wrong in readers:
        cluster.ask(fetch(group.group, group.topic, 0, member_id=reader, epoch=wrong), 9)


def the_two_protocols_do_not_mix(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    cluster.ask(group.join("a"), _HEARTBEAT)
    classic = Classic(group.group)
    cluster.ask(classic.heartbeat("a", 1), 4)
    cluster.ask(classic.sync("a", 1), 5)
    cluster.ask(classic.leave("unknown"), 5)
    cluster.ask(classic.join("", "range", kind="connect"), 9)
    cluster.ask(classic.leave("a"), 5)
    cluster.ask(ConsumerGroupDescribeRequest(group_ids=[group.group]), 1)


def an_empty_group_changes_its_protocol(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name)
    classic, member, _generation = stable_group(cluster, cluster.name)
    cluster.ask(commit(cluster.name, cluster.name, 0), 8)
    cluster.ask(classic.leave(member), 5)
    group = Consumers(cluster.name, cluster.name, topic_id)
    cluster.ask(group.join("a"), _HEARTBEAT)
    cluster.ask(fetch(cluster.name, cluster.name, 0), 8)
    cluster.ask(group.heartbeat("a", _LEAVE), _HEARTBEAT)
    refused = cluster.ask(classic.join(), 9)
    cluster.ask(classic.join(refused.member_id), 9)
    cluster.ask(fetch(cluster.name, cluster.name, 0), 8)


SCENARIOS = (
    a_rebalance_takes_several_steps,
    a_reconciling_group_is_described,
    first_heartbeats_are_checked,
    member_ids_are_generated_by_the_broker_in_version_0,
    later_heartbeats_are_checked,
    assignors_can_be_chosen,
    assignments_wait_for_the_assignment_interval,
    subscriptions_change,
    topics_created_later_are_assigned,
    regular_expressions_select_topics,
    static_members_return,
    commits_and_fetches_require_the_right_epoch,
    the_two_protocols_do_not_mix,
    an_empty_group_changes_its_protocol,
)
