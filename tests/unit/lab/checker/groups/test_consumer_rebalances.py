"""What other rules would have changed in groups of the consumer protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.lab.checker.collecting import Observation
from kafkalite.lab.checker.groups.counterfactuals import (
    RELAXED_FENCING,
    STATIC_MEMBERSHIP,
    Counterfactual,
    counterfactuals,
)
from kafkalite.lab.checker.groups.requests import GroupRequests
from kafkalite.lab.checker.history import Client, Event, Proof
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkalite.protocol._generated.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kafkalite.protocol.message import Message

SECOND_NS = 1_000_000_000
GROUP, TOPIC, TOPIC_ID = "shop", "orders", bytes(15) + b"\1"


class Heartbeats:
    """Heartbeats and commits of members named CLIENT-NUMBER, at given seconds."""

    def __init__(self) -> None:
        self.requests = GroupRequests()
        self.requests.topic_names[TOPIC_ID] = TOPIC

    def beat(
        self, member: str, at_s: float, sent: int, received: int, *numbers: int | None
    ) -> None:
        """Send an epoch and receive one; None in place of partitions stands for no assignment."""
        row = ConsumerGroupHeartbeatResponse.TopicPartitions(
            topic_id=TOPIC_ID, partitions=[each for each in numbers if each is not None]
        )
        assignment = ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=[row])
        self._add(
            member,
            at_s,
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member, member_epoch=sent),
            ConsumerGroupHeartbeatResponse(
                member_id=member,
                member_epoch=received,
                assignment=None if numbers == (None,) else assignment,
            ),
        )

    def refuse(self, member: str, at_s: float, epoch: int, *numbers: int) -> None:
        """Refuse a commit of partitions at an epoch."""
        request, response = OffsetCommitRequest, OffsetCommitResponse
        rows = [request.OffsetCommitRequestPartition(partition_index=each) for each in numbers]
        errors = [
            response.OffsetCommitResponsePartition(
                partition_index=each, error_code=int(ErrorCode.STALE_MEMBER_EPOCH)
            )
            for each in numbers
        ]
        self._add(
            member,
            at_s,
            ApiKey.OFFSET_COMMIT,
            request(
                group_id=GROUP,
                member_id=member,
                generation_id_or_member_epoch=epoch,
                topics=[request.OffsetCommitRequestTopic(name=TOPIC, partitions=rows)],
            ),
            response(topics=[response.OffsetCommitResponseTopic(name=TOPIC, partitions=errors)]),
        )

    def _add(
        self, member: str, at_s: float, key: ApiKey, request: Message, response: Message
    ) -> None:
        client = member.partition("-")[0]
        event = Event(
            client=Client(client, "10.0.0.1"),
            connection=0,
            sent_ns=int(at_s * SECOND_NS),
            answered_ns=int(at_s * SECOND_NS),
            broker="node 1",
            proof=Proof("", -1, client, 0),
        )
        self.requests.add(Observation(int(key), request, response, event))

    def changes(self) -> dict[str, Counterfactual]:
        return {row.rule: row for row in counterfactuals(self.requests)}


def two_members() -> Heartbeats:
    group = Heartbeats()
    group.beat("a-1", 0, 0, 1, 0, 1)
    group.beat("b-1", 1, 0, 2)
    group.beat("a-1", 2, 1, 1, 0)  # gives partition 1 up
    group.beat("b-1", 4, 2, 2, 1)
    group.beat("a-1", 5, 1, 2, None)
    return group


def test_a_partition_stands_still_between_the_answers_that_take_and_give_it() -> None:
    group = two_members()
    group.refuse("a-1", 6, 1, 0, 1)
    rows = group.changes()
    assert set(rows) == {STATIC_MEMBERSHIP, RELAXED_FENCING}
    assert rows[RELAXED_FENCING] == Counterfactual(
        group=GROUP,
        rule=RELAXED_FENCING,
        rebalances=1,
        fewer_rebalances=0,
        partition_seconds=2,
        fewer_partition_seconds=0,
        refused_commits=2,
        fewer_refused_commits=1,  # of the partition that the member still has
    )


def test_a_restart_causes_no_rebalance_with_static_membership() -> None:
    group = two_members()
    group.beat("b-1", 10, -1, -1, None)
    group.beat("a-1", 12, 2, 3, 0, 1)  # partition 1 was idle for 2 s
    group.beat("b-2", 20, 0, 4)
    group.beat("a-1", 21, 3, 4, 0)
    group.beat("b-2", 25, 4, 4, 1)  # and for 4 s
    static = group.changes()[STATIC_MEMBERSHIP]
    assert (static.rebalances, static.fewer_rebalances) == (3, 2)
    assert static.partition_seconds == 2 + 2 + 4
    # It waits for its member from 10 s to 20 s instead.
    assert static.fewer_partition_seconds == 2 + 4 - 10


def test_a_member_that_another_one_replaced_silently_was_removed() -> None:
    group = two_members()
    group.beat("a-1", 50, 2, 3, 0, 1)  # b-1 sent its last heartbeat at 4 s
    row = group.changes()[STATIC_MEMBERSHIP]
    assert (row.rebalances, row.fewer_rebalances) == (2, 0)
    assert row.partition_seconds == 2 + 46


def test_a_client_that_is_away_for_longer_than_its_session_is_a_new_member() -> None:
    group = two_members()
    group.beat("b-1", 10, -1, -1, None)
    group.beat("a-1", 12, 2, 3, 0, 1)
    group.beat("b-2", 60, 0, 4)
    assert group.changes()[STATIC_MEMBERSHIP].fewer_rebalances == 0


def test_a_group_without_a_standstill_has_no_rows() -> None:
    group = Heartbeats()
    group.beat("a-1", 0, 0, 1, 0, 1)
    assert counterfactuals(group.requests) == []
