"""Random walks of consumer groups: joins, lags, static members and commits in any order.

Each request of a walk depends on earlier responses, so the first difference is the relevant one.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any, Final

from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from tests.conformance.scenarios.commits import commit, fetch
from tests.conformance.scenarios.consumer_groups import Consumers
from tests.conformance.setup import create_topic, wait_for_group_coordinator

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conformance.scenario_cluster import ScenarioCluster

WALKS: Final = 500 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 8
STEPS: Final = 40
_LEAVE, _LEAVE_FOR_A_WHILE = -1, -2
# Kafka's order of members is that of its hash maps; with these names it is alphabetical.
_MEMBERS: Final = ("a", "b", "c")
_INSTANCES: Final = ("i-1", "i-2")

Request = ConsumerGroupHeartbeatRequest
Owned = dict[bytes, list[int]]


class _Walker:
    """One client with its own view of its state."""

    def __init__(self, group: Consumers, member: str, topics: list[str], assignor: str) -> None:
        self._group, self.member = group, member
        self._topics, self._assignor = topics, assignor
        self._instance: str | None = None
        self._has_joined = False
        self.epoch = 0
        self._owned: Owned = {}

    def join(self, choices: random.Random) -> Request:
        # The instance id does not change. If it did, Kafka would accept the old one until it loads
        # the group again; kafkalite would not.
        if not self._has_joined:
            self._instance = choices.choice([None, None, None, *_INSTANCES])
            self._has_joined = True
        return self._group.join(
            self.member,
            instance_id=self._instance,
            subscribed_topic_names=self._some_topics(choices),
            server_assignor=self._assignor,
        )

    def _some_topics(self, choices: random.Random) -> list[str]:
        # Never an empty subscription: then Kafka's choice of subscribers depends on its previous
        # computation.
        return choices.choice([self._topics, self._topics, self._topics[:1], self._topics[-1:]])

    def _beat(self, epoch: int, owned: Owned | None, **fields: Any) -> Request:  # noqa: ANN401
        request = self._group.heartbeat(self.member, epoch, None, **fields)
        request.instance_id = self._instance
        if owned is not None:
            request.topic_partitions = [
                Request.TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in owned.items()
            ]
        return request

    def beat(self, choices: random.Random) -> Request:
        del choices
        return self._beat(self.epoch, None)

    def report(self, choices: random.Random) -> Request:
        del choices
        return self._beat(self.epoch, self._owned)

    def forget(self, choices: random.Random) -> Request:
        del choices
        return self._beat(self.epoch, {})

    def lag(self, choices: random.Random) -> Request:
        return self._beat(max(1, self.epoch - choices.choice([1, 1, 2])), self._owned)

    def hurry(self, choices: random.Random) -> Request:
        del choices
        return self._beat(self.epoch + 1, self._owned)

    def subscribe(self, choices: random.Random) -> Request:
        names = self._some_topics(choices)
        return self._beat(self.epoch, self._owned, subscribed_topic_names=names)

    def leave(self, choices: random.Random) -> Request:
        del choices
        return self._beat(_LEAVE, None)

    def leave_for_a_while(self, choices: random.Random) -> Request:
        del choices
        return self._beat(_LEAVE_FOR_A_WHILE, None)

    def learn(self, answer: Any) -> None:  # noqa: ANN401 - a response
        if answer.error_code or answer.member_epoch < 0:
            self.epoch, self._owned = 0, {}
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self._owned = {
                topic.topic_id: sorted(topic.partitions)
                for topic in answer.assignment.topic_partitions
            }


_STEPS: dict[Callable[[_Walker, random.Random], Request] | None, int] = {
    _Walker.join: 2,
    _Walker.beat: 5,
    _Walker.report: 10,
    _Walker.forget: 1,
    _Walker.lag: 2,
    _Walker.hurry: 1,
    _Walker.subscribe: 2,
    _Walker.leave: 1,
    _Walker.leave_for_a_while: 1,
    None: 6,  # it commits, or fetches
}


def consumers_act_at_random(cluster: ScenarioCluster) -> None:
    """Walk over topics of several sizes.

    Ties between topics are decided by their ids, which are random. So with several topics, the
    assignor is the one that assigns each topic separately.
    """
    walks = [_prepared(cluster, seed) for seed in range(WALKS)]
    for seed, (group, topics) in enumerate(walks):
        _walk(cluster, group, topics, random.Random(seed))  # noqa: S311 - the same every time


def _prepared(cluster: ScenarioCluster, seed: int) -> tuple[Consumers, list[str]]:
    """Create a walk's topics early, because Kafka's coordinator learns of them late."""
    name = f"{cluster.name}-{seed}"
    topics = [f"{name}-topic"]
    topic_id = create_topic(cluster, topics[0], seed % 5 + 1)
    if seed % 2:
        topics.append(f"{name}-other")
        create_topic(cluster, topics[1], 2)
    wait_for_group_coordinator(cluster, name)
    return Consumers(name, topics[0], topic_id), topics


def _walk(
    cluster: ScenarioCluster, group: Consumers, topics: list[str], choices: random.Random
) -> None:
    assignor = "uniform" if len(topics) == 1 else "range"
    walkers = {member: _Walker(group, member, topics, assignor) for member in _MEMBERS}
    for _ in range(STEPS):
        walker = walkers[choices.choice(_MEMBERS)]
        (step,) = choices.choices([*_STEPS], [*_STEPS.values()])
        if step is None:
            _commit_or_fetch(cluster, group, walker, choices.choice(topics), choices)
            continue
        # A client that is not in the group can only join or leave it.
        can = walker.epoch or step in (_Walker.leave, _Walker.leave_for_a_while)
        request = step(walker, choices) if can else walker.join(choices)
        walker.learn(cluster.ask(request, 1))
    cluster.ask(ConsumerGroupDescribeRequest(group_ids=[group.group]), 1)


def _commit_or_fetch(
    cluster: ScenarioCluster, group: Consumers, walker: _Walker, topic: str, choices: random.Random
) -> None:
    epoch = walker.epoch - choices.choice([0, 0, 1, 1, 2, 3])
    claim: dict[str, Any] = {"member_id": walker.member, "epoch": epoch}
    if choices.random() < 0.8:
        partitions = choices.choice([(0,), (0,), (0, 1)])
        cluster.ask(commit(group.group, topic, *partitions, **claim), 9)
    else:
        cluster.ask(fetch(group.group, topic, 0, **claim), 9)


SCENARIOS = (consumers_act_at_random,)
