"""Scenarios of offset commits in transactions (KAFKA-19779): a refusal aborts the transaction."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalite.groups.modern.offset_commit_fencing import RULES
from kafkalite.protocol.error_codes import ErrorCode
from tests.spark.truth.tracked_group import Member, TrackedGroup, Truth
from tests.spark.truth.transactional_producers import Produced, Producer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.spark.truth.simulation import Stage
    from tests.spark.truth.tracked_group import Part, Topics

_BEAT_MS = 1_000
_ROUNDS = 4


@dataclass(slots=True)
class Transacted:
    """Expected results."""

    aborted: Counter[str] = field(default_factory=Counter)
    """Rule, or broker → number of transactions that it aborts."""
    ends: dict[str, list[str]] = field(default_factory=dict)
    """Transactional id → how its transactions ended, in order."""


def transactions(stage: Stage, topics: Topics, prefix: str, truth: Truth) -> Transacted:
    """Run members of one group that commit in transactions, some of them at earlier epochs."""
    tracked = TrackedGroup(stage, topics, f"{prefix}/transacted", truth)
    scenario = Transacted()
    first = _Worker(tracked, scenario, "first", ["orders"])
    _settle(stage, [first])
    before = sorted(first.member.owned)
    alone = first.member.epoch
    first.work(before)

    second = _Worker(tracked, scenario, "second", ["orders"])
    _settle(stage, [first, second])
    retained = sorted(first.member.owned)
    lost = sorted(set(before) - set(retained))
    # Owned since before the change: all rules except the last one refuse.
    for part in retained[:2]:
        first.work([part], alone)
    # Two refusals in the same transaction count once.
    for part in lost[:2]:
        first.work([part], alone, times=2)
    # One refused partition fails the whole request.
    first.work([retained[0], lost[0]], alone)

    together = first.member.epoch
    third = _Worker(tracked, scenario, "third", ["payments"])
    _settle(stage, [first, second, third])
    assert first.member.epoch > together
    assert sorted(first.member.owned) == retained
    # No partition moved, so only the strict rule refuses.
    for part in retained[:3]:
        first.work([part], together)
    for worker in (first, second, third):
        worker.work(sorted(worker.member.owned)[:2])
        worker.member.leave()
    assert scenario.aborted["strict"] > scenario.aborted["revocation-epoch"]
    assert scenario.aborted["revocation-epoch"] > scenario.aborted["assignment-epoch"] > 0
    return scenario


def _settle(stage: Stage, workers: list[_Worker]) -> None:
    for _ in range(_ROUNDS):
        for worker in workers:
            worker.member.beat()
        stage.wait(_BEAT_MS)


class _Worker:
    """A member whose offsets are committed in its producer's transactions."""

    def __init__(
        self, tracked: TrackedGroup, scenario: Transacted, name: str, subscribed: list[str]
    ) -> None:
        stage = tracked.stage
        self._tracked = tracked
        self._scenario = scenario
        self.member = Member(
            tracked,
            stage.line(f"reader-{name}", host=6),
            subscribed,
            f"{name}-of-{tracked.group_id}",
        )
        self.member.join()
        line = stage.line(f"writer-{name}", host=6)
        truth = Produced(ends=scenario.ends)
        self._producer = Producer(stage, tracked.topics, line, f"{tracked.group_id}/{name}", truth)
        self._producer.begin()

    def work(self, parts: Iterable[Part], epoch: int | None = None, times: int = 1) -> None:
        """Run one transaction, and abort it if its offsets are refused."""
        parts = list(parts)
        epoch = self.member.epoch if epoch is None else epoch
        expected = [self._tracked.classify(self.member.member_id, epoch, part) for part in parts]
        producer = self._producer
        assert producer.write() == ErrorCode.NONE
        who = (producer.transactional_id, producer.producer_id, producer.epoch)
        codes = {
            self.member.commit_in_transaction(parts, producer.line, who, epoch)
            for _ in range(times)
        }
        is_refused = codes != {ErrorCode.NONE}
        for rule in RULES:
            self._scenario.aborted[rule] += any(
                offset.by_rule[rule] == "refuse" for offset in expected
            )
        self._scenario.aborted["broker"] += is_refused
        assert producer.end(is_commit=not is_refused) == ErrorCode.NONE
