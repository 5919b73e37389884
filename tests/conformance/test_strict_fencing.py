"""Rule `strict` is what Kafka did before 4.3: the last release that did is the judge.

Releases count epochs differently, so that what is compared is what becomes of commits at the
epochs a member has had, by their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalite.groups.fencing import FENCING_KEY, STRICT
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.scenarios.commits import commit
from tests.conformance.scenarios.consumer_groups import Consumers, new_group
from tests.conformance.world import World
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

RELEASE: Final = "4.2.0"
_HEARTBEAT, _COMMIT, _LEAVE = 1, 9, -1


class Past:
    """A member, the epochs it has had, and what became of its commits."""

    def __init__(self, world: World, group: Consumers, member: str) -> None:
        self._world = world
        self._group = group
        self._member = member
        self.epochs: list[int] = []
        self.seen: list[tuple[str, int, int, str]] = []

    def beat(self, owned: Sequence[int] | None = None, **fields: Any) -> Any:  # noqa: ANN401
        """Join, or send a heartbeat at the last epoch."""
        asked = (
            self._group.heartbeat(self._member, self.epochs[-1], owned, **fields)
            if self.epochs
            else self._group.join(self._member, **fields)
        )
        answer = self._world.probe(asked, _HEARTBEAT)
        assert answer.error_code == ErrorCode.NONE, answer
        if not self.epochs or answer.member_epoch != self.epochs[-1]:
            self.epochs.append(answer.member_epoch)
        return answer

    def commit(self, moment: str, *partitions: int) -> None:
        """Commit at every epoch so far, and at one that is not yet."""
        for partition in partitions:
            for age, epoch in enumerate([self.epochs[-1] + 1, *reversed(self.epochs)]):
                asked = commit(
                    self._group.group,
                    self._group.topic,
                    partition,
                    member_id=self._member,
                    epoch=epoch,
                )
                (topic,) = self._world.probe(asked, _COMMIT).topics
                code = ErrorCode(topic.partitions[0].error_code).name
                self.seen.append((moment, partition, age, code))


def play(target: Target) -> list[tuple[str, int, int, str]]:
    world = World(target.port, "strict")
    group = new_group(world)
    first, second = Past(world, group, "first"), Past(world, group, "second")
    first.beat()
    first.commit("alone", 0)
    second.beat()
    first.beat()
    first.commit("told to give up", 0, 3)
    first.beat([0, 1])
    first.commit("has given up", 0, 3)
    while (told := second.beat()).assignment is None:
        pass
    second.commit("was given", 0, 3)
    assert told.assignment.topic_partitions
    world.probe(group.heartbeat("second", _LEAVE), _HEARTBEAT)
    first.beat()
    first.commit("was given back", 0, 3)
    world.close()
    return first.seen + second.seen


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with required():
        kafka = RealKafka(tmp_path_factory.mktemp("older-kafka"), release=RELEASE)
        kafka.start()
    yield kafka
    kafka.kill()


def test_the_strict_rule_is_that_of_earlier_releases(judge: Target, tmp_path: Path) -> None:
    config: Mapping[str, str] = {**COMMON_CONFIG, FENCING_KEY: STRICT}
    accused = ServedKafkalite(tmp_path, config)
    accused.start()
    try:
        ours = play(accused)
    finally:
        accused.kill()
    assert ours == play(judge)
    refused = {(moment, age) for moment, _, age, code in ours if code == "STALE_MEMBER_EPOCH"}
    assert ("has given up", 2) in refused
