"""Streams groups (KIP-1071): tasks, topologies and their topics, and errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.create_partitions import CreatePartitionsRequest
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.protocol._generated.messages.offset_delete import OffsetDeleteRequest
from kafkalite.protocol._generated.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
)
from tests.conformance.scenarios.classic_groups import Classic, stable_group
from tests.conformance.scenarios.commits import commit, fetch
from tests.conformance.scenarios.configs import GROUP, SET, TOPIC, alter, describe, settled
from tests.conformance.scenarios.consumer_groups import Consumers, joined_consumer
from tests.conformance.setup import create_topic, wait_for_group_coordinator, wait_for_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.conformance.scenario_cluster import ScenarioCluster

_REBALANCE_MS = 30_000
LEAVE, LEAVE_FOR_A_WHILE = -1, -2
_MISSING_SOURCES, _WRONG_PARTITIONS, _MISSING_INTERNAL = 1, 2, 3

Request = StreamsGroupHeartbeatRequest
Owned = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Streams:
    """Heartbeats of one group's members; a member's process is named as the member."""

    group: str
    subtopologies: tuple[Request.Subtopology, ...]
    epoch: int = 0

    def topology(self) -> Request.Topology:
        return Request.Topology(epoch=self.epoch, subtopologies=list(self.subtopologies))

    def join(self, member: str, **fields: Any) -> Request:  # noqa: ANN401
        """Make a first heartbeat, with all required fields."""
        request = Request(
            group_id=self.group,
            member_id=member,
            member_epoch=0,
            rebalance_timeout_ms=_REBALANCE_MS,
            topology=self.topology(),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id=member,
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    def heartbeat(
        self,
        member: str,
        epoch: int,
        active: Owned | None = None,
        standby: Owned | None = None,
        **fields: Any,  # noqa: ANN401
    ) -> Request:
        """Make a later heartbeat; with active tasks it has all task fields."""
        request = Request(group_id=self.group, member_id=member, member_epoch=epoch)
        if active is not None:
            request.active_tasks = tasks(active)
            request.standby_tasks = tasks(standby or {})
            request.warmup_tasks = []
        for name, value in fields.items():
            setattr(request, name, value)
        return request


def tasks(owned: Owned) -> list[Request.TaskIds]:
    return [
        Request.TaskIds(subtopology_id=name, partitions=list(partitions))
        for name, partitions in owned.items()
    ]


def internal(
    name: str, partitions: int = 0, replicas: int = 0, **configs: str
) -> Request.TopicInfo:
    """Make an internal topic; configurations are named with underscores."""
    return Request.TopicInfo(
        name=name,
        partitions=partitions,
        replication_factor=replicas,
        topic_configs=[
            Request.KeyValue(key=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


def reading(*topics: str, name: str = "0", **fields: Any) -> Request.Subtopology:  # noqa: ANN401
    """Describe a subtopology that reads these topics."""
    subtopology = Request.Subtopology(subtopology_id=name, source_topics=list(topics))
    for field, value in fields.items():
        setattr(subtopology, field, value)
    return subtopology


def new_group(cluster: ScenarioCluster, partitions: int = 4, name: str = "") -> Streams:
    """Create a topic and get a coordinator for a group whose one subtopology reads it."""
    group = name or cluster.name
    create_topic(cluster, f"{group}-topic", partitions)
    wait_for_group_coordinator(cluster, group)
    return Streams(group, (reading(f"{group}-topic"),))


def described(cluster: ScenarioCluster, *groups: str) -> None:
    cluster.ask(StreamsGroupDescribeRequest(group_ids=list(groups)), 0)


def tasks_move_in_steps(cluster: ScenarioCluster) -> None:
    """Two members, four tasks: revoke before assign, and epochs that fence commits."""
    group = new_group(cluster)
    topic = f"{group.group}-topic"

    def committed(member: str, epoch: int, *partitions: int) -> None:
        request = commit(group.group, topic, *partitions, member_id=member, epoch=epoch)
        cluster.ask(request, 9)

    cluster.ask(group.join("a"), 0)
    committed("a", 2, *range(4))
    cluster.ask(group.join("b"), 0)
    response = cluster.ask(group.heartbeat("a", 2), 0)
    (owned,) = response.active_tasks
    given = sorted(set(range(4)) - set(owned.partitions))
    cluster.ask(group.heartbeat("a", 2), 0)
    cluster.ask(group.heartbeat("a", 2, {"0": (0, 1, 2, 3)}), 0)
    committed("a", 2, given[0])
    cluster.ask(group.heartbeat("a", 2, {"0": tuple(owned.partitions)}), 0)
    committed("a", 2, owned.partitions[0])
    committed("a", 2, given[0])
    committed("a", 2, owned.partitions[0], given[0])
    committed("a", 9, owned.partitions[0])
    cluster.ask(group.heartbeat("a", 2, {"0": tuple(owned.partitions[:1])}), 0)
    cluster.ask(group.heartbeat("a", 2), 0)
    cluster.ask(group.heartbeat("b", 3), 0)
    committed("b", 2, given[0])
    cluster.ask(group.heartbeat("b", LEAVE), 0)
    cluster.ask(group.heartbeat("a", 3), 0)
    committed("a", 3, owned.partitions[0])
    committed("a", 3, given[0])
    committed("a", 4, *range(4))
    cluster.ask(fetch(group.group, topic, *range(4)), 8)


def a_reconciling_streams_group_is_described(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    cluster.ask(
        group.join(
            "a",
            rack_id="rack-1",
            client_tags=[Request.KeyValue(key="zone", value="x")],
            user_endpoint=Request.Endpoint(host="here", port=70),
        ),
        0,
    )
    described(cluster, group.group)
    cluster.ask(group.join("b"), 0)
    described(cluster, group.group)
    response = cluster.ask(group.heartbeat("a", 2), 0)
    described(cluster, group.group)
    (owned,) = response.active_tasks
    cluster.ask(group.heartbeat("a", 2, {"0": tuple(owned.partitions)}), 0)
    cluster.ask(group.heartbeat("b", 3), 0)
    described(cluster, group.group)
    cluster.ask(group.heartbeat("a", LEAVE), 0)
    described(cluster, group.group)
    cluster.ask(group.heartbeat("b", LEAVE), 0)
    described(cluster, group.group, f"{cluster.name}-missing", "")
    request = StreamsGroupDescribeRequest(
        group_ids=[group.group], include_authorized_operations=True
    )
    cluster.ask(request, 0)


def first_streams_heartbeats_are_checked(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    topic = f"{group.group}-topic"

    def of(*subtopologies: Request.Subtopology, epoch: int = 0) -> Request.Topology:
        return Request.Topology(epoch=epoch, subtopologies=list(subtopologies))

    wrongs: tuple[dict[str, Any], ...] = (
        {"group_id": ""},
        {"group_id": "  "},
        {"member_id": ""},
        {"instance_id": "i-1"},
        {"instance_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout_ms": -1},
        {"active_tasks": None},
        {"standby_tasks": None},
        {"warmup_tasks": None},
        {"active_tasks": tasks({"0": (0,)})},
        {"warmup_tasks": tasks({"0": (0,)})},
        {"topology": None},
        {"member_epoch": -3},
        {"member_epoch": LEAVE_FOR_A_WHILE},
        {"task_offsets": []},
        {"task_end_offsets": []},
        {"topology": of(reading(source_topic_regex=["t.*"]))},
        {"topology": of(reading("__consumer_offsets"))},
        {"topology": of(reading("in valid"))},
        {"topology": of(reading(topic, state_changelog_topics=[internal("c", 4)]))},
        {"topology": of()},
        {"topology": of(reading())},
        {"topology": of(reading(topic, repartition_source_topics=[internal("r")]))},
        {
            "topology": of(
                reading(repartition_sink_topics=["r"], repartition_source_topics=[internal("r")])
            )
        },
        {"topology": of(reading(topic), reading(topic))},
        {"topology": of(reading(topic), epoch=-1)},
        {
            "topology": of(
                reading(topic, copartition_groups=[Request.CopartitionGroup(source_topics=[7])])
            )
        },
    )
    for fields in wrongs:
        cluster.ask(group.join("a", **fields), 0)
    described(cluster, group.group)


def later_streams_heartbeats_are_checked(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    for version in (0, 1):
        cluster.ask(group.heartbeat("a", 2), version)
        cluster.ask(group.heartbeat("a", LEAVE), version)
    cluster.ask(group.join("a"), 0)
    cluster.ask(group.heartbeat("unknown", 2), 0)
    cluster.ask(group.heartbeat("unknown", LEAVE), 0)
    for wrong in (3, 9, 1):
        cluster.ask(group.heartbeat("a", wrong), 0)
    cluster.ask(group.heartbeat("a", 1, {"0": (0,)}), 0)
    cluster.ask(group.heartbeat("a", 2, topology=group.topology()), 0)
    cluster.ask(group.heartbeat("a", 2, active_tasks=[]), 0)
    cluster.ask(group.heartbeat("a", 2, {"7": (0,)}), 0)
    cluster.ask(group.heartbeat("a", 2, {"0": (4,)}), 0)
    cluster.ask(group.heartbeat("a", 2, {"0": (-1,)}), 0)
    cluster.ask(group.heartbeat("a", 2, {"0": (0,)}, {"0": (9,)}), 0)
    cluster.ask(group.heartbeat("a", 2, warmup_tasks=tasks({"0": (0,)})), 0)
    cluster.ask(group.heartbeat("a", 2, instance_id="i-1"), 0)
    cluster.ask(group.heartbeat("a", 2, {"0": (0, 1, 2, 3)}), 0)
    cluster.ask(group.join("a"), 0)
    cluster.ask(group.heartbeat("a", 2), 0)


def a_heartbeat_after_a_lost_response_is_accepted(cluster: ScenarioCluster) -> None:
    """Accept the previous epoch of a member without revoked tasks."""
    group = new_group(cluster)
    cluster.ask(group.join("a"), 0)
    cluster.ask(group.join("b"), 0)
    response = cluster.ask(group.heartbeat("a", 2), 0)
    owned = tuple(response.active_tasks[0].partitions)
    cluster.ask(group.heartbeat("a", 2, {"0": owned}), 0)
    cluster.ask(group.heartbeat("a", 2, {"0": owned}), 0)
    cluster.ask(group.heartbeat("a", 2, {"0": owned[:1]}), 0)
    cluster.ask(group.heartbeat("a", 2, {}), 0)
    cluster.ask(group.heartbeat("a", 2, {"0": (0, 1, 2, 3)}), 0)
    cluster.ask(group.heartbeat("a", 2), 0)
    cluster.ask(group.join("a"), 0)


def _word_count(cluster: ScenarioCluster) -> Streams:
    """Describe an application with a repartition topic and a store, as Kafka Streams would."""
    name = cluster.name
    return Streams(
        name,
        (
            reading(
                f"{name}-topic", name="0", repartition_sink_topics=[f"{name}-counts-repartition"]
            ),
            reading(
                name="1",
                repartition_source_topics=[
                    internal(
                        f"{name}-counts-repartition",
                        cleanup_policy="delete",
                        retention_ms="-1",
                        segment_bytes="52428800",
                    )
                ],
                state_changelog_topics=[
                    internal(f"{name}-counts-changelog", replicas=1, cleanup_policy="compact")
                ],
            ),
        ),
    )


def _status_codes(answer: Any) -> list[int]:  # noqa: ANN401 - any response class
    return [status.status_code for status in answer.status or ()]


def _beat_until(cluster: ScenarioCluster, request: Request, until: Callable[[Any], bool]) -> Any:  # noqa: ANN401
    """Send heartbeats at the current epoch until a response is as expected, and note that one.

    A real broker's number of steps depends on the time at which it learns of new topics. So these
    epochs are not in the transcript, and later epochs are compared relative to the last of them.
    """

    def matches(found: Any) -> bool:  # noqa: ANN401 - any response class
        expected = until(found)
        request.member_epoch = found.member_epoch
        return expected

    answer = cluster.call_until(request, 0, matches, is_recorded=False)
    assert until(answer), answer
    cluster.record("statuses", [int(code) for code in _status_codes(answer)])
    cluster.record("tasks", [[*each.partitions] for each in answer.active_tasks or ()])
    return answer


def internal_topics_are_created(cluster: ScenarioCluster) -> None:
    create_topic(cluster, f"{cluster.name}-topic", 3)
    wait_for_group_coordinator(cluster, cluster.name)
    group = _word_count(cluster)
    joined = cluster.ask(group.join("a"), 0)
    for suffix in ("repartition", "changelog"):
        wait_for_metadata(cluster, f"{cluster.name}-counts-{suffix}", 3)
    answer = _beat_until(
        cluster, group.heartbeat("a", joined.member_epoch), lambda found: bool(found.active_tasks)
    )
    epoch = answer.member_epoch
    described(cluster, group.group)
    for suffix in ("repartition", "changelog"):
        name = f"{cluster.name}-counts-{suffix}"
        cluster.ask(describe(TOPIC, name, ["cleanup.policy", "retention.ms", "segment.bytes"]), 4)
    owned: Owned = {"0": (0, 1, 2), "1": (0, 1, 2)}
    cluster.ask(group.heartbeat("a", epoch, owned), 0)
    cluster.ask(group.join("b"), 0)
    cluster.ask(group.heartbeat("a", epoch), 0)
    described(cluster, group.group)


def failed_creation_of_topics_is_reported(cluster: ScenarioCluster) -> None:
    create_topic(cluster, f"{cluster.name}-topic", 1)
    wait_for_group_coordinator(cluster, cluster.name)
    changelog = internal(f"{cluster.name}-changelog", nonsense="x")
    group = Streams(
        cluster.name, (reading(f"{cluster.name}-topic", state_changelog_topics=[changelog]),)
    )
    joined = cluster.ask(group.join("a"), 0)
    cluster.ask(group.heartbeat("a", joined.member_epoch), 0)
    described(cluster, group.group)


def source_topics_may_be_created_later(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Streams(cluster.name, (reading(f"{cluster.name}-late", f"{cluster.name}-later"),))
    joined = cluster.ask(group.join("a"), 0)
    epoch = joined.member_epoch
    cluster.ask(group.heartbeat("a", epoch), 0)
    described(cluster, group.group)
    for suffix, partitions in (("late", 2), ("later", 3)):
        create_topic(cluster, f"{cluster.name}-{suffix}", partitions)
    _beat_until(cluster, group.heartbeat("a", epoch), lambda found: bool(found.active_tasks))


def new_partitions_add_tasks(cluster: ScenarioCluster) -> None:
    group = new_group(cluster, partitions=2)
    cluster.ask(group.join("a"), 0)
    topic = f"{group.group}-topic"
    growth = CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=3, assignments=None)
    cluster.probe(CreatePartitionsRequest(topics=[growth], timeout_ms=10_000), 3)
    wait_for_metadata(cluster, topic, 3)
    _beat_until(cluster, group.heartbeat("a", 2), lambda found: bool(found.active_tasks))


def copartitioned_topics_must_have_equal_counts(cluster: ScenarioCluster) -> None:
    for index, partitions in enumerate((2, 3)):
        create_topic(cluster, f"{cluster.name}-{index}", partitions)
    both = [f"{cluster.name}-0", f"{cluster.name}-1"]
    together = [Request.CopartitionGroup(source_topics=[0, 1])]
    with_internal = [Request.CopartitionGroup(source_topics=[0], repartition_source_topics=[0])]
    repartitions = [Request.CopartitionGroup(repartition_source_topics=[0, 1])]

    def tried(suffix: str, *subtopologies: Request.Subtopology) -> None:
        name = f"{cluster.name}-{suffix}"
        wait_for_group_coordinator(cluster, name)
        group = Streams(name, subtopologies)
        cluster.ask(group.join("a"), 0)
        described(cluster, name)

    def writing(*sinks: str, name: str = "9") -> Request.Subtopology:
        return reading(both[0], name=name, repartition_sink_topics=list(sinks))

    tried("sources", reading(*both, copartition_groups=together))
    for count in (0, 2, 5):
        topic = f"{cluster.name}-internal-{count}"
        tried(
            f"internal-{count}",
            reading(
                both[1],
                repartition_source_topics=[internal(topic, count)],
                copartition_groups=with_internal,
            ),
            writing(topic),
        )
    for left, right in ((0, 0), (0, 4), (4, 4), (4, 5)):
        topics = [f"{cluster.name}-left-{left}-{right}", f"{cluster.name}-right-{left}-{right}"]
        tried(
            f"two-{left}-{right}",
            reading(
                repartition_source_topics=[internal(topics[0], left), internal(topics[1], right)],
                copartition_groups=repartitions,
            ),
            writing(*topics),
        )
    create_topic(cluster, f"{cluster.name}-wrong", 5)
    tried("wrong", reading(both[0], state_changelog_topics=[internal(f"{cluster.name}-wrong")]))


def a_topology_cannot_change(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    topic = f"{group.group}-topic"
    cluster.ask(Streams(group.group, group.subtopologies, epoch=3).join("a"), 0)
    for epoch in (3, 2, 4):
        cluster.ask(Streams(group.group, group.subtopologies, epoch).join("b"), 0)
    other = reading(topic, name="1")
    for epoch in (3, 1, 4):
        cluster.ask(Streams(group.group, (other,), epoch).join("c"), 0)
    cluster.ask(group.heartbeat("c", 4), 0)
    described(cluster, group.group)


def standbys_run_in_other_processes(cluster: ScenarioCluster) -> None:
    key = "streams.num.standby.replicas"
    create_topic(cluster, f"{cluster.name}-topic", 2)
    create_topic(cluster, f"{cluster.name}-changelog", 2)
    wait_for_group_coordinator(cluster, cluster.name)
    cluster.ask(alter(GROUP, cluster.name, (key, SET, "1")), 1)
    settled(cluster, key, "1", kind=GROUP)
    group = Streams(
        cluster.name,
        (
            reading(
                f"{cluster.name}-topic",
                state_changelog_topics=[internal(f"{cluster.name}-changelog")],
            ),
        ),
    )
    cluster.ask(group.join("a"), 0)
    cluster.ask(group.join("b"), 0)
    described(cluster, group.group)
    response = cluster.ask(group.heartbeat("a", 2), 0)
    owned = tuple(response.active_tasks[0].partitions)
    cluster.ask(group.heartbeat("a", 2, {"0": owned}), 0)
    cluster.ask(group.heartbeat("b", 3), 0)
    cluster.ask(group.heartbeat("a", 3), 0)
    described(cluster, group.group)
    cluster.ask(alter(GROUP, cluster.name, (key, SET, "0")), 1)
    settled(cluster, key, "0", kind=GROUP)
    cluster.ask(group.heartbeat("a", 3), 0)
    described(cluster, group.group)
    cluster.ask(group.heartbeat("a", 3, {"0": owned}), 0)
    described(cluster, group.group)


def threads_of_a_process_share_its_load(cluster: ScenarioCluster) -> None:
    """Distribute load over processes first, then over the members of each process."""
    group = new_group(cluster, partitions=6)
    cluster.ask(group.join("a", process_id="a"), 0)
    cluster.ask(group.join("b", process_id="a"), 0)
    cluster.ask(group.join("c", process_id="b"), 0)
    answer = cluster.probe(StreamsGroupDescribeRequest(group_ids=[group.group]), 0)
    shares = [
        sum(len(tasks.partitions) for tasks in member.target_assignment.active_tasks)
        for member in answer.groups[0].members
    ]
    cluster.record("shares", [*sorted(shares)])


def a_first_assignment_waits_for_more_members(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    key = "streams.initial.rebalance.delay.ms"
    cluster.ask(alter(GROUP, cluster.name, (key, SET, "1500")), 1)
    settled(cluster, key, "1500", kind=GROUP)
    cluster.ask(group.join("a"), 0)
    cluster.ask(group.join("b"), 0)
    described(cluster, group.group)
    cluster.ask(group.heartbeat("a", 1), 0)
    cluster.call_until(
        group.heartbeat("a", 1), 0, lambda found: found.member_epoch > 1, is_recorded=False
    )
    cluster.ask(group.heartbeat("b", 1), 0)
    described(cluster, group.group)


def task_assignments_wait_for_the_assignment_interval(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    key = "streams.assignment.interval.ms"
    cluster.ask(alter(GROUP, group.group, (key, SET, "15000")), 1)
    settled(cluster, key, "15000", kind=GROUP)
    cluster.ask(group.join("a"), 0)
    cluster.ask(group.join("b"), 0)
    cluster.ask(group.heartbeat("a", 2), 0)
    described(cluster, group.group)


def endpoints_list_partitions_of_members(cluster: ScenarioCluster) -> None:
    group = new_group(cluster, partitions=3)

    def at(host: str) -> Request.Endpoint:
        return Request.Endpoint(host=host, port=4711)

    cluster.ask(group.join("a", user_endpoint=at("here"), endpoint_information_epoch=-1), 0)
    cluster.ask(group.heartbeat("a", 2), 0)
    cluster.ask(group.heartbeat("a", 2, endpoint_information_epoch=5), 0)
    cluster.ask(group.join("b", user_endpoint=at("there"), endpoint_information_epoch=-1), 0)
    response = cluster.ask(group.heartbeat("a", 2, endpoint_information_epoch=0), 0)
    owned = tuple(response.active_tasks[0].partitions)
    cluster.ask(group.heartbeat("a", 2, {"0": owned}, endpoint_information_epoch=1), 0)
    cluster.ask(group.heartbeat("b", 3, endpoint_information_epoch=1), 0)
    cluster.ask(group.heartbeat("a", 3, endpoint_information_epoch=2), 0)
    cluster.ask(group.join("c", endpoint_information_epoch=0), 0)


def a_member_requests_a_shutdown(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    cluster.ask(group.join("a"), 0)
    cluster.ask(group.join("b"), 0)
    cluster.ask(group.heartbeat("a", 2, shutdown_application=True), 0)
    cluster.ask(group.heartbeat("b", 3), 0)
    cluster.ask(group.heartbeat("b", LEAVE, shutdown_application=True), 0)
    cluster.ask(group.heartbeat("a", 2), 0)
    cluster.ask(group.heartbeat("a", LEAVE), 0)
    cluster.ask(group.join("a"), 0)


def changed_member_metadata_is_stored(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    cluster.ask(group.join("a"), 0)
    changes: tuple[dict[str, Any], ...] = (
        {"rack_id": "r"},
        {"rebalance_timeout_ms": 9_000},
        {"client_tags": [Request.KeyValue(key="zone", value="x")]},
        {"client_tags": [Request.KeyValue(key="zone", value="x")]},
        {"user_endpoint": Request.Endpoint(host="here", port=1)},
        {"process_id": "another"},
    )
    epoch = 2
    for fields in changes:
        answer = cluster.ask(group.heartbeat("a", epoch, **fields), 0)
        epoch = answer.member_epoch
    cluster.ask(group.join("a"), 0)
    described(cluster, group.group)


def commits_in_streams_groups_require_the_right_epoch(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    topic = f"{group.group}-topic"
    other = f"{group.group}-other"
    create_topic(cluster, other)
    cluster.ask(group.join("a"), 0)
    claims = (("a", 2), ("a", 3), ("a", 1), ("a", -1), ("unknown", 2), ("", -1))
    for version in (8, 9):
        for member, epoch in claims:
            cluster.ask(commit(group.group, topic, 0, member_id=member, epoch=epoch), version)
    cluster.ask(commit(group.group, other, 0, member_id="a", epoch=2), 9)
    cluster.ask(commit(group.group, other, 0, member_id="a", epoch=1), 9)
    readers: tuple[tuple[str | None, int], ...] = ((None, -1), *claims)
    for reader, epoch in readers:
        cluster.ask(fetch(group.group, topic, 0, member_id=reader, epoch=epoch), 9)
    cluster.ask(group.heartbeat("a", LEAVE), 0)
    cluster.ask(commit(group.group, topic, 1), 9)
    cluster.ask(commit(group.group, topic, 1), 8)
    cluster.ask(fetch(group.group, topic, 0, 1), 9)


def a_group_that_lacks_topics_is_not_ready(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Streams(cluster.name, (reading(f"{cluster.name}-missing"),))
    cluster.ask(group.join("a"), 0)
    for states in ([], ["NotReady"], ["not_ready"], ["NOT_READY"], ["Stable"]):
        response = cluster.connection("main").call(ListGroupsRequest(states_filter=states), 5)
        rows = [row for row in response.groups if row.group_id == cluster.name]
        cluster.record(f"{states}", [f"{row.group_state} {row.group_type}" for row in rows])
    cluster.ask(DeleteGroupsRequest(groups_names=[cluster.name]), 2)
    cluster.ask(group.heartbeat("a", 2, {"0": (7,)}), 0)


def streams_groups_are_administered(cluster: ScenarioCluster) -> None:
    group = new_group(cluster, partitions=1)
    topic = f"{group.group}-topic"
    cluster.ask(group.join("a"), 0)
    cluster.ask(commit(group.group, topic, 0, member_id="a", epoch=2), 9)

    def listed(states: Sequence[str], types: Sequence[str]) -> None:
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        response = cluster.connection("main").call(request, 5)
        rows = [
            f"{row.group_id} {row.protocol_type!r} {row.group_state!r} {row.group_type!r}"
            for row in response.groups
            if row.group_id.startswith(cluster.name)
        ]
        cluster.record(f"{states} {types}", [*rows])

    def asked() -> None:
        for states in ((), ("Stable",), ("Empty",)):
            listed(states, ())
        listed((), ("streams",))
        listed((), ("consumer", "classic"))
        for version in (5, 6):
            cluster.ask(DescribeGroupsRequest(groups=[group.group]), version)
        cluster.ask(ConsumerGroupDescribeRequest(group_ids=[group.group]), 1)
        row = OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)
        named = OffsetDeleteRequest.OffsetDeleteRequestTopic(name=topic, partitions=[row])
        cluster.ask(OffsetDeleteRequest(group_id=group.group, topics=[named]), 0)
        cluster.ask(DeleteGroupsRequest(groups_names=[group.group]), 2)

    asked()
    cluster.ask(group.heartbeat("a", LEAVE), 0)
    asked()
    described(cluster, group.group)
    cluster.ask(fetch(group.group, topic, 0), 9)
    cluster.ask(group.join("a"), 0)


def streams_groups_and_others_do_not_mix(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    topic = f"{group.group}-topic"
    topic_id = create_topic(cluster, f"{cluster.name}-other")
    cluster.ask(group.join("a"), 0)
    classic = Classic(group.group)
    cluster.ask(classic.join(), 9)
    cluster.ask(classic.join("a"), 9)
    cluster.ask(classic.heartbeat("a", 2), 4)
    cluster.ask(classic.sync("a", 2), 5)
    cluster.ask(classic.leave("a"), 5)
    consumers = Consumers(group.group, topic, topic_id)
    cluster.ask(consumers.join("b"), 1)
    cluster.ask(consumers.heartbeat("a", 2), 1)
    joined_consumer(cluster, f"{cluster.name}-consumer", topic)
    stable_group(cluster, f"{cluster.name}-classic", topic)
    for kind in ("consumer", "classic"):
        other = Streams(f"{cluster.name}-{kind}", group.subtopologies)
        cluster.ask(other.join("a"), 0)
        cluster.ask(other.heartbeat("a", 2), 0)
        cluster.ask(other.heartbeat("a", LEAVE), 0)
        described(cluster, other.group)
    cluster.ask(group.heartbeat("a", LEAVE), 0)
    cluster.ask(consumers.join("b"), 1)
    described(cluster, group.group)


def an_empty_group_becomes_a_streams_group(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    classic, member, _generation = stable_group(cluster, cluster.name)
    cluster.ask(commit(cluster.name, cluster.name, 0), 8)
    cluster.ask(classic.leave(member), 5)
    group = Streams(cluster.name, (reading(cluster.name),))
    cluster.ask(group.join("a"), 0)
    cluster.ask(fetch(cluster.name, cluster.name, 0), 8)
    cluster.ask(group.heartbeat("a", LEAVE), 0)
    refused = cluster.ask(classic.join(), 9)
    cluster.ask(classic.join(refused.member_id), 9)
    cluster.ask(fetch(cluster.name, cluster.name, 0), 8)
    simple = f"{cluster.name}-simple"
    wait_for_group_coordinator(cluster, simple)
    cluster.ask(commit(simple, cluster.name, 0), 8)
    cluster.ask(Streams(simple, (reading(cluster.name),)).join("a"), 0)
    cluster.ask(fetch(simple, cluster.name, 0), 8)


def a_too_large_topology_is_refused(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    names = [f"{cluster.name}-{index:06}" for index in range(60_000)]
    group = Streams(cluster.name, (reading(*names),))
    cluster.ask(group.join("a"), 0)
    described(cluster, cluster.name)
    cluster.ask(Streams(cluster.name, (reading(*names[:4]),)).join("a"), 0)


SCENARIOS = (
    tasks_move_in_steps,
    a_reconciling_streams_group_is_described,
    first_streams_heartbeats_are_checked,
    later_streams_heartbeats_are_checked,
    a_heartbeat_after_a_lost_response_is_accepted,
    internal_topics_are_created,
    failed_creation_of_topics_is_reported,
    source_topics_may_be_created_later,
    new_partitions_add_tasks,
    copartitioned_topics_must_have_equal_counts,
    a_topology_cannot_change,
    standbys_run_in_other_processes,
    threads_of_a_process_share_its_load,
    a_first_assignment_waits_for_more_members,
    task_assignments_wait_for_the_assignment_interval,
    endpoints_list_partitions_of_members,
    a_member_requests_a_shutdown,
    changed_member_metadata_is_stored,
    commits_in_streams_groups_require_the_right_epoch,
    a_group_that_lacks_topics_is_not_ready,
    streams_groups_are_administered,
    streams_groups_and_others_do_not_mix,
    an_empty_group_becomes_a_streams_group,
    a_too_large_topology_is_refused,
)
