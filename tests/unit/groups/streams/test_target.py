"""Target assignments of streams groups."""

from __future__ import annotations

from kafkalite.config.rules import Rules
from kafkalite.groups.streams.configured_topology import configure
from kafkalite.groups.streams.member import MemberMetadata
from kafkalite.groups.streams.target import STANDBY_REPLICAS, AssignmentInput, compute_target
from kafkalite.groups.streams.tasks import NO_TASKS
from kafkalite.groups.streams.topology import topology_of
from tests.scenarios.group_coordinator import image_of, topic_image
from tests.scenarios.streams_coordinator import Request, internal, reading

MEMBERS = {"a": MemberMetadata(process_id="p"), "b": MemberMetadata(process_id="q")}
INPUTS = AssignmentInput(MEMBERS, {}, {}, Rules())
TOPOLOGY = topology_of(
    Request.Topology(subtopologies=[reading("in", state_changelog_topics=[internal("store")])])
)


def test_no_tasks_are_assigned_while_topics_are_missing() -> None:
    configured = configure(TOPOLOGY, image_of(topic_image("in", 2)))
    assert compute_target(INPUTS, configured, {}).targets == {"a": NO_TASKS, "b": NO_TASKS}


def test_the_number_of_standbys_is_passed_to_the_assignor() -> None:
    configured = configure(TOPOLOGY, image_of(topic_image("in", 2), topic_image("store", 2)))
    without = compute_target(INPUTS, configured, {}).targets
    assert [each.standby for each in without.values()] == [{}, {}]
    copied = compute_target(INPUTS, configured, {STANDBY_REPLICAS: "1"}).targets
    assert [each.standby for each in copied.values()] == [{"0": {1}}, {"0": {0}}]


def test_targets_are_in_the_order_of_kafkas_hash_map() -> None:
    """Kafka writes the records of an assignment in this order."""
    members = {name: MemberMetadata(process_id=name) for name in ("i0", "j0", "x0")}
    configured = configure(TOPOLOGY, image_of(topic_image("in", 3), topic_image("store", 3)))
    target = compute_target(AssignmentInput(members, {}, {}, Rules()), configured, {})
    assert list(target.targets) == ["j0", "i0", "x0"]
