"""Every refusal and rebalance of a group, over the wire, has a reason in the history."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.cli.main import main
from kafkalite.protocol._generated.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
)
from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
)
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.leave_group import LeaveGroupRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_delete import OffsetDeleteRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.share_acknowledge import ShareAcknowledgeRequest
from kafkalite.protocol._generated.messages.share_fetch import ShareFetchRequest
from kafkalite.protocol._generated.messages.share_group_describe import ShareGroupDescribeRequest
from kafkalite.protocol._generated.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkalite.protocol._generated.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.message import Message
from kafkalite.testing import Broker
from tests.conformance.raw import RawClient
from tests.conformance.scenarios.classic_groups import Classic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CLASSIC = Classic("classic", "orders")
IN_CONSUMER = Classic("consumer", "orders")
MEMBER = "AAAAAAAAAAAAAAAAAAAAAg"
UNKNOWN_ID = "AAAAAAAAAAAAAAAAAAAAAw"


ZOMBIE = "c1-AAAAAAAAAAAAAAAAAAAA"
SUCCESSOR = "c2-AAAAAAAAAAAAAAAAAAAA"


class Scene:
    """A broker with a stable classic group and a consumer group, each with one static member."""

    def __init__(self, broker: Broker, client: RawClient) -> None:
        self.broker = broker
        self.client = client
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
        joined = client.call(CLASSIC.join(instance="i"), 9)
        assert joined.error_code == ErrorCode.NONE
        self.member: str = joined.member_id
        client.call(CLASSIC.sync(self.member, 1, self.member, instance="i"), 5)
        answer = client.call(beat(MEMBER, 0, instance_id="i"), 1)
        assert answer.error_code == ErrorCode.NONE
        self.epoch: int = answer.member_epoch
        assert client.call(share_beat(MEMBER, 0, "shared"), 1).error_code == ErrorCode.NONE
        assert client.call(streams_join(MEMBER, "streamed"), 0).error_code == ErrorCode.NONE


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    broker = Broker(topics={"orders": 2}, clock="manual@2026-03-01")
    with broker, closing(RawClient(int(broker.bootstrap_servers.rpartition(":")[2]))) as client:
        yield Scene(broker, client)


def beat(member: str, epoch: int, **more: Any) -> ConsumerGroupHeartbeatRequest:  # noqa: ANN401
    if not epoch:
        more = {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": ["orders"],
            "topic_partitions": [],
            **more,
        }
    return ConsumerGroupHeartbeatRequest(
        group_id="consumer", member_id=member, member_epoch=epoch, **more
    )


def commit(
    group: str,
    member: str,
    epoch: int,
    instance: str | None = None,
    *,
    partition: int = 0,
    metadata: str = "",
) -> OffsetCommitRequest:
    requested = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=3, committed_metadata=metadata
    )
    return OffsetCommitRequest(
        group_id=group,
        member_id=member,
        group_instance_id=instance,
        generation_id_or_member_epoch=epoch,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(name="orders", partitions=[requested])
        ],
    )


def offsets(group: str, member: str, epoch: int) -> OffsetFetchRequest:
    requested = OffsetFetchRequest.OffsetFetchRequestGroup(
        group_id=group, member_id=member, member_epoch=epoch, topics=None
    )
    return OffsetFetchRequest(groups=[requested])


def leave(member: str, instance: str | None = None) -> LeaveGroupRequest:
    identity = LeaveGroupRequest.MemberIdentity(member_id=member, group_instance_id=instance)
    return LeaveGroupRequest(group_id="classic", members=[identity])


def streams_beat(member: str, epoch: int, group: str = "streams") -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch)


def share_beat(member: str, epoch: int, group: str = "share") -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        subscribed_topic_names=None if epoch else ["orders"],
    )


REFUSED: dict[str, tuple[str, int, Callable[[Scene], Message]]] = {
    "join of an unknown member": ("classic", 9, lambda _: CLASSIC.join("unknown")),
    "join with protocols that no member has": (
        "classic", 9, lambda _: CLASSIC.join("", "sticky", instance="j")),
    "join of another type": ("classic", 9, lambda _: CLASSIC.join(kind="connect", instance="j")),
    "join with an impossible session": (
        "classic", 9, lambda _: CLASSIC.join(session_timeout_ms=1, instance="j")),
    "join in another's name": (
        "classic", 9, lambda _: CLASSIC.join("unknown", instance="i")),
    "sync of an unknown member": ("classic", 5, lambda _: CLASSIC.sync("unknown", 1)),
    "sync of an old generation": ("classic", 5, lambda scene: CLASSIC.sync(scene.member, 0)),
    "sync in another's name": (
        "classic", 5, lambda _: CLASSIC.sync("unknown", 1, instance="i")),
    "sync of another protocol": (
        "classic", 5, lambda scene: CLASSIC.sync(scene.member, 1, protocol="sticky")),
    "heartbeat of an unknown member": ("classic", 4, lambda _: CLASSIC.heartbeat("unknown", 1)),
    "heartbeat of an old generation": (
        "classic", 4, lambda scene: CLASSIC.heartbeat(scene.member, 0)),
    "heartbeat in another's name": (
        "classic", 4, lambda _: CLASSIC.heartbeat("unknown", 1, "i")),
    "heartbeat to no group": (
        "none", 4, lambda _: HeartbeatRequest(group_id="none", member_id="m", generation_id=1)),
    "leave of an unknown member": ("classic", 5, lambda _: leave("unknown")),
    "leave in another's name": ("classic", 5, lambda _: leave("unknown", "i")),
    "commit of an unknown member": ("classic", 9, lambda _: commit("classic", "unknown", 1)),
    "commit of an old generation": (
        "classic", 9, lambda scene: commit("classic", scene.member, 0)),
    "commit in another's name": (
        "classic", 9, lambda _: commit("classic", "unknown", 1, "i")),
    "commit without a member": ("classic", 9, lambda _: commit("classic", "", -1)),
    "commit to no group": ("none", 9, lambda _: commit("none", "m", 3)),
    "commit of an old epoch": (
        "consumer", 9, lambda scene: commit("consumer", MEMBER, scene.epoch + 1)),
    "commit of an unknown consumer": ("consumer", 9, lambda _: commit("consumer", UNKNOWN_ID, 1)),
    "offsets for an old epoch": (
        "consumer", 9, lambda scene: offsets("consumer", MEMBER, scene.epoch + 1)),
    "offsets of unknown consumer": ("consumer", 9, lambda _: offsets("consumer", UNKNOWN_ID, 1)),
    "deletion of offsets in use": (
        "consumer",
        0,
        lambda _: OffsetDeleteRequest(
            group_id="consumer",
            topics=[
                OffsetDeleteRequest.OffsetDeleteRequestTopic(
                    name="orders",
                    partitions=[
                        OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)
                    ],
                )
            ],
        ),
    ),
    "commit to no partition": ("simple", 9, lambda _: commit("simple", "", -1, partition=7)),
    "commit with much metadata": (
        "simple", 9, lambda _: commit("simple", "", -1, metadata="m" * 5000)),
    "deletion of offsets of no group": ("none", 0, lambda _: OffsetDeleteRequest(group_id="none")),
    "deletion of a group in use": (
        "classic", 2, lambda _: DeleteGroupsRequest(groups_names=["classic"])),
    "deletion of no group": ("none", 2, lambda _: DeleteGroupsRequest(groups_names=["none"])),
    "beat of an unknown consumer": ("consumer", 1, lambda _: beat(UNKNOWN_ID, 3)),
    "beat of another epoch": ("consumer", 1, lambda scene: beat(MEMBER, scene.epoch + 5)),
    "beat in another's name": (
        "consumer", 1, lambda scene: beat(UNKNOWN_ID, scene.epoch, instance_id="i")),
    "join in a name that is taken": ("consumer", 1, lambda _: beat(UNKNOWN_ID, 0, instance_id="i")),
    "beat without a member id": ("consumer", 1, lambda _: beat("", 0)),
    "beat with an unknown assignor": (
        "consumer", 1, lambda _: beat(UNKNOWN_ID, 0, server_assignor="best")),
    "beat with an impossible expression": (
        "consumer", 1, lambda _: beat(
            UNKNOWN_ID, 0, subscribed_topic_names=None, subscribed_topic_regex="(")),
    "description of no group": (
        "none", 1, lambda _: ConsumerGroupDescribeRequest(group_ids=["none"])),
    "join of a consumer group by another type": (
        "consumer", 9, lambda _: IN_CONSUMER.join(kind="connect", instance="j")),
    "join of a consumer group in another's name": (
        "consumer", 9, lambda _: IN_CONSUMER.join("unknown", instance="i")),
    "sync of an unknown member in a consumer group": (
        "consumer", 5, lambda _: IN_CONSUMER.sync("unknown", 1)),
    "classic heartbeat of an unknown member in a consumer group": (
        "consumer", 4, lambda _: IN_CONSUMER.heartbeat("unknown", 1)),
    "removal of an unknown member from a consumer group": (
        "consumer", 5, lambda _: IN_CONSUMER.leave("unknown")),
    "removal in another's name from a consumer group": (
        "consumer", 5, lambda _: IN_CONSUMER.leave("unknown", instance="i")),
    "join of a share group by the classic protocol": (
        "shared", 9, lambda _: Classic("shared").join(instance="j")),
    "join of a streams group by the classic protocol": (
        "streamed", 9, lambda _: Classic("streamed").join(instance="j")),
    "description of no classic group": (
        "none", 6, lambda _: DescribeGroupsRequest(groups=["none"])),
    "description of no share group": (
        "none", 1, lambda _: ShareGroupDescribeRequest(group_ids=["none"])),
    "description of no streams group": (
        "none", 0, lambda _: StreamsGroupDescribeRequest(group_ids=["none"])),
    "alteration of share offsets in use": (
        "shared", 0, lambda _: AlterShareGroupOffsetsRequest(group_id="shared", topics=[])),
    "deletion of share offsets of no group": (
        "none", 0, lambda _: DeleteShareGroupOffsetsRequest(group_id="none", topics=[])),
    "share fetch without a session": ("shared", 2, lambda _: ShareFetchRequest(
        group_id="shared", member_id=MEMBER, share_session_epoch=7, topics=[],
        forgotten_topics_data=[])),
    "acknowledgement without a session": ("shared", 2, lambda _: ShareAcknowledgeRequest(
        group_id="shared", member_id=MEMBER, share_session_epoch=7, topics=[])),
    "streams beat of an unknown member": ("streams", 0, lambda _: streams_beat(UNKNOWN_ID, 3)),
    "streams beat to another kind of group": (
        "consumer", 0, lambda _: streams_beat(UNKNOWN_ID, 3, "consumer")),
    "share beat of an unknown member": ("share", 1, lambda _: share_beat(UNKNOWN_ID, 3)),
    "share beat to another kind of group": (
        "consumer", 1, lambda _: share_beat(UNKNOWN_ID, 0, "consumer")),
}  # fmt: skip


def codes_in(answer: object) -> set[str]:
    """Return the names of all errors in a response."""
    found: set[str] = set()
    if isinstance(answer, list):
        found.update(*map(codes_in, answer))
    elif isinstance(answer, Message):
        for name in answer.__slots__:
            value = getattr(answer, name)
            found |= {ErrorCode(value).name} if name == "error_code" and value else codes_in(value)
    return found


@pytest.mark.parametrize("what", REFUSED)
def test_a_refusal_has_a_reason_in_the_history(scene: Scene, what: str) -> None:
    group, version, request = REFUSED[what]
    before = max((entry.number for entry in scene.broker.explain()), default=0)
    codes = codes_in(scene.client.call(request(scene), version))
    assert codes
    entries = [entry for entry in scene.broker.explain(group) if entry.number > before]
    refused = [entry for entry in entries if entry.kind in {"refused", "fenced"}]
    assert {entry.facts.get("error") for entry in refused} == codes
    assert all(entry.text and "\n" not in entry.text for entry in refused)


def streams_join(member: str, group: str = "new-streams") -> StreamsGroupHeartbeatRequest:
    subtopology = StreamsGroupHeartbeatRequest.Subtopology(
        subtopology_id="0", source_topics=["orders"]
    )
    return StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        topology=StreamsGroupHeartbeatRequest.Topology(epoch=0, subtopologies=[subtopology]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="process",
        client_tags=[],
    )


REBALANCED: dict[str, tuple[int, Message]] = {
    "new-classic": (9, Classic("new-classic", "orders").join(instance="i")),
    "new-consumer": (
        1,
        ConsumerGroupHeartbeatRequest(
            group_id="new-consumer",
            member_id=MEMBER,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        ),
    ),
    "new-share": (1, share_beat(MEMBER, 0, "new-share")),
    "new-streams": (0, streams_join(MEMBER)),
}


@pytest.mark.parametrize("group", REBALANCED)
def test_a_rebalance_has_a_reason_in_the_history(scene: Scene, group: str) -> None:
    version, request = REBALANCED[group]
    assert codes_in(scene.client.call(request, version)) == set()
    entries = {entry.kind: entry for entry in scene.broker.explain(group)}
    assert {"joined", "rebalance"} <= entries.keys()
    assert MEMBER in entries["rebalance"].text or group == "new-classic"
    assert entries["rebalance"].facts


class Zombie:
    """A member that commits a partition at its old epoch, after it has revoked the partition."""

    def __init__(self, client: RawClient, broker: Broker) -> None:
        self.client = client
        self.broker = broker
        self.topic_id = bytes(16)

    def beat(self, member: str, epoch: int, owned: list[int] | None = None) -> Any:  # noqa: ANN401
        held = ConsumerGroupHeartbeatRequest.TopicPartitions(
            topic_id=self.topic_id, partitions=owned or []
        )
        return self.client.call(
            ConsumerGroupHeartbeatRequest(
                group_id="shop",
                member_id=member,
                member_epoch=epoch,
                rebalance_timeout_ms=-1 if epoch else 60_000,
                subscribed_topic_names=None if epoch else ["orders"],
                topic_partitions=None if epoch and owned is None else [held] if owned else [],
            ),
            1,
        )

    def live(self) -> tuple[int, int]:
        """Run it; return the results of its commits of a revoked and of a retained partition."""
        joined = self.beat(ZOMBIE, 0)
        (assigned,) = joined.assignment.topic_partitions
        self.topic_id, epoch = assigned.topic_id, joined.member_epoch
        self.beat(ZOMBIE, epoch, assigned.partitions)
        self.broker.clock.advance(seconds=1)
        successor = self.beat(SUCCESSOR, 0).member_epoch
        self.broker.clock.advance(seconds=1)
        retained = self.beat(ZOMBIE, epoch).assignment.topic_partitions[0].partitions
        self.beat(ZOMBIE, epoch, retained)
        self.broker.clock.advance(milliseconds=1_120)
        self.beat(SUCCESSOR, successor)
        self.broker.clock.advance(seconds=1)
        (lost,) = set(assigned.partitions) - set(retained)
        first, second = (
            self.client.call(commit("shop", ZOMBIE, epoch, partition=index), 9)
            for index in (lost, retained[0])
        )
        return tuple(each.topics[0].partitions[0].error_code for each in (first, second))


@pytest.mark.parametrize(
    ("rule", "retained"),
    [
        ("strict", ErrorCode.STALE_MEMBER_EPOCH),
        ("revocation-epoch", ErrorCode.STALE_MEMBER_EPOCH),
        ("assignment-epoch", ErrorCode.NONE),
    ],
)
def test_a_zombie_commit_is_explained_with_the_new_owner(
    rule: str, retained: int, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {
        "group.consumer.offset.commit.fencing": rule,
        "group.consumer.assignment.interval.ms": "0",
    }
    broker = Broker(
        topics={"orders": 2}, clock="manual@2026-03-01T12:00", config=config, control=True
    )
    with broker, closing(RawClient(int(broker.bootstrap_servers.rpartition(":")[2]))) as client:
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["shop"]), 6)
        assert Zombie(client, broker).live() == (ErrorCode.STALE_MEMBER_EPOCH, retained)
        refusal = next(each for each in broker.explain("shop") if each.kind == "refused")
        main(["explain", "--group", "shop", "--control", broker.control_url])
    assert refusal.text == (
        f"commit of orders-1 at epoch 2 refused: partition revoked from this member at epoch 3 "
        f"(rule {rule}); current owner: {SUCCESSOR} since 12:00:03.120"
    )
    assert (refusal.facts["rule"], refusal.facts["owner"]) == (rule, SUCCESSOR)
    line = next(line for line in capsys.readouterr().out.splitlines() if " refused: " in line)
    assert line.startswith("2026-03-01T12:00:04.120Z refused:   commit of orders-1 at epoch 2 ")
    assert "; current owner: conformance@127.0.0.1 (c2-AAAAA…) since 12:00:03.120" in line
