"""Scenarios of ghosts: lost join responses, and members that never return or stop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.spark.truth.tracked_group import Member, TrackedGroup, Truth

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.spark.truth.simulation import Stage
    from tests.spark.truth.tracked_group import Topics

_TICK_MS = 250
_BEAT_TICKS = 12
_TICKS = 700
PARTITIONS = 8
TOPIC = "haunted"


@dataclass(slots=True)
class ExpectedGhost:
    """Expected ghost of one group, and the time for which it blocked partitions."""

    group_id: str
    kind: str | None
    """The kind in the audit's table; None if the group has no ghost."""
    is_saved_by_own_id: bool = False
    member_ids: set[str] = field(default_factory=set)
    held_s: float = 0.0
    free_s: float = 0.0


SCENARIOS = (
    ("lost", "lost response", True),
    ("silent", "no heartbeat", True),
    ("silent-named", "no heartbeat", False),
    ("vanished", "stopped", False),
    ("retried", None, False),
    ("polite", None, False),
    ("late", None, False),
)
"""(group name, kind of its ghost, whether a client-generated id avoids it)."""


def ghosts(stage: Stage, topics: Topics, prefix: str) -> list[ExpectedGhost]:
    """Run one scenario per group next to live members; returns the expected ghosts."""
    topics.create(TOPIC, PARTITIONS)
    houses = [
        _House(stage, topics, f"{prefix}/{name}", kind, is_saved)
        for name, kind, is_saved in SCENARIOS
    ]
    for house in houses:
        house.member.join()
    for tick in range(_TICKS):
        for house in houses:
            if tick % _BEAT_TICKS == 0:
                house.member.beat()
            house.play(tick)
            house.look()
        stage.wait(_TICK_MS)
    return [house.ghost for house in houses]


class _House:
    """A group with a live member, and a second member that behaves as the group's name says."""

    def __init__(
        self,
        stage: Stage,
        topics: Topics,
        group_id: str,
        kind: str | None,
        is_saved: bool,  # noqa: FBT001
    ) -> None:
        self._stage = stage
        self.tracked = TrackedGroup(stage, topics, group_id, Truth())
        self.ghost = ExpectedGhost(group_id, kind, is_saved)
        self.member = self._new_member("alive", version=1)
        self._scenario = group_id.rsplit("/", 1)[-1]
        self._second: Member | None = None
        self._seen_us = stage.now_us

    def _new_member(self, name: str, version: int) -> Member:
        line = self._stage.line(f"{name}-{self.tracked.group_id}", host=7)
        member_id = f"{name}-of-{self.tracked.group_id}" if version else ""
        return Member(self.tracked, line, [TOPIC], member_id, version=version)

    def play(self, tick: int) -> None:
        """Run the scenario that the group is named after."""
        getattr(self, "_" + self._scenario.replace("-", "_"))(tick)

    def _lost(self, tick: int) -> None:
        if tick == 20:
            self._new_member("second", version=0).join(is_lost=True)
            self._note_ghosts()

    def _silent(self, tick: int) -> None:
        if tick == 20:
            self._new_member("second", version=0).join()
            self._note_ghosts()

    def _silent_named(self, tick: int) -> None:
        if tick == 20:
            self._new_member("second", version=1).join()
            self._note_ghosts()

    def _vanished(self, tick: int) -> None:
        self._stay(tick, until=200)
        if tick == 200:
            self._note_ghosts()

    def _retried(self, tick: int) -> None:
        """Lose the response to a join with a client-generated id: the retry is the same member."""
        if tick == 20:
            self._second = self._new_member("second", version=1)
            self._second.join(is_lost=True)
        elif tick == 24:
            assert self._second is not None
            self._second.join()
        else:
            self._stay(tick, until=_TICKS)

    def _polite(self, tick: int) -> None:
        self._stay(tick, until=200)
        if tick == 200:
            assert self._second is not None
            self._second.leave()

    def _late(self, tick: int) -> None:
        """Join shortly before the end of the capture, before the session can time out."""
        if tick == _TICKS - 20:
            self._new_member("second", version=1).join()

    def _stay(self, tick: int, until: int) -> None:
        if tick == 16 and self._second is None:
            self._second = self._new_member("second", version=1)
            self._second.join()
        elif self._second is not None and tick % _BEAT_TICKS == 6 and tick < until:
            self._second.beat()

    def _note_ghosts(self) -> None:
        group = self.tracked.group()
        assert group is not None
        self.ghost.member_ids = set(group.members) - {self.member.member_id}
        self._seen_us = self._stage.now_us

    def look(self) -> None:
        """Add the time since the last look for which the ghost blocked partitions."""
        group, ghosts_ = self.tracked.group(), self.ghost.member_ids
        passed_s = (self._stage.now_us - self._seen_us) / 1e6
        self._seen_us = self._stage.now_us
        if group is None or not ghosts_ & set(group.members):
            return
        held = sum(_count(group.current_of(ghost).assigned) for ghost in ghosts_)
        taken = sum(
            _count(group.current_of(member).assigned)
            + _count(group.current_of(member).pending_revocation)
            for member in group.members
        )
        self.ghost.held_s += held * passed_s
        self.ghost.free_s += (PARTITIONS - taken) * passed_s


def _count(parts: Mapping[bytes, Mapping[int, int]]) -> int:
    return sum(len(part) for part in parts.values())
