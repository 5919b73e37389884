"""Scenarios of commits: most in time, some late by owners of the partition, some by zombies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.spark.truth.tracked_group import Member, TrackedGroup, Truth

if TYPE_CHECKING:
    from tests.spark.truth.simulation import Stage
    from tests.spark.truth.tracked_group import Part, Topics

_BEAT_MS = 3_000
_ROUNDS = 14
_LATER = 13


def commits(stage: Stage, topics: Topics, prefix: str, groups: int = 3) -> Truth:
    """Run groups whose members join, leave, and commit in time, late and too late."""
    truth = Truth()
    topics.create("orders", 8)
    topics.create("payments", 4)
    scenarios = [
        _Scenario(stage, TrackedGroup(stage, topics, f"{prefix}/group-{n}", truth), n)
        for n in range(groups)
    ]
    for round_ in range(_ROUNDS):
        for scenario in scenarios:
            scenario.play(round_)
        stage.wait(_BEAT_MS)
    for scenario in scenarios:
        scenario.end()
    return truth


class _Scenario:
    """Scenario of one group."""

    def __init__(self, stage: Stage, tracked: TrackedGroup, number: int) -> None:
        self._stage = stage
        self._tracked = tracked
        self._number = number
        self._members: list[Member] = []
        self._born = 0
        self._departed: list[tuple[Member, set[Part], int]] = []
        self._past: dict[str, list[tuple[int, set[Part]]]] = {}
        self._other_line = stage.line("another-connection")

    def play(self, round_: int) -> None:
        """Send heartbeats and commits; sometimes add or remove a member."""
        dice = self._stage.dice
        if round_ in {0, 3, 6} or (round_ > 7 and dice.random() < 0.2):
            self._come()
        elif round_ == 10 and len(self._members) > 1:
            self._leave(self._members[dice.randrange(len(self._members))])
        elif round_ == _LATER:
            self._commit_after_others()
        for member in list(self._members):
            self._remember(member)
            self._commit(member)
            if round_ % 2:
                self._beat_meanwhile(member)
            elif dice.random() < 0.1:
                self._lose_a_beat(member)
            else:
                member.beat()
            self._commit(member)

    def end(self) -> None:
        """Remove all members."""
        for member in self._members:
            member.leave()

    def _come(self) -> None:
        self._born += 1
        line = self._stage.line(f"consumer-{self._number}-{self._born}", host=self._born)
        topics = ["orders"] if self._born % 2 else ["orders", "payments"]
        member = Member(self._tracked, line, topics, f"member-{self._number}-{self._born}")
        member.join()
        self._members.append(member)

    def _leave(self, member: Member) -> None:
        """Leave, and commit afterwards."""
        owned, epoch = set(member.owned), member.epoch
        member.leave()
        self._members.remove(member)
        if owned:
            member.commit(owned, epoch)
            self._departed.append((member, owned, epoch))

    def _commit_after_others(self) -> None:
        """Commit partitions of departed members, which others have got meanwhile."""
        for member, owned, epoch in self._departed:
            member.commit(owned, epoch)

    def _beat_meanwhile(self, member: Member) -> None:
        """Commit on another connection while a heartbeat that changes something is in flight."""
        owned, epoch = sorted(member.owned), member.epoch
        member.beat(is_waited_for=False, takes_us=5_000)
        if owned:
            member.commit(owned[:2], epoch, self._other_line, is_decidable=False)
        self._stage.wait(6)

    def _lose_a_beat(self, member: Member) -> None:
        """Lose a heartbeat's response, so that the capture lacks the epoch until the next one."""
        owned, epoch = sorted(member.owned), member.epoch
        member.beat(is_lost=True)
        if owned:
            member.commit(owned[:3], epoch, is_decidable=False)
        answer = member.beat(is_full=True)
        if answer is None or answer.error_code:
            member.join()

    def _remember(self, member: Member) -> None:
        past = self._past.setdefault(member.member_id, [])
        if member.owned and (not past or past[-1][0] != member.epoch):
            past.append((member.epoch, set(member.owned)))

    def _commit(self, member: Member) -> None:
        """Commit at the current epoch, and sometimes at an earlier one."""
        dice = self._stage.dice
        if member.owned:
            for _ in range(dice.randrange(1, 4)):
                member.commit(sorted(member.owned)[: dice.randrange(1, 5)])
        past = self._past.get(member.member_id, [])
        behind = [step for step in past if step[0] < member.epoch]
        if behind and dice.random() < 0.5:
            epoch, owned = dice.choice(behind)
            member.commit(dice.sample(sorted(owned), min(2, len(owned))), epoch)
