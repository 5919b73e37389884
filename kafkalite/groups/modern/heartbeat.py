"""ModernHeartbeat: the steps of a heartbeat that all modern groups have in common.

A heartbeat never changes the group. Each step reads the group and the results of earlier steps,
and adds records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from kafkalite.groups.modern.events import (
    assignment_postponed_event,
    group_epoch_raised_event,
    target_computed_event,
)
from kafkalite.groups.modern.group import ModernGroup, may_assign_now
from kafkalite.groups.modern.sessions import cancel_rebalance_timer, rebalance_timer
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.coordinator.contract import Event, TimerChange
    from kafkalite.groups.group import GroupId, MemberId, Record
    from kafkalite.groups.modern.context import GroupContext
    from kafkalite.groups.modern.record_types import RecordTypes
    from kafkalite.groups.modern.sessions import RebalanceExpiry

X = TypeVar("X", bound="GroupContext[Any]")
G = TypeVar("G", bound=ModernGroup[Any, Any, Any])
M = TypeVar("M")
C = TypeVar("C")
T = TypeVar("T")


class HeartbeatRecords(NamedTuple):
    """The records that heartbeats of one group type write."""

    types: RecordTypes
    target_record: Callable[[GroupId, MemberId, Any], Record]
    current_record: Callable[[GroupId, MemberId, Any], Record]


class AssignorRun(NamedTuple):
    """The name of an assignor, its target assignments of all members, and the previous ones."""

    assignor: str
    targets: Mapping[MemberId, Any]
    previous: Mapping[MemberId, Any]


def target_records(
    record_types: HeartbeatRecords, group_id: GroupId, epoch: int, run: AssignorRun, now_ms: int
) -> tuple[list[Record], Event]:
    """Return the records of the changed target assignments, and the event."""
    previous = run.previous
    changed = [m for m, target in run.targets.items() if target != previous.get(m)]
    new_records = [record_types.target_record(group_id, m, run.targets[m]) for m in changed]
    new_records.append(record_types.types.target_epoch_record(group_id, epoch, now_ms))
    return new_records, target_computed_event(group_id, epoch, run.assignor, changed)


class ModernHeartbeat(Generic[X, G, M, C, T]):
    """One heartbeat of one member, and its results so far."""

    __slots__ = (
        "_context",
        "_initial_current",
        "_reasons",
        "_replaces",
        "_stored",
        "current",
        "epoch",
        "events",
        "group",
        "is_join",
        "member",
        "member_id",
        "now_ms",
        "records",
        "target",
        "target_epoch",
        "timers",
    )  # fmt: skip

    RECORDS: ClassVar[HeartbeatRecords]

    def __init__(
        self,
        context: X,
        group: G,
        member_id: MemberId,
        *,
        is_join: bool,
        member: M,
        current: C,
        target: T,
        replaces: MemberId | None = None,
        records: Sequence[Record] = (),
        now_ms: int,
    ) -> None:
        self._context = context
        self._initial_current = self.current = current
        self._reasons: list[str] = []
        """The reasons for raising the group epoch."""
        self._replaces = replaces
        """The member whose instance id this member takes over, if any."""
        self.group = group
        self.member_id = member_id
        self.is_join = is_join
        self._stored = self.member = member
        self.now_ms = now_ms
        self.epoch = group.epoch
        self.target_epoch = group.target_epoch
        self.target = target
        self.records: list[Record] = list(records)
        self.timers: list[TimerChange] = []
        self.events: list[Event] = []

    def _updated_members(self) -> dict[MemberId, M]:
        """Return the group's members including this heartbeat's change."""
        members: dict[MemberId, M] = dict(self.group.members)
        if self._replaces is not None:
            del members[self._replaces]
        members[self.member_id] = self.member
        return members

    def _raise_group_epoch(self, record: Record, reasons: Sequence[str]) -> None:
        """Raise the group epoch by this record."""
        self.epoch += 1
        self.records.append(record)
        self.events.append(group_epoch_raised_event(self.group.group_id, self.epoch, reasons))

    def compute_target(self) -> None:
        """Run the assignor if the target epoch is behind and the interval has passed."""
        group = self.group
        if group.target_epoch >= self.epoch:
            return
        group_id, last_ms = group.group_id, group.target_timestamp_ms
        interval_ms = self._context.settings.of(group).assignment_interval_ms
        if not may_assign_now(last_ms, interval_ms, self.now_ms):
            if self.epoch > group.epoch:
                self.events.append(
                    assignment_postponed_event(group_id, self.epoch, last_ms, interval_ms)
                )
            self._on_assignment_postponed(interval_ms)
            return
        run = self._assign()
        new_records, event = target_records(self.RECORDS, group_id, self.epoch, run, self.now_ms)
        self.records += new_records
        self.events.append(event)
        self.target = run.targets[self.member_id]
        self.target_epoch = self.epoch

    def _assign(self) -> AssignorRun:
        """Run the assignor on the members, including this heartbeat's changes."""
        raise NotImplementedError

    def _on_assignment_postponed(self, interval_ms: int) -> None:
        """Add a status to the response, if this group type has a status for it."""

    def _set_current(self, current: C) -> None:
        """Write the member's new current assignment."""
        self.current = current
        self.records.append(
            self.RECORDS.current_record(self.group.group_id, self.member_id, current)
        )

    def _set_revocation_timer(self, expiry: RebalanceExpiry, timeout_ms: int | None) -> None:
        """Set the timer for the member's revocation; None cancels it."""
        self.timers.append(
            cancel_rebalance_timer(expiry)
            if timeout_ms is None
            else rebalance_timer(expiry, self.now_ms + timeout_ms)
        )
