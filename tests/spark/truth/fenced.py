"""Stories of commits: many at their time, some behind but innocent, some of true zombies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.spark.truth.crew import Crew, Member, Truth

if TYPE_CHECKING:
    from tests.spark.truth.crew import Part, Topics
    from tests.spark.truth.stage import Stage

_BEAT_MS = 3_000
_ROUNDS = 14


def commits(stage: Stage, topics: Topics, prefix: str, groups: int = 3) -> Truth:
    """Let groups come, change and go, while members commit in time, late and far too late."""
    truth = Truth()
    topics.create("orders", 8)
    topics.create("payments", 4)
    stories = [
        _Story(stage, Crew(stage, topics, f"{prefix}/group-{n}", truth), n) for n in range(groups)
    ]
    for round_ in range(_ROUNDS):
        for story in stories:
            story.play(round_)
        stage.wait(_BEAT_MS)
    for story in stories:
        story.end()
    return truth


class _Story:
    """One group through its changes."""

    def __init__(self, stage: Stage, crew: Crew, number: int) -> None:
        self._stage = stage
        self._crew = crew
        self._number = number
        self._members: list[Member] = []
        self._born = 0
        self._past: dict[str, list[tuple[int, set[Part]]]] = {}
        self._other_line = stage.line("another-connection")

    def play(self, round_: int) -> None:
        """Beat, commit, and now and then come or go."""
        dice = self._stage.dice
        if round_ in {0, 3, 6} or (round_ > 7 and dice.random() < 0.2):
            self._come()
        elif round_ == 10 and len(self._members) > 1:
            self._leave(self._members[dice.randrange(len(self._members))])
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
        """Let all members leave."""
        for member in self._members:
            member.leave()

    def _come(self) -> None:
        self._born += 1
        line = self._stage.line(f"consumer-{self._number}-{self._born}", host=self._born)
        topics = ["orders"] if self._born % 2 else ["orders", "payments"]
        member = Member(self._crew, line, topics, f"member-{self._number}-{self._born}")
        member.join()
        self._members.append(member)

    def _leave(self, member: Member) -> None:
        """Leave, and commit all the same."""
        owned, epoch = set(member.owned), member.epoch
        member.leave()
        self._members.remove(member)
        if owned:
            member.commit(owned, epoch)

    def _beat_meanwhile(self, member: Member) -> None:
        """Commit by another connection while a heartbeat is under way that changes something."""
        owned, epoch = sorted(member.owned), member.epoch
        member.beat(is_waited_for=False, takes_us=5_000)
        if owned:
            member.commit(owned[:2], epoch, self._other_line, is_decidable=False)
        self._stage.wait(6)

    def _lose_a_beat(self, member: Member) -> None:
        """Lose the answer to a heartbeat: until the next one nobody outside knows its epoch."""
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
        """Commit as everybody does; now and then as somebody who slept through a rebalance."""
        dice = self._stage.dice
        if member.owned:
            for _ in range(dice.randrange(1, 4)):
                member.commit(sorted(member.owned)[: dice.randrange(1, 5)])
        past = self._past.get(member.member_id, [])
        behind = [each for each in past if each[0] < member.epoch]
        if behind and dice.random() < 0.5:
            epoch, owned = dice.choice(behind)
            member.commit(dice.sample(sorted(owned), min(2, len(owned))), epoch)
