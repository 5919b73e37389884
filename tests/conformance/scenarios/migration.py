"""Migration of groups with members, and groups with members of both protocols."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol._generated.messages.leave_group import LeaveGroupRequest
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest
from kafkalite.protocol._generated.records.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from kafkalite.protocol._generated.records.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from tests.conformance.scenarios.commits import commit, fetch
from tests.conformance.scenarios.consumer_groups import Consumers, new_group
from tests.conformance.setup import create_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tests.conformance.scenario_cluster import ScenarioCluster

_JOIN, _SYNC, _HEARTBEAT, _LEAVE_GROUP, _CONSUMER = 9, 5, 4, 5, 1
_SESSION_MS, _REBALANCE_MS = 30_000, 10_000
_LEAVE, _LEAVE_FOR_A_WHILE = -1, -2
_REBALANCE_IN_PROGRESS = 27


def words(
    *topics: str, owned: Mapping[str, Iterable[int]] | None = None, version: int = 3
) -> bytes:
    """Encode a consumer's subscription: its topics and its owned partitions."""
    row = ConsumerProtocolSubscription.TopicPartition
    return codec.encode_value(
        ConsumerProtocolSubscription(
            topics=list(topics),
            owned_partitions=[
                row(topic=topic, partitions=list(owned)) for topic, owned in (owned or {}).items()
            ],
        ),
        version,
    )


def share(topic: str, *partitions: int, user_data: bytes | None = None) -> bytes:
    """Encode a leader's assignment to a consumer."""
    row = ConsumerProtocolAssignment.TopicPartition
    rows = [row(topic=topic, partitions=list(partitions))]
    assignment = ConsumerProtocolAssignment(assigned_partitions=rows, user_data=user_data)
    return codec.encode_value(assignment, 3)


@dataclass(frozen=True, slots=True)
class Classics:
    """Requests of classic members of one group."""

    group: str
    topic: str

    def join(
        self,
        member_id: str = "",
        metadata: bytes | None = None,
        *,
        owned: Sequence[int] | None = None,
        instance: str | None = None,
        kind: str = "consumer",
        protocols: Sequence[str] = ("range",),
        rebalance_ms: int = _REBALANCE_MS,
    ) -> JoinGroupRequest:
        subscription = metadata
        if subscription is None:
            subscription = words(self.topic, owned=None if owned is None else {self.topic: owned})
        row = JoinGroupRequest.JoinGroupRequestProtocol
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=kind,
            protocols=[row(name=name, metadata=subscription) for name in protocols],
        )

    def sync(
        self,
        member_id: str,
        generation: int,
        shares: Mapping[str, bytes] | None = None,
        *,
        instance: str | None = None,
        kind: str | None = "consumer",
        protocol: str | None = "range",
    ) -> SyncGroupRequest:
        row = SyncGroupRequest.SyncGroupRequestAssignment
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=kind,
            protocol_name=protocol,
            assignments=[
                row(member_id=each, assignment=given) for each, given in (shares or {}).items()
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

    def leave(self, *members: tuple[str, str | None]) -> LeaveGroupRequest:
        identity = LeaveGroupRequest.MemberIdentity
        return LeaveGroupRequest(
            group_id=self.group,
            members=[identity(member_id=each, group_instance_id=name) for each, name in members],
        )


class Play:
    """One topic, one group, and both kinds of members.

    Each member gets the same number of partitions in the compared scenarios: otherwise, in Kafka,
    the hashes of member ids decide which member gets one more.
    """

    def __init__(self, cluster: ScenarioCluster, partitions: int = 4, name: str = "") -> None:
        self.cluster = cluster
        self.consumers: Consumers = new_group(cluster, partitions, name or cluster.name)
        self.group, self.topic = self.consumers.group, self.consumers.topic
        self.classics = Classics(self.group, self.topic)

    def look(self) -> None:
        """Describe the group with the APIs of both protocols, and list it."""
        cluster = self.cluster
        cluster.ask(ConsumerGroupDescribeRequest(group_ids=[self.group]), 1)
        cluster.ask(DescribeGroupsRequest(groups=[self.group]), 6)
        listed = cluster.probe(ListGroupsRequest(), 5)
        cluster.record(
            "listed",
            [
                f"{each.protocol_type} {each.group_state} {each.group_type}"
                for each in listed.groups
                if each.group_id == self.group
            ],
        )

    def classic(self, *partitions: int, instance: str | None = None) -> str:
        """Create a Stable classic group of one member with these partitions; return its id."""
        ask, classics = self.cluster.ask, self.classics
        joined = ask(classics.join(instance=instance), _JOIN)
        if joined.generation_id < 0:
            joined = ask(classics.join(joined.member_id), _JOIN)
        member: str = joined.member_id
        given = {member: share(self.topic, *partitions)}
        ask(classics.sync(member, joined.generation_id, given, instance=instance), _SYNC)
        return member

    def two_classics(self, *shares: Sequence[int]) -> tuple[str, str]:
        """Create a Stable classic group of two members; return the ids of leader and follower."""
        cluster, classics = self.cluster, self.classics
        leader = self.classic(*shares[0])
        refused = cluster.ask(classics.join(), _JOIN, on="second")
        second: str = refused.member_id
        cluster.send(classics.join(second), _JOIN, on="second")
        cluster.call_until(
            classics.heartbeat(leader, 1), _HEARTBEAT, lambda found: found.error_code != 0
        )
        joined = cluster.ask(classics.join(leader), _JOIN)
        cluster.receive("second", title="the join of the second")
        cluster.send(classics.sync(second, joined.generation_id), _SYNC, on="second")
        given = {
            each: share(self.topic, *partitions)
            for each, partitions in zip((leader, second), shares, strict=True)
        }
        cluster.ask(classics.sync(leader, joined.generation_id, given), _SYNC)
        cluster.receive("second", title="the sync of the second")
        return leader, second

    def rejoin(self, member: str, owned: Sequence[int] | None = None, **fields: Any) -> int:  # noqa: ANN401
        """Join and sync as a classic member of a consumer group; return the generation."""
        joined = self.cluster.ask(self.classics.join(member, owned=owned, **fields), _JOIN)
        generation: int = joined.generation_id
        self.cluster.ask(
            self.classics.sync(joined.member_id, generation, instance=fields.get("instance")),
            _SYNC,
        )
        return generation

    def mixed(self) -> str:
        """Upgrade a group by a second member and reconcile both; return the classic member's id."""
        ask, consumers = self.cluster.ask, self.consumers
        member = self.classic(0, 1, 2, 3)
        ask(consumers.join("c"), _CONSUMER)
        self.rejoin(member, [0, 1, 2, 3])
        self.rejoin(member, [0, 1])
        ask(consumers.heartbeat("c", 2, []), _CONSUMER)
        return member


def a_consumer_upgrades_a_classic_group(cluster: ScenarioCluster) -> None:
    play = Play(cluster)
    ask, classics, consumers = cluster.ask, play.classics, play.consumers
    member = play.classic(0, 1, 2, 3)
    for epoch in (1, -1):
        ask(consumers.heartbeat("c", epoch), _CONSUMER)
    ask(commit(play.group, play.topic, 0, member_id=member, epoch=1), 9)
    ask(consumers.join("c"), _CONSUMER)
    play.look()
    ask(classics.heartbeat(member, 1), _HEARTBEAT)
    ask(classics.sync(member, 1), _SYNC)
    play.rejoin(member, [0, 1, 2, 3])
    play.look()
    ask(classics.heartbeat(member, 1), _HEARTBEAT)
    ask(consumers.heartbeat("c", 2, []), _CONSUMER)
    play.rejoin(member, [0, 1])
    ask(classics.heartbeat(member, 2), _HEARTBEAT)
    ask(consumers.heartbeat("c", 2, []), _CONSUMER)
    play.look()
    ask(fetch(play.group, play.topic, 0), 9)


def a_third_member_gets_a_share(cluster: ScenarioCluster) -> None:
    play = Play(cluster, partitions=6)
    ask, consumers = cluster.ask, play.consumers
    first, second = play.two_classics((0, 1, 2), (3, 4, 5))
    ask(consumers.join("c"), _CONSUMER)
    play.rejoin(first, [0, 1, 2])
    play.rejoin(second, [3, 4, 5])
    ask(consumers.heartbeat("c", 3, []), _CONSUMER)
    play.rejoin(first, [0, 1])
    ask(consumers.heartbeat("c", 3, []), _CONSUMER)
    play.rejoin(second, [3, 4])
    ask(consumers.heartbeat("c", 3), _CONSUMER)
    play.look()


def an_eager_member_revokes_by_joining(cluster: ScenarioCluster) -> None:
    play = Play(cluster)
    ask, classics, consumers = cluster.ask, play.classics, play.consumers
    member = play.classic(0, 1, 2, 3)
    ask(consumers.join("c"), _CONSUMER)
    joined = ask(classics.join(member, words(play.topic, version=0)), _JOIN)
    ask(classics.sync(member, joined.generation_id), _SYNC)
    ask(classics.heartbeat(member, joined.generation_id), _HEARTBEAT)
    ask(consumers.heartbeat("c", 2, []), _CONSUMER)
    play.look()


def waiting_joins_are_answered_at_the_upgrade(cluster: ScenarioCluster) -> None:
    other = f"{cluster.name}-topic-2"
    create_topic(cluster, other)
    play = Play(cluster)
    ask, classics = cluster.ask, play.classics
    member = play.classic(0, 1, 2, 3)
    refused = ask(classics.join(), _JOIN, on="second")
    cluster.send(classics.join(refused.member_id), _JOIN, on="second")
    cluster.call_until(
        classics.heartbeat(member, 1), _HEARTBEAT, lambda found: found.error_code != 0
    )
    # The new member supports the group's protocol, but the group has no assignment yet.
    ask(play.consumers.join("c", subscribed_topic_names=[other]), _CONSUMER)
    cluster.receive("second", title="the join of the second")
    play.look()
    ask(classics.heartbeat(member, 1), _HEARTBEAT)
    play.rejoin(refused.member_id)


def waiting_syncs_are_answered_at_the_upgrade(cluster: ScenarioCluster) -> None:
    play = Play(cluster)
    ask, classics = cluster.ask, play.classics
    member = play.classic(0, 1, 2, 3)
    refused = ask(classics.join(), _JOIN, on="second")
    second = refused.member_id
    cluster.send(classics.join(second), _JOIN, on="second")
    cluster.call_until(
        classics.heartbeat(member, 1), _HEARTBEAT, lambda found: found.error_code != 0
    )
    joined = ask(classics.join(member), _JOIN)
    cluster.receive("second", title="the join of the second")
    cluster.send(classics.sync(second, joined.generation_id), _SYNC, on="second")
    _until_parked()
    ask(play.consumers.join("c"), _CONSUMER)
    cluster.receive("second", title="the sync of the second")
    ask(classics.sync(member, joined.generation_id), _SYNC)


def _until_parked() -> None:
    """Wait until a request on another connection has arrived; there is no other sign of it."""
    time.sleep(0.1)


def groups_with_invalid_subscriptions_stay_classic(cluster: ScenarioCluster) -> None:
    def tried(
        name: str, subscription: Callable[[Play], bytes | None], given: Callable[[Play], bytes]
    ) -> None:
        play = Play(cluster, partitions=1, name=f"{cluster.name}-{name}")
        ask, classics = cluster.ask, play.classics
        refused = ask(classics.join(), _JOIN)
        joined = ask(classics.join(refused.member_id, subscription(play)), _JOIN)
        member = joined.member_id
        ask(classics.sync(member, 1, {member: given(play)}), _SYNC)
        # A new member without topics cannot be assigned partitions that the other member lacks.
        ask(play.consumers.join("c", subscribed_topic_names=[]), _CONSUMER)
        ask(classics.heartbeat(member, 1), _HEARTBEAT)

    tried("nothing", lambda _: b"", lambda _: b"")
    tried("version", lambda _: b"\xff\xff\0\0\0\0\xff\xff\xff\xff", lambda _: b"")
    tried("torn", lambda play: words(play.topic)[:-3], lambda _: b"")
    tried("share", lambda _: None, lambda _: b"\0")
    tried("torn-share", lambda _: None, lambda play: share(play.topic, 0)[:-6])
    tried("own", lambda _: None, lambda play: share(play.topic, 0, user_data=b"x"))
    tried("own-empty", lambda _: None, lambda play: share(play.topic, 0, user_data=b""))
    tried("no-share", lambda _: None, lambda _: b"")
    tried("gone", lambda _: None, lambda play: share(f"{play.topic}-gone", 0))
    tried("later", lambda play: b"\0\x63" + words(play.topic)[2:], lambda _: b"")


def groups_of_other_protocol_types_stay_classic(cluster: ScenarioCluster) -> None:
    play = Play(cluster)
    ask, classics = cluster.ask, play.classics
    refused = ask(classics.join(kind="connect"), _JOIN)
    joined = ask(classics.join(refused.member_id, kind="connect"), _JOIN)
    member = joined.member_id
    ask(classics.sync(member, 1, {member: b""}, kind="connect"), _SYNC)
    ask(play.consumers.join("c"), _CONSUMER)
    ask(classics.heartbeat(member, 1), _HEARTBEAT)


def a_group_with_a_partition_assigned_twice_is_not_upgraded(cluster: ScenarioCluster) -> None:
    play = Play(cluster)
    play.two_classics((0, 1, 2), (2, 3))
    cluster.ask(play.consumers.join("c"), _CONSUMER)
    cluster.ask(DescribeGroupsRequest(groups=[play.group]), 6)


def classic_members_join_a_consumer_group(cluster: ScenarioCluster) -> None:
    for version in range(10):
        play = Play(cluster, name=f"{cluster.name}-{version}")
        ask, classics, consumers = cluster.ask, play.classics, play.consumers
        ask(consumers.join("c"), _CONSUMER)
        joined = ask(classics.join(), version)
        if joined.generation_id < 0:
            joined = ask(classics.join(joined.member_id), version)
        member, generation = joined.member_id, joined.generation_id
        ask(classics.sync(member, generation), min(version, _SYNC))
        ask(classics.heartbeat(member, generation), min(version, _HEARTBEAT))
        ask(consumers.heartbeat("c", 2, [0, 1]), _CONSUMER)
        # All partitions that it waits for are released now, so it must rejoin.
        ask(classics.heartbeat(member, generation), min(version, _HEARTBEAT))
        ask(classics.join(member), version)
        ask(classics.sync(member, generation), min(version, _SYNC))
        ask(classics.heartbeat(member, generation), min(version, _HEARTBEAT))
        ask(classics.leave((member, None)), max(3, min(version, _LEAVE_GROUP)))


def any_member_id_is_accepted(cluster: ScenarioCluster) -> None:
    play = Play(cluster)
    ask, classics, consumers = cluster.ask, play.classics, play.consumers
    ask(consumers.join("c"), _CONSUMER)
    refused = ask(classics.join(), _JOIN)
    cluster.record("length of an id", len(refused.member_id))
    ask(classics.heartbeat(refused.member_id, 2), _HEARTBEAT)
    ask(classics.sync(refused.member_id, 2), _SYNC)
    ask(classics.leave((refused.member_id, None)), _LEAVE_GROUP)
    play.rejoin("made up")
    play.look()


def requests_of_classic_members_are_checked(cluster: ScenarioCluster) -> None:
    play = Play(cluster)
    ask, classics, consumers = cluster.ask, play.classics, play.consumers
    ask(consumers.join("c"), _CONSUMER)
    offers: tuple[tuple[str, Sequence[str]], ...]
    offers = (("connect", ("range",)), ("", ("range",)), ("consumer", ()))
    for kind, protocols in offers:
        for version in (3, _JOIN):
            ask(classics.join(kind=kind, protocols=protocols), version)
    ask(classics.join("bad", b"\0"), _JOIN)
    ask(classics.join("bad", b""), _JOIN)
    ask(classics.join("bad", b"\xff\xff\0\0\0\0"), _JOIN)
    joined = ask(classics.join("m", protocols=("sticky", "range")), _JOIN)
    generation = joined.generation_id
    for first in ("roundrobin", "range"):
        ask(classics.join("n", protocols=(first,)), _JOIN)
        ask(classics.join("n", protocols=(first, "sticky")), _JOIN)
    named: tuple[tuple[str | None, str | None], ...]
    named = (("connect", "sticky"), ("consumer", "range"), (None, None), ("consumer", "sticky"))
    for claimed, protocol in named:
        for version in (4, _SYNC):
            ask(classics.sync("m", generation, kind=claimed, protocol=protocol), version)
    for member, at in (("unknown", generation), ("c", 2), ("m", generation + 1), ("m", 0)):
        ask(classics.heartbeat(member, at), _HEARTBEAT)
        ask(classics.sync(member, at, protocol="sticky"), _SYNC)
    ask(classics.heartbeat("m", generation, "i"), _HEARTBEAT)
    ask(classics.sync("m", generation, instance="i"), _SYNC)
    ask(classics.join("m", instance="i"), _JOIN)


def assignments_are_in_the_members_version(cluster: ScenarioCluster) -> None:
    play = Play(cluster)
    ask, classics = cluster.ask, play.classics
    ask(play.consumers.join("c", subscribed_topic_names=[]), _CONSUMER)
    for version in range(4):
        joined = ask(classics.join("m", words(play.topic, version=version)), _JOIN)
        ask(classics.sync("m", joined.generation_id), _SYNC)
    joined = ask(classics.join("m", b"\0\x63" + words(play.topic)[2:]), _JOIN)
    ask(classics.sync("m", joined.generation_id), _SYNC)


def subscriptions_of_classic_members_change(cluster: ScenarioCluster) -> None:
    other = f"{cluster.name}-topic-2"
    create_topic(cluster, other, 2)
    play = Play(cluster, partitions=2)
    ask, classics, consumers = cluster.ask, play.classics, play.consumers
    ask(consumers.join("c", subscribed_topic_names=[]), _CONSUMER)
    joined = ask(classics.join("m"), _JOIN)
    ask(classics.sync("m", joined.generation_id), _SYNC)
    owned: dict[str, Sequence[int]] = {play.topic: [0, 1]}
    joined = ask(classics.join("m", words(play.topic, other, owned=owned)), _JOIN)
    ask(classics.heartbeat("m", joined.generation_id), _HEARTBEAT)
    play.look()
    owned[other] = [0, 1]
    joined = ask(classics.join("m", words(other, owned=owned)), _JOIN)
    ask(classics.sync("m", joined.generation_id), _SYNC)
    ask(classics.heartbeat("m", joined.generation_id), _HEARTBEAT)
    joined = ask(classics.join("m", words(other, owned={other: [0, 1]})), _JOIN)
    ask(classics.heartbeat("m", joined.generation_id), _HEARTBEAT)
    play.look()


def a_classic_member_changes_protocol_with_its_own_id(cluster: ScenarioCluster) -> None:
    play = Play(cluster)
    ask, classics, consumers = cluster.ask, play.classics, play.consumers
    member = play.classic(0, 1, 2, 3)
    ask(consumers.join(member), _CONSUMER)
    play.look()
    ask(classics.heartbeat(member, 1), _HEARTBEAT)
    ask(classics.sync(member, 1), _SYNC)
    ask(consumers.heartbeat(member, 1), _CONSUMER)
    # And back again, so that no member of the consumer protocol remains.
    joined = ask(classics.join(member, owned=[0, 1, 2, 3]), _JOIN)
    ask(classics.sync(member, joined.generation_id), _SYNC)
    ask(consumers.heartbeat(member, 1), _CONSUMER)
    play.look()


def a_member_that_changes_protocol_after_a_leave_gets_no_more(cluster: ScenarioCluster) -> None:
    """Leave a removed member's partitions unassigned until the group rebalances."""
    play = Play(cluster)
    ask, consumers = cluster.ask, play.consumers
    leader, second = play.two_classics([0, 1], [2, 3])
    ask(play.classics.leave((second, None)), _LEAVE_GROUP)
    over = ask(consumers.join(leader), _CONSUMER)
    assert [row.partitions for row in over.assignment.topic_partitions] == [[0, 1]]
    ask(consumers.heartbeat(leader, over.member_epoch, [0, 1]), _CONSUMER)
    play.look()


def static_members_change_their_protocol(cluster: ScenarioCluster) -> None:
    play = Play(cluster)
    ask, classics, consumers = cluster.ask, play.classics, play.consumers
    member = play.classic(0, 1, 2, 3, instance="i")
    ask(consumers.join("c", instance_id="i"), _CONSUMER)
    play.look()
    ask(classics.heartbeat(member, 1, "i"), _HEARTBEAT)
    ask(classics.sync(member, 1, instance="i"), _SYNC)
    ask(classics.join(member, instance="i"), _JOIN)
    ask(consumers.heartbeat("c", 1, instance_id="i"), _CONSUMER)
    # The classic member that replaces it makes the group classic again.
    joined = ask(classics.join(instance="i"), _JOIN)
    member = joined.member_id
    play.look()
    ask(consumers.heartbeat("c", 1, instance_id="i"), _CONSUMER)
    ask(classics.sync(member, joined.generation_id, instance="i"), _SYNC)
    ask(classics.heartbeat(member, joined.generation_id, "i"), _HEARTBEAT)


def a_static_successor_may_subscribe_to_other_topics(cluster: ScenarioCluster) -> None:
    other = f"{cluster.name}-topic-2"
    create_topic(cluster, other, 2)
    play = Play(cluster, partitions=2)
    ask, classics, consumers = cluster.ask, play.classics, play.consumers
    ask(consumers.join("c", instance_id="i"), _CONSUMER)
    joined = ask(classics.join("", words(other), instance="i"), _JOIN)
    member = joined.member_id
    ask(classics.sync(member, joined.generation_id, instance="i"), _SYNC)
    ask(classics.heartbeat(member, joined.generation_id, "i"), _HEARTBEAT)
    play.look()
    joined = ask(classics.join(member, words(other), instance="i"), _JOIN)
    given = {member: share(other, 0, 1)}
    ask(classics.sync(member, joined.generation_id, given, instance="i"), _SYNC)
    play.look()


def static_members_of_both_protocols_share_a_group(cluster: ScenarioCluster) -> None:
    play = Play(cluster)
    ask, classics, consumers = cluster.ask, play.classics, play.consumers
    ask(consumers.join("c", instance_id="i-1"), _CONSUMER)
    joined = ask(classics.join(instance="i-2"), _JOIN)
    member, generation = joined.member_id, joined.generation_id
    ask(classics.sync(member, generation, instance="i-2"), _SYNC)
    for wrong, instance in (("other", "i-2"), (member, "i-3"), (member, "i-1")):
        ask(classics.heartbeat(wrong, generation, instance), _HEARTBEAT)
        ask(classics.sync(wrong, generation, instance=instance), _SYNC)
        ask(classics.join(wrong, instance=instance), _JOIN)
    again = ask(classics.join(instance="i-2"), _JOIN)
    cluster.record("a new id", again.member_id != member)
    ask(classics.heartbeat(member, generation, "i-2"), _HEARTBEAT)
    ask(classics.sync(again.member_id, again.generation_id, instance="i-2"), _SYNC)
    # A static member of each protocol leaves temporarily; only the consumer can report it.
    ask(consumers.heartbeat("c", _LEAVE_FOR_A_WHILE, instance_id="i-1"), _CONSUMER)
    play.look()
    ask(consumers.join("d", instance_id="i-1"), _CONSUMER)
    ask(consumers.join("e", instance_id="i-2"), _CONSUMER)
    play.look()
    ask(consumers.join("f", instance_id="i-2"), _CONSUMER)


def the_last_consumer_leaves_a_classic_group_behind(cluster: ScenarioCluster) -> None:
    play = Play(cluster)
    ask, classics, consumers = cluster.ask, play.classics, play.consumers
    member = play.mixed()
    ask(commit(play.group, play.topic, 0, member_id=member, epoch=2), 9)
    ask(consumers.heartbeat("c", _LEAVE), _CONSUMER)
    play.look()
    ask(consumers.heartbeat("c", 2), _CONSUMER)
    ask(classics.heartbeat(member, 2), _HEARTBEAT)
    joined = ask(classics.join(member, owned=[0, 1]), _JOIN)
    given = {member: share(play.topic, 0, 1, 2, 3)}
    ask(classics.sync(member, joined.generation_id, given), _SYNC)
    ask(classics.heartbeat(member, joined.generation_id), _HEARTBEAT)
    play.look()
    ask(fetch(play.group, play.topic, 0), 9)
    ask(consumers.join("d"), _CONSUMER)
    play.look()


def members_are_removed_by_administrators(cluster: ScenarioCluster) -> None:
    play = Play(cluster)
    ask, classics = cluster.ask, play.classics
    member = play.mixed()
    play.rejoin("m", metadata=words())
    ask(classics.leave(("m", None), ("unknown", None), ("", "i")), _LEAVE_GROUP)
    play.look()
    ask(classics.leave(("c", None)), _LEAVE_GROUP)
    play.look()
    ask(classics.leave((member, None)), _LEAVE_GROUP)
    ask(DescribeGroupsRequest(groups=[play.group]), 6)


def all_consumers_may_be_removed_at_once(cluster: ScenarioCluster) -> None:
    play = Play(cluster)
    ask, classics, consumers = cluster.ask, play.classics, play.consumers
    member = play.mixed()
    ask(consumers.join("d", subscribed_topic_names=[]), _CONSUMER)
    ask(classics.leave(("c", None), ("d", None)), _LEAVE_GROUP)
    play.look()
    ask(classics.heartbeat(member, 2), _HEARTBEAT)


def members_that_do_not_sync_or_join_in_time_are_removed(cluster: ScenarioCluster) -> None:
    play = Play(cluster)
    ask, classics, consumers = cluster.ask, play.classics, play.consumers
    ask(consumers.join("c"), _CONSUMER)
    described = ConsumerGroupDescribeRequest(group_ids=[play.group])

    def alone(found: Any) -> bool:  # noqa: ANN401 - any response class
        return len(found.groups[0].members) == 1

    ask(classics.join("m", rebalance_ms=300), _JOIN)
    cluster.call_until(described, 1, alone)
    ask(classics.heartbeat("m", 3), _HEARTBEAT)
    joined = ask(classics.join("n", rebalance_ms=300), _JOIN)
    ask(classics.sync("n", joined.generation_id), _SYNC)
    topics = [play.topic, f"{play.topic}-2"]
    ask(consumers.heartbeat("c", 2, subscribed_topic_names=topics), _CONSUMER)
    ask(classics.heartbeat("n", joined.generation_id), _HEARTBEAT)
    cluster.call_until(described, 1, alone)


def commits_and_fetches_are_checked_by_the_members_protocol(cluster: ScenarioCluster) -> None:
    play = Play(cluster)
    ask = cluster.ask
    member = play.classic(0, 1, 2, 3)
    ask(play.consumers.join("c"), _CONSUMER)
    play.rejoin(member, [0, 1, 2, 3])
    for partition, epoch in ((0, 1), (3, 1), (0, 2), (0, 0)):
        ask(commit(play.group, play.topic, partition, member_id=member, epoch=epoch), 9)
    play.rejoin(member, [0, 1])
    for version in (8, 9):
        for partition, epoch in ((0, 1), (3, 1), (0, 2), (0, 3), (0, 0), (0, -1)):
            ask(commit(play.group, play.topic, partition, member_id=member, epoch=epoch), version)
        ask(commit(play.group, play.topic, 0, member_id="c", epoch=2), version)
        ask(commit(play.group, play.topic, 0), version)
    for reader, epoch in ((member, 2), (member, 1), ("c", 2), ("c", 1), ("x", 2), (None, -1)):
        ask(fetch(play.group, play.topic, 0, member_id=reader, epoch=epoch), 9)


# The scenario for each policy


def the_migration_policy_is_applied(cluster: ScenarioCluster) -> None:
    upgrade = Play(cluster, name=f"{cluster.name}-up")
    ask = cluster.ask
    member = upgrade.classic(0, 1, 2, 3)
    ask(upgrade.consumers.join("c"), _CONSUMER)
    ask(upgrade.classics.heartbeat(member, 1), _HEARTBEAT)
    ask(upgrade.classics.join(member, owned=[0, 1, 2, 3]), _JOIN)
    upgrade.look()

    entry = Play(cluster, name=f"{cluster.name}-in")
    ask(entry.consumers.join("c"), _CONSUMER)
    ask(entry.classics.join(), _JOIN)
    ask(entry.classics.join("m"), _JOIN)
    ask(entry.classics.join(instance="i"), _JOIN)
    ask(entry.consumers.heartbeat("c", _LEAVE), _CONSUMER)
    cluster.ask(ConsumerGroupDescribeRequest(group_ids=[entry.group]), 1)

    downgrade = Play(cluster, name=f"{cluster.name}-down")
    ask(downgrade.consumers.join("c"), _CONSUMER)
    ask(downgrade.classics.join("m"), _JOIN)
    ask(downgrade.consumers.heartbeat("c", _LEAVE), _CONSUMER)
    ask(downgrade.classics.heartbeat("m", 3), _HEARTBEAT)
    downgrade.look()

    static = Play(cluster, name=f"{cluster.name}-static")
    ask(static.consumers.join("c", instance_id="i"), _CONSUMER)
    ask(static.classics.join(instance="i"), _JOIN)
    static.look()

    empty = Play(cluster, name=f"{cluster.name}-empty")
    member = empty.classic(0)
    ask(empty.classics.leave((member, None)), _LEAVE_GROUP)
    ask(empty.consumers.join("c"), _CONSUMER)
    ask(empty.consumers.heartbeat("c", _LEAVE), _CONSUMER)
    refused = ask(empty.classics.join(), _JOIN)
    ask(empty.classics.join(refused.member_id), _JOIN)


SCENARIOS = (
    a_consumer_upgrades_a_classic_group,
    a_third_member_gets_a_share,
    an_eager_member_revokes_by_joining,
    waiting_joins_are_answered_at_the_upgrade,
    waiting_syncs_are_answered_at_the_upgrade,
    groups_with_invalid_subscriptions_stay_classic,
    groups_of_other_protocol_types_stay_classic,
    a_group_with_a_partition_assigned_twice_is_not_upgraded,
    classic_members_join_a_consumer_group,
    any_member_id_is_accepted,
    requests_of_classic_members_are_checked,
    assignments_are_in_the_members_version,
    subscriptions_of_classic_members_change,
    a_classic_member_changes_protocol_with_its_own_id,
    a_member_that_changes_protocol_after_a_leave_gets_no_more,
    static_members_change_their_protocol,
    a_static_successor_may_subscribe_to_other_topics,
    static_members_of_both_protocols_share_a_group,
    the_last_consumer_leaves_a_classic_group_behind,
    members_are_removed_by_administrators,
    all_consumers_may_be_removed_at_once,
    members_that_do_not_sync_or_join_in_time_are_removed,
    commits_and_fetches_are_checked_by_the_members_protocol,
    the_migration_policy_is_applied,
)
