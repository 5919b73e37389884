"""Rule `strict` is Kafka's behavior before 4.3; it is compared with the last such release.

Releases count epochs differently, so a member's epochs are numbered in their order, and the results
of commits at these epochs are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalite.groups.modern.offset_commit_fencing import FENCING_KEY, STRICT
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.scenario_cluster import ScenarioCluster
from tests.conformance.scenarios.commits import commit
from tests.conformance.scenarios.consumer_groups import Consumers, new_group
from tests.oracle.real_kafka import RealKafka
from tests.oracle.releases import LATEST_PATCH
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

RELEASE: Final = LATEST_PATCH["4.2"]
_HEARTBEAT, _COMMIT, _LEAVE = 1, 9, -1


class RecordedMember:
    """A member, its epochs so far, and the results of its commits."""

    def __init__(self, cluster: ScenarioCluster, group: Consumers, member: str) -> None:
        self._cluster = cluster
        self._group = group
        self._member = member
        self.epochs: list[int] = []
        self.results: list[tuple[str, int, int, str]] = []

    def beat(self, owned: Sequence[int] | None = None, **fields: Any) -> Any:  # noqa: ANN401
        """Join, or send a heartbeat at the last epoch."""
        request = (
            self._group.heartbeat(self._member, self.epochs[-1], owned, **fields)
            if self.epochs
            else self._group.join(self._member, **fields)
        )
        answer = self._cluster.probe(request, _HEARTBEAT)
        assert answer.error_code == ErrorCode.NONE, answer
        if not self.epochs or answer.member_epoch != self.epochs[-1]:
            self.epochs.append(answer.member_epoch)
        return answer

    def commit(self, situation: str, *partitions: int) -> None:
        """Commit at every epoch so far, and at the next one."""
        for partition in partitions:
            for age, epoch in enumerate([self.epochs[-1] + 1, *reversed(self.epochs)]):
                request = commit(
                    self._group.group,
                    self._group.topic,
                    partition,
                    member_id=self._member,
                    epoch=epoch,
                )
                (topic,) = self._cluster.probe(request, _COMMIT).topics
                code = ErrorCode(topic.partitions[0].error_code).name
                self.results.append((situation, partition, age, code))


def play(target: Target, attempt: int) -> list[tuple[str, int, int, str]]:
    cluster = ScenarioCluster(target.port, f"strict-{attempt}")
    group = new_group(cluster)
    first, second = (
        RecordedMember(cluster, group, "first"),
        RecordedMember(cluster, group, "second"),
    )
    first.beat()
    first.commit("alone", 0)
    second.beat()
    first.beat()
    first.commit("asked to revoke", 0, 3)
    first.beat([0, 1])
    first.commit("has given up", 0, 3)
    while (response := second.beat()).assignment is None:
        pass
    second.commit("was given", 0, 3)
    assert response.assignment.topic_partitions
    cluster.probe(group.heartbeat("second", _LEAVE), _HEARTBEAT)
    first.beat()
    first.commit("was given back", 0, 3)
    cluster.close()
    return first.results + second.results


@pytest.fixture(scope="module")
def earlier_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with required():
        kafka = RealKafka(tmp_path_factory.mktemp("older-kafka"), release=RELEASE)
        kafka.start()
    yield kafka
    kafka.kill()


def test_the_strict_rule_is_that_of_earlier_releases(
    earlier_kafka: Target, tmp_path: Path, attempt: int
) -> None:
    config: Mapping[str, str] = {**COMMON_CONFIG, FENCING_KEY: STRICT}
    emulator = ServedKafkalite(tmp_path, config)
    emulator.start()
    try:
        emulated = play(emulator, attempt)
    finally:
        emulator.kill()
    assert emulated == play(earlier_kafka, attempt)
    refused = {
        (situation, age) for situation, _, age, code in emulated if code == "STALE_MEMBER_EPOCH"
    }
    assert ("has given up", 2) in refused
