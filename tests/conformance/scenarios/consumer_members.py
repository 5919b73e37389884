"""Members of consumer groups: ids, lost answers, commits at earlier epochs.

Fencing is Kafka 4.3's, rule `assignment-epoch`, which is kafkalite's default as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.create_partitions import CreatePartitionsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from tests.conformance.scenarios.commits import commit, fetch
from tests.conformance.scenarios.configs import GROUP, SET, alter, settled
from tests.conformance.scenarios.consumer_groups import Consumers, new_group
from tests.conformance.setup import create_topic, wait_for_group_coordinator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conformance.scenario_cluster import ScenarioCluster

_HEARTBEAT = 1
_COMMIT = 9
_BY_ID = 10
_LEAVE, _LEAVE_FOR_A_WHILE = -1, -2


def _beat(cluster: ScenarioCluster, request: Any, version: int = _HEARTBEAT) -> int:  # noqa: ANN401
    """Send a heartbeat and return the epoch of its answer."""
    epoch = cluster.ask(request, version).member_epoch
    assert isinstance(epoch, int)
    return epoch


def _commits(
    cluster: ScenarioCluster, group: Consumers, member: str, epochs: Sequence[int], *partitions: int
) -> None:
    """Commit each partition separately at each of these epochs, by topic name and by topic id."""
    for epoch in epochs:
        for partition in partitions:
            asked = commit(
                group.group,
                group.topic,
                partition,
                member_id=member,
                epoch=epoch,
                topic_id=group.topic_id,
            )
            cluster.ask(asked, _COMMIT)
            cluster.ask(asked, _BY_ID)


def _described(cluster: ScenarioCluster, group: Consumers) -> None:
    cluster.ask(ConsumerGroupDescribeRequest(group_ids=[group.group]), 1)


def first_heartbeats_may_be_repeated(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    for _ in range(3):
        cluster.ask(group.join("a"), _HEARTBEAT)
    cluster.ask(group.join("b"), _HEARTBEAT)
    for member in "abab":
        cluster.ask(group.join(member), _HEARTBEAT)
    _described(cluster, group)


def a_leave_before_the_join_response_leaves_no_member(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    cluster.ask(group.heartbeat("a", _LEAVE), _HEARTBEAT)
    cluster.send(group.join("a"), _HEARTBEAT)
    cluster.send(group.heartbeat("a", _LEAVE), _HEARTBEAT)
    cluster.receive()
    cluster.receive()
    cluster.ask(group.heartbeat("a", _LEAVE), _HEARTBEAT)
    _described(cluster, group)
    cluster.ask(group.join("b"), _HEARTBEAT)
    _described(cluster, group)


def members_of_both_versions_share_a_group(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    old = cluster.ask(group.join(""), 0).member_id
    epoch = _beat(cluster, group.join("new"))
    cluster.ask(group.heartbeat(old, epoch - 1), 0)
    cluster.ask(group.heartbeat(old, epoch - 1, [0, 1]), 0)
    cluster.ask(group.heartbeat("new", epoch), _HEARTBEAT)
    cluster.ask(group.heartbeat("new", epoch), 0)
    cluster.ask(group.heartbeat(old, epoch), _HEARTBEAT)
    cluster.ask(group.heartbeat(old, _LEAVE), 0)
    cluster.ask(group.heartbeat("new", epoch), _HEARTBEAT)


def any_non_blank_member_id_is_accepted(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    for member in ("", " ", "\t\n\x01", "a", "-", " a ", "\u00a0", "\u2003", "é" * 100):
        for version in (0, _HEARTBEAT):
            joined = cluster.ask(group.join(member), version)
            if joined.error_code == 0:
                cluster.ask(group.heartbeat(joined.member_id, _LEAVE), version)
    for field in ("group_id", "instance_id", "rack_id"):
        for blank in (" ", "\u00a0"):
            if (field, blank) != ("group_id", "\u00a0"):
                cluster.ask(group.join("a", **{field: blank}), _HEARTBEAT)
                cluster.ask(group.heartbeat("a", _LEAVE), _HEARTBEAT)


def only_heartbeats_after_lost_responses_may_have_the_previous_epoch(
    cluster: ScenarioCluster,
) -> None:
    group = new_group(cluster)
    first = _beat(cluster, group.join("a"))
    second = _beat(cluster, group.join("b"))
    cluster.ask(group.heartbeat("a", first), _HEARTBEAT)
    cluster.ask(group.heartbeat("a", first, [0, 1]), _HEARTBEAT)
    for owned in ([], [0], [0, 1], [0, 1, 2], [2], None):
        cluster.ask(group.heartbeat("a", first, owned), _HEARTBEAT)
    for epoch in (first - 1, second + 1, 100):
        cluster.ask(group.heartbeat("a", epoch, []), _HEARTBEAT)
    _described(cluster, group)


def commits_are_accepted_at_every_epoch_since_the_assignment(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    first = _beat(cluster, group.join("a"))
    second = _beat(cluster, group.join("b"))
    cluster.ask(group.heartbeat("a", first), _HEARTBEAT)
    _commits(cluster, group, "a", (first, second), 0, 2)
    cluster.ask(group.heartbeat("a", first, [0, 1]), _HEARTBEAT)
    _commits(cluster, group, "a", (first - 1, first, second, second + 1), 0, 2)
    cluster.ask(group.heartbeat("b", second), _HEARTBEAT)
    _commits(cluster, group, "b", (first, second), 2)
    cluster.ask(group.heartbeat("b", _LEAVE), _HEARTBEAT)
    third = _beat(cluster, group.heartbeat("a", second))
    _commits(cluster, group, "a", (first, second, third), 0, 2)
    for partitions in ((0, 1), (0, 2), (2, 3)):
        asked = commit(group.group, group.topic, *partitions, member_id="a", epoch=second)
        cluster.ask(asked, _COMMIT)
    cluster.ask(fetch(group.group, group.topic, *range(4)), 8)


def commits_are_accepted_after_an_epoch_without_revocation(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    other = f"{cluster.name}-other"
    other_id = create_topic(cluster, other)
    first = _beat(cluster, group.join("a"))
    both = [group.topic, other]
    second = _beat(cluster, group.heartbeat("a", first, subscribed_topic_names=both))
    _commits(cluster, group, "a", (first, second), 0)
    more = Consumers(group.group, other, other_id)
    _commits(cluster, more, "a", (first, second), 0)
    cluster.ask(group.heartbeat("a", second, subscribed_topic_names=[group.topic]), _HEARTBEAT)
    _commits(cluster, more, "a", (first, second), 0)
    third = _beat(cluster, group.heartbeat("a", second, range(4)))
    _commits(cluster, more, "a", (first, second, third), 0)
    _commits(cluster, group, "a", (first, second, third), 0)


def a_topic_is_committed_until_its_revocation_ends(cluster: ScenarioCluster) -> None:
    """Delay the next assignment, so that the member epoch does not change."""
    group = new_group(cluster)
    key = "consumer.assignment.interval.ms"
    cluster.ask(alter(GROUP, group.group, (key, SET, "15000")), 1)
    settled(cluster, key, "15000", kind=GROUP)
    other = f"{cluster.name}-other"
    more = Consumers(group.group, other, create_topic(cluster, other))
    epoch = _beat(cluster, group.join("a", subscribed_topic_names=[group.topic, other]))
    fewer = group.heartbeat("a", epoch, range(4), subscribed_topic_names=[group.topic])
    cluster.ask(fewer, _HEARTBEAT)
    _described(cluster, group)
    _commits(cluster, more, "a", (epoch - 1, epoch, epoch + 1), 0)
    _commits(cluster, group, "a", (epoch - 1, epoch, epoch + 1), 0)
    cluster.ask(more.join("b"), _HEARTBEAT)
    _commits(cluster, more, "a", (epoch,), 0)
    _described(cluster, group)


def a_second_revocation_precedes_the_new_epoch(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    first = _beat(cluster, group.join("a"))
    second = _beat(cluster, group.join("b"))
    cluster.ask(group.heartbeat("a", first), _HEARTBEAT)
    for member in ("c", "d"):
        cluster.ask(group.join(member), _HEARTBEAT)
    cluster.ask(group.heartbeat("a", first, [0, 1]), _HEARTBEAT)
    _described(cluster, group)
    cluster.ask(group.heartbeat("b", second), _HEARTBEAT)
    _commits(cluster, group, "a", (first, second), 0, 1, 2)
    last = _beat(cluster, group.heartbeat("a", first, [0]))
    _commits(cluster, group, "a", (first, second, last), 0, 1)
    _described(cluster, group)


def static_members_commit_before_and_after_an_absence(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    epoch = _beat(cluster, group.join("a", instance_id="i"))
    cluster.ask(group.heartbeat("a", _LEAVE_FOR_A_WHILE, instance_id="i"), _HEARTBEAT)
    _commits(cluster, group, "a", (epoch, 0), 0)
    cluster.ask(group.heartbeat("a", epoch, instance_id="i"), _HEARTBEAT)
    back = _beat(cluster, group.join("a", instance_id="i"))
    _commits(cluster, group, "a", (epoch - 1, epoch, back), 0)
    cluster.ask(group.heartbeat("a", _LEAVE_FOR_A_WHILE, instance_id="i"), _HEARTBEAT)
    successor = _beat(cluster, group.join("b", instance_id="i"))
    _commits(cluster, group, "a", (successor,), 0)
    _commits(cluster, group, "b", (1, successor), 0)
    cluster.ask(group.heartbeat("a", _LEAVE, instance_id="i"), _HEARTBEAT)
    cluster.ask(group.heartbeat("b", _LEAVE), _HEARTBEAT)
    _described(cluster, group)


def a_static_member_leaves_during_a_revocation(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    first = _beat(cluster, group.join("a", instance_id="i"))
    second = _beat(cluster, group.join("b"))
    cluster.ask(group.heartbeat("a", first, instance_id="i"), _HEARTBEAT)
    cluster.ask(group.heartbeat("a", _LEAVE_FOR_A_WHILE, instance_id="i"), _HEARTBEAT)
    _described(cluster, group)
    cluster.ask(group.heartbeat("b", second), _HEARTBEAT)
    cluster.ask(group.join("a", instance_id="i"), _HEARTBEAT)
    _commits(cluster, group, "a", (first, second), 0, 2)
    _described(cluster, group)


def static_members_are_identified_in_every_api(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    epoch = _beat(cluster, group.join("a", instance_id="i"))
    for member, at, instance in (
        ("a", 0, "i"), ("b", 0, "i"), ("b", epoch, "i"), ("b", _LEAVE, "i"),
        ("b", _LEAVE_FOR_A_WHILE, "i"), ("a", epoch, "j"), ("a", _LEAVE, "j"),
        ("a", _LEAVE_FOR_A_WHILE, "j"), ("a", epoch, None), ("a", epoch, "i"),
    ):  # fmt: skip
        asked = group.join(member) if at == 0 else group.heartbeat(member, at)
        asked.instance_id = instance
        cluster.ask(asked, _HEARTBEAT)
    _described(cluster, group)
    cluster.ask(group.heartbeat("a", _LEAVE_FOR_A_WHILE, instance_id="i"), _HEARTBEAT)
    cluster.ask(group.heartbeat("a", _LEAVE_FOR_A_WHILE, instance_id="i"), _HEARTBEAT)
    cluster.ask(group.heartbeat("a", _LEAVE, instance_id="i"), _HEARTBEAT)


def full_heartbeats_are_answered_in_full(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    epoch = _beat(cluster, group.join("a"))
    names = [group.topic]
    cluster.ask(group.heartbeat("a", epoch, range(4)), _HEARTBEAT)
    cluster.ask(group.heartbeat("a", epoch, range(4), subscribed_topic_names=names), _HEARTBEAT)
    full = {"subscribed_topic_names": names, "rebalance_timeout_ms": 30_000}
    cluster.ask(group.heartbeat("a", epoch, range(4), **full), _HEARTBEAT)
    cluster.ask(group.heartbeat("a", epoch, [], **full), _HEARTBEAT)
    cluster.ask(group.heartbeat("a", epoch, None, **full), _HEARTBEAT)
    cluster.ask(group.heartbeat("a", epoch, rack_id="r", server_assignor="range"), _HEARTBEAT)
    _described(cluster, group)


def topics_get_partitions_and_are_deleted(cluster: ScenarioCluster) -> None:
    group = new_group(cluster, partitions=1)
    epoch = _beat(cluster, group.join("a"))
    grow = CreatePartitionsRequest.CreatePartitionsTopic(
        name=group.topic, count=3, assignments=None
    )
    cluster.ask(CreatePartitionsRequest(topics=[grow], timeout_ms=10_000), 3)
    grown = cluster.call_until(
        group.heartbeat("a", epoch), _HEARTBEAT, lambda found: found.assignment is not None
    ).member_epoch
    _commits(cluster, group, "a", (epoch, grown), 0, 2)
    cluster.ask(DeleteTopicsRequest(topic_names=[group.topic], timeout_ms=10_000), 5)
    cluster.call_until(
        group.heartbeat("a", grown, []), _HEARTBEAT, lambda found: found.member_epoch > grown
    )
    _described(cluster, group)


def expressions_are_shared_changed_and_dropped(cluster: ScenarioCluster) -> None:
    for suffix in ("one", "two"):
        create_topic(cluster, f"{cluster.name}-{suffix}")
    wait_for_group_coordinator(cluster, cluster.name)
    group = Consumers(cluster.name, "", bytes(16))
    chosen = {"subscribed_topic_names": None, "subscribed_topic_regex": f"{cluster.name}-(one|two)"}
    cluster.ask(group.join("a", **chosen), _HEARTBEAT)
    epoch = cluster.call_until(
        group.heartbeat("a", 1),
        _HEARTBEAT,
        lambda found: bool(found.assignment and found.assignment.topic_partitions),
    ).member_epoch
    cluster.ask(group.join("b", **chosen), _HEARTBEAT)
    named = {"subscribed_topic_names": [f"{cluster.name}-one"], "subscribed_topic_regex": ""}
    cluster.ask(group.heartbeat("b", epoch + 1, [], **named), _HEARTBEAT)
    cluster.ask(group.heartbeat("a", epoch, []), _HEARTBEAT)
    cluster.ask(group.heartbeat("b", _LEAVE), _HEARTBEAT)
    _described(cluster, group)


SCENARIOS = (
    first_heartbeats_may_be_repeated,
    a_leave_before_the_join_response_leaves_no_member,
    members_of_both_versions_share_a_group,
    any_non_blank_member_id_is_accepted,
    only_heartbeats_after_lost_responses_may_have_the_previous_epoch,
    commits_are_accepted_at_every_epoch_since_the_assignment,
    commits_are_accepted_after_an_epoch_without_revocation,
    a_topic_is_committed_until_its_revocation_ends,
    a_second_revocation_precedes_the_new_epoch,
    static_members_commit_before_and_after_an_absence,
    a_static_member_leaves_during_a_revocation,
    static_members_are_identified_in_every_api,
    full_heartbeats_are_answered_in_full,
    topics_get_partitions_and_are_deleted,
    expressions_are_shared_changed_and_dropped,
)
