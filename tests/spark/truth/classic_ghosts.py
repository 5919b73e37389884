"""Scenarios of ghosts in classic groups with one member each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol._generated.messages.leave_group import LeaveGroupRequest
from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest
from kafkalite.protocol._generated.records.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.spark.truth.ghost_members import ExpectedGhost

if TYPE_CHECKING:
    from tests.spark.truth.simulation import Stage

SESSION_MS = 20_000
PARTITIONS = 3
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
_BEAT_MS = 3_000
_NAMELESS_JOIN = 3
"""The last JoinGroup version that admits a member without an id at once (KIP-394)."""
_JOIN = 5

SCENARIOS = (
    ("classic-lost", "lost response", True),
    ("classic-silent", "no heartbeat", False),
    ("classic-vanished", "stopped", False),
    ("classic-retried", None, False),
    ("classic-polite", None, False),
)
"""(group name, kind of its ghost, whether a client-generated id avoids it)."""


def ghosts(stage: Stage, prefix: str) -> list[ExpectedGhost]:
    """Run members of classic groups; returns the expected ghosts."""
    members = [
        _Member(stage, ExpectedGhost(f"{prefix}/{name}", kind, is_saved))
        for name, kind, is_saved in SCENARIOS
    ]
    for member in members:
        member.play()
        is_left = bool(member.group().soft.members)
        assert is_left is (member.ghost.kind is not None)
        member.ghost.member_ids = set(member.group().soft.members)
    stage.wait(SESSION_MS + 1_000)
    # The sessions have timed out at the coordinator too.
    assert not any(member.group().soft.members for member in members)
    return [member.ghost for member in members]


def _everything() -> bytes:
    row = ConsumerProtocolAssignment.TopicPartition(
        topic="haunted", partitions=list(range(PARTITIONS))
    )
    return bytes(codec.encode_value(ConsumerProtocolAssignment(assigned_partitions=[row]), 1))


class _Member:
    """One consumer of a classic group."""

    def __init__(self, stage: Stage, ghost: ExpectedGhost) -> None:
        self.ghost = ghost
        self._stage = stage
        self._scenario = ghost.group_id.rsplit("/classic-", 1)[-1]
        self._line = stage.line(f"classic-{self._scenario}", host=8)
        self._member_id = ""
        self._generation = -1

    def group(self) -> ClassicGroup:
        """Return the coordinator's group."""
        found = self._stage.groups.directory.groups[self.ghost.group_id]
        assert isinstance(found, ClassicGroup)
        return found

    def play(self) -> None:
        """Run the scenario that the group is named after."""
        getattr(self, "_" + self._scenario)()

    def _lost(self) -> None:
        self._ask_to_join(_NAMELESS_JOIN, is_lost=True)

    def _silent(self) -> None:
        self._join()

    def _vanished(self) -> None:
        self._join()
        self._stay()
        self.ghost.held_s = PARTITIONS * SESSION_MS / 1000

    def _retried(self) -> None:
        """Lose the response with the member id: the group has no member yet."""
        self._ask_to_join(_JOIN, is_lost=True)
        self._polite()

    def _polite(self) -> None:
        self._join()
        self._stay()
        identity = LeaveGroupRequest.MemberIdentity(member_id=self._member_id)
        request = LeaveGroupRequest(group_id=self.ghost.group_id, members=[identity])
        assert self._line.ask(request, 4).error_code == ErrorCode.NONE

    def _join(self) -> None:
        assert self._ask_to_join(_JOIN) == ErrorCode.MEMBER_ID_REQUIRED
        assert self._ask_to_join(_JOIN) == ErrorCode.NONE

    def _ask_to_join(self, version: int, *, is_lost: bool = False) -> int | None:
        request = JoinGroupRequest(
            group_id=self.ghost.group_id,
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
            group_id=self.ghost.group_id,
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
                group_id=self.ghost.group_id,
                generation_id=self._generation,
                member_id=self._member_id,
            )
            assert self._line.ask(beat, 4).error_code == ErrorCode.NONE
