"""What other rules would have changed, in groups whose times are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.groups.migration.consumer_protocol import encode_named_assignment
from kafkalite.lab.checker.collecting import Observation
from kafkalite.lab.checker.groups.counterfactuals import (
    CONSUMER_PROTOCOL,
    COOPERATIVE,
    RELAXED_FENCING,
    STATIC_MEMBERSHIP,
    Counterfactual,
    counterfactuals,
)
from kafkalite.lab.checker.groups.requests import GroupRequests
from kafkalite.lab.checker.history import Client, Event, Proof
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkalite.protocol._generated.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
)
from kafkalite.protocol._generated.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

Messages = tuple[Any, Any]
GROUP, TOPIC = "shop", "orders"
SECOND_NS = 1_000_000_000


class Members:
    """Requests of members, at given seconds."""

    def __init__(self, protocol: str = "range") -> None:
        self.requests = GroupRequests()
        self.protocol = protocol

    def add(
        self, client: str, key: ApiKey, messages: Messages, times_s: tuple[float, float]
    ) -> None:
        """Add a request with its answer, and the times of both."""
        (request, response), (sent_s, until_s) = messages, times_s
        event = Event(
            client=Client(client, "10.0.0.1"),
            connection=0,
            sent_ns=int(sent_s * SECOND_NS),
            answered_ns=int(until_s * SECOND_NS),
            broker="node 1",
            proof=Proof("", -1, client, 0),
        )
        self.requests.add(Observation(int(key), request, response, event))

    def rebalance(
        self,
        generation: int,
        joined_s: Mapping[str, float],
        end_s: float,
        assigned: Mapping[str, tuple[int, ...]],
    ) -> None:
        """Let members join at the given seconds, and get partitions; an id is CLIENT-NUMBER."""
        leader = min(joined_s)
        rows = [JoinGroupResponse.JoinGroupResponseMember(member_id=each) for each in joined_s]
        for member, sent_s in joined_s.items():
            self.add(
                member.partition("-")[0],
                ApiKey.JOIN_GROUP,
                (
                    JoinGroupRequest(group_id=GROUP, member_id=member, session_timeout_ms=45_000),
                    JoinGroupResponse(
                        generation_id=generation,
                        protocol_name=self.protocol,
                        leader=leader,
                        member_id=member,
                        members=rows if member == leader else [],
                    ),
                ),
                (sent_s, end_s),
            )
        for member, numbers in assigned.items():
            assignment = encode_named_assignment({TOPIC: numbers}, 1)
            self.add(
                member.partition("-")[0],
                ApiKey.SYNC_GROUP,
                (
                    SyncGroupRequest(group_id=GROUP, generation_id=generation, member_id=member),
                    SyncGroupResponse(assignment=assignment),
                ),
                (end_s, end_s),
            )

    def leave(self, member: str, at_s: float) -> None:
        row = LeaveGroupRequest.MemberIdentity(member_id=member)
        request = LeaveGroupRequest(group_id=GROUP, members=[row])
        self.add(
            member.partition("-")[0],
            ApiKey.LEAVE_GROUP,
            (request, LeaveGroupResponse()),
            (at_s, at_s),
        )

    def refuse(self, member: str, generation: int, partition: int, at_s: float) -> None:
        asked = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=partition)
        answered = OffsetCommitResponse.OffsetCommitResponsePartition(
            partition_index=partition, error_code=int(ErrorCode.ILLEGAL_GENERATION)
        )
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[asked])
        answer = OffsetCommitResponse.OffsetCommitResponseTopic(name=TOPIC, partitions=[answered])
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=[topic],
        )
        self.add(
            member.partition("-")[0],
            ApiKey.OFFSET_COMMIT,
            (request, OffsetCommitResponse(topics=[answer])),
            (at_s, at_s),
        )

    def rows(self) -> dict[str, Counterfactual]:
        return {each.rule: each for each in counterfactuals(self.requests)}


def test_partitions_that_stay_need_not_stand_still() -> None:
    members = Members()
    members.rebalance(1, {"a-1": 0}, 1, {"a-1": (0, 1, 2, 3)})
    members.rebalance(2, {"b-1": 10, "a-1": 11}, 21, {"a-1": (0, 1), "b-1": (2, 3)})
    rows = members.rows()
    assert rows[COOPERATIVE].partition_seconds == 40
    assert rows[COOPERATIVE].fewer_partition_seconds == 40 - 2 * 3
    assert rows[CONSUMER_PROTOCOL].fewer_partition_seconds == 40 - 2 * 5
    assert rows[STATIC_MEMBERSHIP].fewer_rebalances == 0
    assert str(rows[COOPERATIVE]) == (
        "group shop with cooperative assignment: 0 of 1 rebalances fewer, 34.0 partition-seconds "
        "of standstill fewer than 40.0, 0 of 0 refused commits fewer"
    )


def test_partitions_that_stay_do_not_stand_still_with_cooperative_assignment() -> None:
    members = Members("cooperative-sticky")
    members.rebalance(1, {"a-1": 0}, 1, {"a-1": (0, 1, 2, 3)})
    members.rebalance(2, {"b-1": 10, "a-1": 11}, 21, {"a-1": (0, 1), "b-1": ()})
    assert members.rows() == {}


def test_a_restart_needs_no_rebalance_with_static_membership() -> None:
    members = Members()
    members.rebalance(1, {"a-1": 0, "b-1": 0}, 1, {"a-1": (0,), "b-1": (1,)})
    members.leave("b-1", 10)
    members.rebalance(2, {"a-1": 11}, 12, {"a-1": (0, 1)})
    members.rebalance(3, {"b-2": 15, "a-1": 16}, 18, {"a-1": (0,), "b-2": (1,)})
    row = members.rows()[STATIC_MEMBERSHIP]
    assert (row.rebalances, row.fewer_rebalances) == (2, 2)
    # Partition 0: 11 to 12 and 16 to 18; partition 1: 10 to 12 and 16 to 18. It would have been
    # without its member from 10 to 18.
    assert row.partition_seconds == 1 + 2 + 2 + 2
    assert row.fewer_partition_seconds == 7 - 8
    assert "1.0 partition-seconds of standstill more than 7.0" in str(row)


def test_a_commit_of_a_partition_that_stayed_is_accepted_by_relaxed_fencing() -> None:
    members = Members()
    members.rebalance(1, {"a-1": 0}, 1, {"a-1": (0, 1)})
    members.rebalance(2, {"b-1": 10, "a-1": 11}, 12, {"a-1": (0,), "b-1": (1,)})
    members.refuse("a-1", 1, 0, 13)
    members.refuse("a-1", 1, 1, 13)
    rows = members.rows()
    assert (rows[RELAXED_FENCING].refused_commits, rows[RELAXED_FENCING].fewer_refused_commits) == (
        2, 1,
    )  # fmt: skip
    assert rows[CONSUMER_PROTOCOL].fewer_refused_commits == 1
    assert rows[COOPERATIVE].fewer_refused_commits == 0


def test_partitions_of_a_dead_member_wait_as_before() -> None:
    members = Members()
    members.rebalance(1, {"a-1": 0, "b-1": 0}, 1, {"a-1": (0,), "b-1": (1,)})
    members.rebalance(2, {"a-1": 46}, 47, {"a-1": (0, 1)})
    rows = members.rows()
    assert rows[COOPERATIVE].partition_seconds == 1 + 46
    assert rows[COOPERATIVE].fewer_partition_seconds == 1
