"""Stories of ghosts: joins whose answer is lost, members that never come back or just vanish."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.spark.truth.crew import Crew, Member, Truth

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.spark.truth.crew import Topics
    from tests.spark.truth.stage import Stage

_TICK_MS = 250
_BEAT_TICKS = 12
_TICKS = 700
PARTITIONS = 8
TOPIC = "haunted"


@dataclass(slots=True)
class Haunting:
    """What one group's ghost is, and what its coordinator let wait for it."""

    group_id: str
    kind: str | None
    """As the audit calls it; None where all that happens is innocent."""
    is_saved_by_own_id: bool = False
    member_ids: set[str] = field(default_factory=set)
    held_s: float = 0.0
    free_s: float = 0.0


STORIES = (
    ("lost", "lost answer", True),
    ("silent", "never came back", True),
    ("silent-named", "never came back", False),
    ("vanished", "vanished", False),
    ("retried", None, False),
    ("polite", None, False),
    ("late", None, False),
)
"""(a group's name, the kind of ghost in it, whether an own id saves it)."""


def ghosts(stage: Stage, topics: Topics, prefix: str) -> list[Haunting]:
    """Haunt groups, each in its way, beside members that live; return what there was to find."""
    topics.create(TOPIC, PARTITIONS)
    houses = [
        _House(stage, topics, f"{prefix}/{name}", kind, is_saved)
        for name, kind, is_saved in STORIES
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
    return [house.haunting for house in houses]


class _House:
    """A group with one member that lives, and one that comes as the group's name says."""

    def __init__(
        self,
        stage: Stage,
        topics: Topics,
        group_id: str,
        kind: str | None,
        is_saved: bool,  # noqa: FBT001
    ) -> None:
        self._stage = stage
        self.crew = Crew(stage, topics, group_id, Truth())
        self.haunting = Haunting(group_id, kind, is_saved)
        self.member = self._newcomer("alive", version=1)
        self._story = group_id.rsplit("/", 1)[-1]
        self._guest: Member | None = None
        self._seen_us = stage.now_us

    def _newcomer(self, name: str, version: int) -> Member:
        line = self._stage.line(f"{name}-{self.crew.group_id}", host=7)
        member_id = f"{name}-of-{self.crew.group_id}" if version else ""
        return Member(self.crew, line, [TOPIC], member_id, version=version)

    def play(self, tick: int) -> None:
        """Do what the group is named for."""
        getattr(self, "_" + self._story.replace("-", "_"))(tick)

    def _lost(self, tick: int) -> None:
        if tick == 20:
            self._newcomer("guest", version=0).join(is_lost=True)
            self._note_ghosts()

    def _silent(self, tick: int) -> None:
        if tick == 20:
            self._newcomer("guest", version=0).join()
            self._note_ghosts()

    def _silent_named(self, tick: int) -> None:
        if tick == 20:
            self._newcomer("guest", version=1).join()
            self._note_ghosts()

    def _vanished(self, tick: int) -> None:
        self._stay(tick, until=200)
        if tick == 200:
            self._note_ghosts()

    def _retried(self, tick: int) -> None:
        """Lose the answer to a join that names its member: the retry is the same one."""
        if tick == 20:
            self._guest = self._newcomer("guest", version=1)
            self._guest.join(is_lost=True)
        elif tick == 24:
            assert self._guest is not None
            self._guest.join()
        else:
            self._stay(tick, until=_TICKS)

    def _polite(self, tick: int) -> None:
        self._stay(tick, until=200)
        if tick == 200:
            assert self._guest is not None
            self._guest.leave()

    def _late(self, tick: int) -> None:
        """Come so late that the capture ends before anybody could call it silent."""
        if tick == _TICKS - 20:
            self._newcomer("guest", version=1).join()

    def _stay(self, tick: int, until: int) -> None:
        if tick == 16 and self._guest is None:
            self._guest = self._newcomer("guest", version=1)
            self._guest.join()
        elif self._guest is not None and tick % _BEAT_TICKS == 6 and tick < until:
            self._guest.beat()

    def _note_ghosts(self) -> None:
        group = self.crew.group()
        assert group is not None
        self.haunting.member_ids = set(group.members) - {self.member.member_id}
        self._seen_us = self._stage.now_us

    def look(self) -> None:
        """Add up what waits for a ghost that is in the group."""
        group, ghosts_ = self.crew.group(), self.haunting.member_ids
        passed_s = (self._stage.now_us - self._seen_us) / 1e6
        self._seen_us = self._stage.now_us
        if group is None or not ghosts_ & set(group.members):
            return
        held = sum(_count(group.current_of(each).assigned) for each in ghosts_)
        taken = sum(
            _count(group.current_of(each).assigned)
            + _count(group.current_of(each).pending_revocation)
            for each in group.members
        )
        self.haunting.held_s += held * passed_s
        self.haunting.free_s += (PARTITIONS - taken) * passed_s


def _count(parts: Mapping[bytes, Mapping[int, int]]) -> int:
    return sum(len(each) for each in parts.values())
