"""Random walks of share groups: members fetch and acknowledge, with valid and invalid requests."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.conformance.scenarios.share_fetching import FIRST, V, shared_topic
from tests.conformance.setup import fill

if TYPE_CHECKING:
    from kafkalite.protocol._generated.messages.share_fetch import ShareFetchResponse
    from tests.conformance.scenario_cluster import ScenarioCluster
    from tests.conformance.scenarios.share_fetching import Ack, Shared

_WORDS = (0, 1, 1, 1, 2, 2, 3)
_STEPS = 60
_LIMITS = {"share.delivery.count.limit": "4", "share.partition.max.record.locks": "100"}


class _Member:
    """One member, and the records it acquired last."""

    def __init__(self, shared: Shared, name: str, dice: random.Random) -> None:
        self._shared = shared
        self._name = name
        self._dice = dice
        self._epoch = FIRST
        self._held: list[int] = []

    def fetch(self) -> None:
        dice = self._dice
        answer: ShareFetchResponse = self._shared.cluster.ask(
            self._shared.fetch(
                self._name,
                self._epoch,
                *((0,) if self._epoch == FIRST else ()),
                max_records=dice.choice((1, 2, 5, 9, 500)),
                batch_size=dice.choice((1, 3, 8, 500)),
                share_acquire_mode=dice.choice((0, 0, 1)),
            ),
            V,
        )
        self._epoch += 1
        for topic in answer.responses:
            for row in topic.partitions:
                for one in row.acquired_records:
                    self._held += range(one.first_offset, one.last_offset + 1)

    def acknowledge(self, batches: list[Ack]) -> None:
        if self._epoch == FIRST:
            return
        self._shared.cluster.ask(self._shared.ack(self._name, self._epoch, *batches), V)
        self._epoch += 1

    def acknowledge_owned_records(self) -> None:
        """Acknowledge records that it has acquired."""
        if not self._held:
            return
        dice = self._dice
        first = dice.choice(self._held)
        last = first
        while last + 1 in self._held and dice.random() < 0.7:
            last += 1
        count = last - first + 1
        word = dice.choice(_WORDS)
        words = [word] if dice.random() < 0.5 else dice.choices(_WORDS, k=count)
        self.acknowledge([(first, last, words)])
        self._held = [record for record in self._held if not first <= record <= last]

    def acknowledge_any_records(self) -> None:
        """Acknowledge records that it may not have acquired."""
        dice = self._dice
        batches: list[Ack] = []
        for _ in range(dice.randint(1, 2)):
            first = dice.randint(-2, 60)
            batches.append((first, first + dice.randint(0, 9), [dice.choice(_WORDS)]))
        self.acknowledge(batches)


def _walk(cluster: ScenarioCluster, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - the same walk on either broker
    shared = shared_topic(cluster, 5, name=f"{cluster.name}-{seed}", config=_LIMITS)
    members = [_Member(shared, name, dice) for name in "abc"]
    for _ in range(_STEPS):
        member = dice.choice(members)
        step = dice.random()
        if step < 0.15:
            fill(cluster, shared.topic, *[b"v"] * dice.randint(1, 12))
        elif step < 0.5:
            member.fetch()
        elif step < 0.9:
            member.acknowledge_owned_records()
        else:
            member.acknowledge_any_records()
        if step < 0.05:
            shared.note_state()
    shared.note_state()


def members_fetch_and_acknowledge_at_random(cluster: ScenarioCluster) -> None:
    for seed in (1, 2, 3):
        _walk(cluster, seed)


SCENARIOS = (members_fetch_and_acknowledge_at_random,)
