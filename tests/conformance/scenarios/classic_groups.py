"""Classic groups: joins, syncs, heartbeats and leaves of dynamic and static members."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol._generated.messages.leave_group import LeaveGroupRequest
from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest
from tests.conformance.setup import wait_for_group_coordinator

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

_SESSION_MS = 30_000
_REBALANCE_MS = 10_000
_JOIN, _SYNC, _HEARTBEAT, _LEAVE = 9, 5, 4, 5


@dataclass(frozen=True, slots=True)
class Classic:
    """Requests of one classic group that reads one topic."""

    group: str
    topic: str = "topic"

    def join(
        self,
        member_id: str = "",
        *protocols: str,
        instance: str | None = None,
        kind: str = "consumer",
        session_timeout_ms: int = _SESSION_MS,
        rebalance_timeout_ms: int = _REBALANCE_MS,
        metadata: bytes | None = None,
    ) -> JoinGroupRequest:
        names = protocols or ("range",)
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=kind,
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(
                    name=name,
                    metadata=_subscription(self.topic, name) if metadata is None else metadata,
                )
                for name in names
            ],
        )

    def sync(
        self,
        member_id: str,
        generation: int,
        *members: str,
        instance: str | None = None,
        kind: str | None = "consumer",
        protocol: str | None = "range",
    ) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=kind,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(
                    member_id=member, assignment=b"share %d" % index
                )
                for index, member in enumerate(members)
            ],
        )

    def heartbeat(
        self, member_id: str, generation: int, instance: str | None = None
    ) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
        )

    def leave(self, *members: str, instance: str | None = None) -> LeaveGroupRequest:
        identity = LeaveGroupRequest.MemberIdentity
        return LeaveGroupRequest(
            group_id=self.group,
            member_id=members[0] if members else "",
            members=[identity(member_id=member, group_instance_id=instance) for member in members],
        )


def _subscription(topic: str, note: str) -> bytes:
    """Encode a consumer's subscription: its topics, and user data of its assignor."""
    name, data = topic.encode(), note.encode()
    return struct.pack(f">hih{len(name)}si{len(data)}s", 0, 1, len(name), name, len(data), data)


def new_member(cluster: ScenarioCluster, group: Classic, on: str = "main", **fields: Any) -> Any:  # noqa: ANN401
    """Join as a dynamic member: without a member id, then with one; return the second response."""
    refused = cluster.ask(group.join(**fields), _JOIN, on)
    return cluster.ask(group.join(refused.member_id, **fields), _JOIN, on)


def stable_group(
    cluster: ScenarioCluster, name: str, topic: str = "topic"
) -> tuple[Classic, str, int]:
    """Create a group of one member; return its id and the generation."""
    wait_for_group_coordinator(cluster, name)
    group = Classic(name, topic)
    joined = new_member(cluster, group)
    cluster.ask(group.sync(joined.member_id, joined.generation_id, joined.member_id), _SYNC)
    return group, joined.member_id, joined.generation_id


def coordinators_are_found_in_every_version(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    for version in range(7):
        keys = [cluster.name] if version >= 4 else []
        cluster.ask(FindCoordinatorRequest(key=cluster.name, coordinator_keys=keys), version)
    cluster.ask(FindCoordinatorRequest(coordinator_keys=[cluster.name, "other", ""]), 6)
    cluster.ask(FindCoordinatorRequest(coordinator_keys=[]), 4)
    cluster.ask(FindCoordinatorRequest(key="", key_type=0), 2)
    for version in (1, 4, 6):
        bad = FindCoordinatorRequest(key="x", coordinator_keys=["x"], key_type=9)
        cluster.ask(bad, version)


def a_single_member_joins_in_every_version(cluster: ScenarioCluster) -> None:
    for version in range(10):
        name = f"{cluster.name}-{version}"
        wait_for_group_coordinator(cluster, name)
        group = Classic(name)
        joined = cluster.ask(group.join(), version)
        if joined.generation_id < 0:
            joined = cluster.ask(group.join(joined.member_id), version)
        member, generation = joined.member_id, joined.generation_id
        cluster.ask(group.sync(member, generation, member), min(version, _SYNC))
        cluster.ask(group.heartbeat(member, generation), min(version, _HEARTBEAT))
        cluster.ask(group.leave(member), min(version, _LEAVE))
        cluster.ask(group.heartbeat(member, generation), min(version, _HEARTBEAT))


def invalid_joins_are_refused(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    cluster.ask(Classic("").join(), _JOIN)
    cluster.ask(Classic("").join(), 3)
    for timeout in (0, 999, 1_800_001):
        cluster.ask(group.join(session_timeout_ms=timeout), _JOIN)
    for version in (0, 5, _JOIN):
        cluster.ask(group.join("unknown"), version)
    cluster.ask(group.join(kind=""), _JOIN)
    without = group.join()
    without.protocols = []
    for version in (3, 5, _JOIN):
        cluster.ask(without, version)


def members_without_a_common_protocol_are_refused(cluster: ScenarioCluster) -> None:
    group, _member, _generation = stable_group(cluster, cluster.name)
    for kind in ("connect", "consumer"):
        cluster.ask(group.join("", "strange", kind=kind), 3, on="other")
        cluster.ask(group.join("", "strange", kind=kind), _JOIN, on="other")
    cluster.ask(group.join("unknown", "range"), _JOIN, on="other")


def heartbeats_are_checked(cluster: ScenarioCluster) -> None:
    group, member, generation = stable_group(cluster, cluster.name)
    for version in range(5):
        cluster.ask(group.heartbeat(member, generation), version)
        cluster.ask(group.heartbeat(member, generation + 1), version)
        cluster.ask(group.heartbeat("unknown", generation), version)
        cluster.ask(Classic(f"{cluster.name}-missing").heartbeat(member, generation), version)
        cluster.ask(Classic("").heartbeat(member, generation), version)
    cluster.ask(group.heartbeat(member, generation, "no-such-instance"), _HEARTBEAT)


def syncs_are_checked(cluster: ScenarioCluster) -> None:
    group, member, generation = stable_group(cluster, cluster.name)
    for version in (0, 3, _SYNC):
        cluster.ask(group.sync(member, generation), version)
        cluster.ask(group.sync(member, generation + 1), version)
        cluster.ask(group.sync("unknown", generation), version)
        cluster.ask(Classic(f"{cluster.name}-missing").sync(member, generation), version)
        cluster.ask(Classic("").sync(member, generation), version)
    cluster.ask(group.sync(member, generation, kind="connect"), _SYNC)
    cluster.ask(group.sync(member, generation, protocol="strange"), _SYNC)
    cluster.ask(group.sync(member, generation, kind=None, protocol=None), _SYNC)


def two_members_share_a_generation(cluster: ScenarioCluster) -> None:
    group, leader, generation = stable_group(cluster, cluster.name)
    refused = cluster.ask(group.join(), _JOIN, on="second")
    second = refused.member_id
    cluster.send(group.join(second), _JOIN, on="second")
    # The first member learns of the rebalance and rejoins; then both joins are answered.
    cluster.call_until(
        group.heartbeat(leader, generation), _HEARTBEAT, lambda found: found.error_code != 0
    )
    first = cluster.ask(group.join(leader), _JOIN)
    other = cluster.receive("second", title="the join of the second")
    generation = first.generation_id
    cluster.record("same generation", generation == other.generation_id)
    cluster.ask(group.heartbeat(second, generation), _HEARTBEAT)
    cluster.send(group.sync(second, generation), _SYNC, on="second")
    cluster.ask(group.sync(leader, generation, leader, second), _SYNC)
    cluster.receive("second", title="the sync of the second")
    cluster.ask(group.heartbeat(second, generation), _HEARTBEAT)
    cluster.ask(group.join(second), _JOIN, on="second")
    cluster.ask(group.leave(second), _LEAVE)
    cluster.ask(group.heartbeat(leader, generation), _HEARTBEAT)


def a_rebalance_is_reported_to_all_members(cluster: ScenarioCluster) -> None:
    group, leader, generation = stable_group(cluster, cluster.name)
    refused = cluster.ask(group.join(), _JOIN, on="second")
    cluster.send(group.join(refused.member_id), _JOIN, on="second")
    cluster.call_until(
        group.heartbeat(leader, generation), _HEARTBEAT, lambda found: found.error_code != 0
    )
    cluster.ask(group.sync(leader, generation, leader), _SYNC)
    cluster.ask(group.leave(leader), _LEAVE)
    cluster.receive("second", title="the join of the second")


def pending_members_can_leave(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    refused = cluster.ask(group.join(), _JOIN)
    cluster.ask(group.heartbeat(refused.member_id, 0), _HEARTBEAT)
    cluster.ask(group.sync(refused.member_id, 0), _SYNC)
    cluster.ask(group.leave(refused.member_id), _LEAVE)
    cluster.ask(group.join(refused.member_id), _JOIN)


def members_leave_in_every_version(cluster: ScenarioCluster) -> None:
    for version in range(6):
        group, member, _generation = stable_group(cluster, f"{cluster.name}-{version}")
        cluster.ask(group.leave("unknown"), version)
        cluster.ask(Classic(f"{cluster.name}-missing").leave(member), version)
        cluster.ask(Classic("").leave(member), version)
        if version >= 3:
            cluster.ask(group.leave("unknown", member, member), version)
        else:
            cluster.ask(group.leave(member), version)
        cluster.ask(group.leave(member), version)


def static_members_retain_their_assignment(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    first = cluster.ask(group.join(instance="i-1"), _JOIN)
    member, generation = first.member_id, first.generation_id
    cluster.ask(group.sync(member, generation, member, instance="i-1"), _SYNC)
    for version in (5, 9):
        again = cluster.ask(group.join(instance="i-1"), version)
        cluster.record("a new id", again.member_id != member)
        cluster.record("same generation", again.generation_id == generation)
        cluster.ask(group.heartbeat(member, generation, "i-1"), _HEARTBEAT)
        cluster.ask(group.sync(member, generation, instance="i-1"), _SYNC)
        cluster.ask(group.join(member, instance="i-1"), _JOIN)
        member, generation = again.member_id, again.generation_id
        cluster.ask(group.sync(member, generation, member, instance="i-1"), _SYNC)
        cluster.ask(group.heartbeat(member, generation, "i-1"), _HEARTBEAT)
    cluster.ask(group.join("unknown", instance="i-9"), _JOIN)
    cluster.ask(group.heartbeat(member, generation, "i-9"), _HEARTBEAT)
    cluster.ask(group.leave("", instance="i-9"), _LEAVE)
    cluster.ask(group.leave("wrong", instance="i-1"), _LEAVE)
    cluster.ask(group.leave("", instance="i-1"), _LEAVE)
    cluster.ask(group.heartbeat(member, generation, "i-1"), _HEARTBEAT)


def a_static_member_with_new_protocols_rebalances(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    first = cluster.ask(group.join(instance="i-1"), _JOIN)
    member, generation = first.member_id, first.generation_id
    cluster.ask(group.sync(member, generation, member, instance="i-1"), _SYNC)
    cluster.ask(group.join("", "roundrobin", "range", instance="i-1"), _JOIN)


SCENARIOS = (
    coordinators_are_found_in_every_version,
    a_single_member_joins_in_every_version,
    invalid_joins_are_refused,
    members_without_a_common_protocol_are_refused,
    heartbeats_are_checked,
    syncs_are_checked,
    two_members_share_a_generation,
    a_rebalance_is_reported_to_all_members,
    pending_members_can_leave,
    members_leave_in_every_version,
    static_members_retain_their_assignment,
    a_static_member_with_new_protocols_rebalances,
)
