"""Stories of transactions that commit offsets (KAFKA-19779): a refusal aborts all their work."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalite.groups.fencing import RULES
from kafkalite.protocol.error_codes import ErrorCode
from tests.spark.truth.crew import Crew, Member, Truth
from tests.spark.truth.produced import Produced, Producer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.spark.truth.crew import Part, Topics
    from tests.spark.truth.stage import Stage

_BEAT_MS = 1_000
_ROUNDS = 4


@dataclass(slots=True)
class Transacted:
    """What the story planted."""

    aborted: Counter[str] = field(default_factory=Counter)
    """A rule, or broker → the transactions that it ends."""
    ends: dict[str, list[str]] = field(default_factory=dict)
    """A transactional id → how its transactions ended, in order."""


def transactions(stage: Stage, topics: Topics, prefix: str, truth: Truth) -> Transacted:
    """Let members of one group read, write and commit, some of them at epochs of the past."""
    crew = Crew(stage, topics, f"{prefix}/transacted", truth)
    story = Transacted()
    first = _Worker(crew, story, "first", ["orders"])
    _settle(stage, [first])
    before = sorted(first.member.owned)
    alone = first.member.epoch
    first.work(before)

    second = _Worker(crew, story, "second", ["orders"])
    _settle(stage, [first, second])
    kept = sorted(first.member.owned)
    lost = sorted(set(before) - set(kept))
    # Held since before the change: but for the last rule, all take it for a zombie's.
    for part in kept[:2]:
        first.work([part], alone)
    # A zombie twice: each refusal is of the same transaction.
    for part in lost[:2]:
        first.work([part], alone, times=2)
    # One partition of a zombie fails what it commits beside.
    first.work([kept[0], lost[0]], alone)

    together = first.member.epoch
    third = _Worker(crew, story, "third", ["payments"])
    _settle(stage, [first, second, third])
    assert first.member.epoch > together
    assert sorted(first.member.owned) == kept
    # Nothing was taken from anybody: only the strict rule minds.
    for part in kept[:3]:
        first.work([part], together)
    for worker in (first, second, third):
        worker.work(sorted(worker.member.owned)[:2])
        worker.member.leave()
    assert story.aborted["strict"] > story.aborted["revocation-epoch"]
    assert story.aborted["revocation-epoch"] > story.aborted["assignment-epoch"] > 0
    return story


def _settle(stage: Stage, workers: list[_Worker]) -> None:
    for _ in range(_ROUNDS):
        for worker in workers:
            worker.member.beat()
        stage.wait(_BEAT_MS)


class _Worker:
    """A member whose offsets go into its producer's transactions."""

    def __init__(self, crew: Crew, story: Transacted, name: str, subscribed: list[str]) -> None:
        stage = crew.stage
        self._crew = crew
        self._story = story
        self.member = Member(
            crew, stage.line(f"reader-{name}", host=6), subscribed, f"{name}-of-{crew.group_id}"
        )
        self.member.join()
        line = stage.line(f"writer-{name}", host=6)
        truth = Produced(ends=story.ends)
        self._producer = Producer(stage, crew.topics, line, f"{crew.group_id}/{name}", truth)
        self._producer.begin()

    def work(self, parts: Iterable[Part], epoch: int | None = None, times: int = 1) -> None:
        """Go through one transaction, and abort it where its offsets are refused."""
        parts = list(parts)
        epoch = self.member.epoch if epoch is None else epoch
        verdicts = [self._crew.judge(self.member.member_id, epoch, part) for part in parts]
        producer = self._producer
        assert producer.write() == ErrorCode.NONE
        who = (producer.transactional_id, producer.producer_id, producer.epoch)
        codes = {
            self.member.commit_in_transaction(parts, producer.line, who, epoch)
            for _ in range(times)
        }
        is_refused = codes != {ErrorCode.NONE}
        for rule in RULES:
            self._story.aborted[rule] += any(each.by_rule[rule] == "refuse" for each in verdicts)
        self._story.aborted["broker"] += is_refused
        assert producer.end(is_commit=not is_refused) == ErrorCode.NONE
