"""Stories of ghosts in classic groups: each member alone in its group, with its own session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.protocol import codec
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol.messages.join_group import JoinGroupRequest
from kafkalite.protocol.messages.leave_group import LeaveGroupRequest
from kafkalite.protocol.messages.sync_group import SyncGroupRequest
from kafkalite.protocol.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from tests.spark.truth.haunted import Haunting

if TYPE_CHECKING:
    from tests.spark.truth.stage import Stage

SESSION_MS = 20_000
PARTITIONS = 3
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
_BEAT_MS = 3_000
_NAMELESS_JOIN = 3
"""The last version of JoinGroup that makes a member of whoever has no name yet (KIP-394)."""
_JOIN = 5

STORIES = (
    ("classic-lost", "lost answer", True),
    ("classic-silent", "never came back", False),
    ("classic-vanished", "vanished", False),
    ("classic-retried", None, False),
    ("classic-polite", None, False),
)
"""(a group's name, the kind of ghost in it, whether an own id saves it)."""


def ghosts(stage: Stage, prefix: str) -> list[Haunting]:
    """Let members of classic groups come and go; return what there was to find."""
    members = [
        _Member(stage, Haunting(f"{prefix}/{name}", kind, is_saved))
        for name, kind, is_saved in STORIES
    ]
    for member in members:
        member.play()
        is_left = bool(member.group().soft.members)
        assert is_left is (member.haunting.kind is not None)
        member.haunting.member_ids = set(member.group().soft.members)
    stage.wait(SESSION_MS + 1_000)
    # Their coordinator has noticed, too.
    assert not any(member.group().soft.members for member in members)
    return [member.haunting for member in members]


def _everything() -> bytes:
    row = ConsumerProtocolAssignment.TopicPartition(
        topic="haunted", partitions=list(range(PARTITIONS))
    )
    return bytes(codec.encode_value(ConsumerProtocolAssignment(assigned_partitions=[row]), 1))


class _Member:
    """One consumer of a classic group."""

    def __init__(self, stage: Stage, haunting: Haunting) -> None:
        self.haunting = haunting
        self._stage = stage
        self._story = haunting.group_id.rsplit("/classic-", 1)[-1]
        self._line = stage.line(f"classic-{self._story}", host=8)
        self._member_id = ""
        self._generation = -1

    def group(self) -> ClassicGroup:
        """Return the group as its coordinator has it."""
        found = self._stage.groups.directory.groups[self.haunting.group_id]
        assert isinstance(found, ClassicGroup)
        return found

    def play(self) -> None:
        """Do what the group is named for."""
        getattr(self, "_" + self._story)()

    def _lost(self) -> None:
        self._ask_to_join(_NAMELESS_JOIN, is_lost=True)

    def _silent(self) -> None:
        self._join()

    def _vanished(self) -> None:
        self._join()
        self._stay()
        self.haunting.held_s = PARTITIONS * SESSION_MS / 1000

    def _retried(self) -> None:
        """Lose the answer that only names the member: there is none in the group yet."""
        self._ask_to_join(_JOIN, is_lost=True)
        self._polite()

    def _polite(self) -> None:
        self._join()
        self._stay()
        identity = LeaveGroupRequest.MemberIdentity(member_id=self._member_id)
        request = LeaveGroupRequest(group_id=self.haunting.group_id, members=[identity])
        assert self._line.ask(request, 4).error_code == ErrorCode.NONE

    def _join(self) -> None:
        assert self._ask_to_join(_JOIN) == ErrorCode.MEMBER_ID_REQUIRED
        assert self._ask_to_join(_JOIN) == ErrorCode.NONE

    def _ask_to_join(self, version: int, *, is_lost: bool = False) -> int | None:
        request = JoinGroupRequest(
            group_id=self.haunting.group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        answer = self._line.ask(request, version, is_lost=is_lost)
        if answer is None:
            return None
        self._member_id, self._generation = answer.member_id, answer.generation_id
        return int(answer.error_code)

    def _stay(self) -> None:
        sync = SyncGroupRequest(
            group_id=self.haunting.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(
                    member_id=self._member_id, assignment=_everything()
                )
            ],
        )
        assert self._line.ask(sync, 3).error_code == ErrorCode.NONE
        for _ in range(5):
            self._stage.wait(_BEAT_MS)
            beat = HeartbeatRequest(
                group_id=self.haunting.group_id,
                generation_id=self._generation,
                member_id=self._member_id,
            )
            assert self._line.ask(beat, 4).error_code == ErrorCode.NONE
