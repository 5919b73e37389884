"""A Kafka Streams application under the streams group protocol (KIP-1071).

Its totals are correct while instances join, leave and are killed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.client_libraries import java_classes
from tests.clients.observer import committed_offsets, end_offsets, wait_until
from tests.clients.tools import run_tool
from tests.clients.word_count import APPLICATION, COUNTS, LINES, Instance
from tests.oracle.fixtures import broker_under_test
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.oracle.target import Target

pytestmark = [pytest.mark.client, pytest.mark.endurance]

_PARTITIONS = 2
_TIMEOUT_S = 60.0
_CONFIG = {
    **COMMON_CONFIG,
    # So that a killed instance is detected soon.
    "group.streams.heartbeat.interval.ms": "200",
    "group.streams.session.timeout.ms": "2000",
    # So that the other instance has a copy of the store.
    "group.streams.num.standby.replicas": "1",
    "group.streams.rack.aware.assignment.tags": "zone",
    "group.streams.topology.description.plugin.class": (
        "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
    ),
}


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    """Start a broker with the application's own topics."""
    with required():
        java_classes()
        target = broker_under_test(tmp_path / "broker", _CONFIG)
        target.start()
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    requested = [NewTopic(LINES, _PARTITIONS, 1), NewTopic(COUNTS, 1, 1)]
    for future in admin.create_topics(requested).values():
        future.result()
    yield target
    target.kill()


class Scenario:
    """The lines written so far, and the output of the application."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._producer = Producer({"bootstrap.servers": target.bootstrap})
        self._written: Counter[str] = Counter()

    def write(self, *lines: str) -> None:
        """Write lines, spread over the partitions."""
        for index, line in enumerate(lines):
            self._producer.produce(LINES, line, partition=index % _PARTITIONS)
            self._written.update(line.split())
        self._producer.flush()

    def check(self) -> None:
        """Wait until every line is committed, and check the last count of every word."""
        bootstrap = self._target.bootstrap
        for topic in (LINES, f"{APPLICATION}-words-repartition"):
            wait_until(
                lambda topic=topic: (  # type: ignore[misc]  # mypy: cannot infer a bound lambda
                    committed_offsets(bootstrap, APPLICATION, topic)
                    == {
                        index: end
                        for index, end in end_offsets(bootstrap, topic, _PARTITIONS).items()
                        if end
                    }
                ),
                f"all of {topic} to be read",
            )
        assert self._counted() == self._written

    def _counted(self) -> dict[str, int]:
        consumer = Consumer(
            {"bootstrap.servers": self._target.bootstrap, "group.id": "reader",
             "enable.partition.eof": False}
        )  # fmt: skip
        consumer.assign([TopicPartition(COUNTS, 0, 0)])
        _, end_offset = consumer.get_watermark_offsets(TopicPartition(COUNTS, 0), 10)
        counted: dict[str, int] = {}
        position = 0
        while position < end_offset:
            message = consumer.poll(10)
            assert message is not None
            assert message.error() is None
            counted[(message.key() or b"").decode()] = int(message.value() or b"")
            position = (message.offset() or 0) + 1
        consumer.close()
        return counted


def _wait_for_shares(instance: Instance, *shares: int) -> None:
    """Wait until members have these numbers of active tasks; several have standby tasks too."""

    def is_settled() -> bool:
        group = instance.described()
        members = group["members"].values()
        standbys = [task for member in members for task in member["standby"]]
        return (
            group["state"] == "Stable"
            and sorted(len(member["active"]) for member in members) == list(shares)
            and sorted(standbys) == (["1_0", "1_1"] if len(shares) > 1 else [])
        )

    wait_until(is_settled, f"shares of {shares}", _TIMEOUT_S)


def test_word_count_is_right_while_instances_join_and_leave(target: Target, tmp_path: Path) -> None:
    scenario = Scenario(target)
    running: list[Instance] = []

    def start(name: str) -> Instance:
        settings = {} if name == "third" else {"client.tag.zone": name}
        instance = Instance(target.bootstrap, name, tmp_path, settings=settings)
        running.append(instance)
        return instance

    try:
        _run_scenario(scenario, target, start)
    finally:
        for instance in running:
            instance.kill()


def _run_scenario(scenario: Scenario, target: Target, start: Callable[[str], Instance]) -> None:
    first = start("first")
    scenario.write("a b a", "c a", "b b")
    first.wait_for("state RUNNING")
    scenario.check()
    _wait_for_shares(first, 4)

    _check_description(first)

    second = start("second")
    _wait_for_shares(first, 2, 2)
    members = first.described()["members"].values()
    assert sorted(member["tags"]["zone"] for member in members) == ["first", "second"]
    scenario.write("a c", "d a b", "d d")
    scenario.check()
    _check_tools(target)

    second.kill()
    _wait_for_shares(first, 4)
    scenario.write("a", "e d c b a")
    scenario.check()

    third = start("third")
    _wait_for_shares(first, 2, 2)
    first.close()
    _wait_for_shares(third, 4)
    scenario.write("e", "e a")
    scenario.check()
    third.close()


def _check_description(instance: Instance) -> None:
    """Wait until the member has sent the description of its topology, which the broker requests."""
    wait_until(
        lambda: instance.described()["description"] == "AVAILABLE",
        "the description of the topology",
        _TIMEOUT_S,
    )
    group = instance.described()
    assert group["assignor"] == "sticky"
    assert {"words-repartition-source", "words-repartition-sink"} <= set(group["nodes"]), group


def _check_tools(target: Target) -> None:
    ask = ("--describe", "--group", APPLICATION)
    state = run_tool("kafka-streams-groups", target.bootstrap, *ask, "--state")
    assert state.rows[-1][-2:] == ["Stable", "2"], state
    offsets = run_tool("kafka-streams-groups", target.bootstrap, *ask, "--offsets")
    topics = Counter(row[1] for row in offsets.rows[1:])
    assert topics[LINES] == topics[f"{APPLICATION}-words-repartition"] == _PARTITIONS, offsets
