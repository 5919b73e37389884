"""Java's share consumers: acknowledgements, and lock expiry with a driven clock."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.config.releases import DEFAULT
from kafkalite.testing.broker import Broker
from tests.clients.ghosts import emulated_broker, proxied_kafka
from tests.clients.tools import run_tool
from tests.oracle.jars import compiled, java_command
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.ghosts import GhostBroker

pytestmark = [pytest.mark.client, pytest.mark.endurance]

_SOURCES = Path(__file__).parent / "java_share"
_TOPIC, _GROUP = "shared", "sharers"
_IMPLICIT, _EXPLICIT = "implicit", "explicit"
_POLL_TIMEOUT_S = 15
_FORMATTERS = "org.apache.kafka.tools.consumer.group.share"
_FAST_CONFIG = {"group.share.assignment.interval.ms": 0, "group.share.heartbeat.interval.ms": 200}
_IDLE_MS = 400


class Steps:
    """The Java program, controlled step by step."""

    def __init__(self, log: Path) -> None:
        command = java_command("ShareSteps", classes=compiled(_SOURCES))
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
            )

    def ask(self, *line: object) -> Any:  # noqa: ANN401 - what the step answers
        """Run one step."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def poll(self, name: str) -> list[tuple[int, int]]:
        """Wait for records; return their offsets and delivery counts."""
        return [(offset, count) for offset, count in self.ask("poll", name, _POLL_TIMEOUT_S)]

    def close(self) -> None:
        """End the program."""
        self._process.communicate(timeout=30)


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steps]:
    with required():
        program = Steps(tmp_path_factory.mktemp("java") / "share.log")
    yield program
    program.close()


class ShareScenario:
    """A broker with a topic, and share consumers."""

    def __init__(self, broker: Broker | GhostBroker, steps: Steps) -> None:
        self._bootstrap = broker.bootstrap_servers
        self._steps = steps

    def produce(self, records: int) -> None:
        self._steps.ask("prepare", self._bootstrap, _TOPIC, _GROUP)
        self._steps.ask("produce", self._bootstrap, _TOPIC, records)

    def add_consumer(self, name: str, mode: str, max_records: int = 500) -> None:
        self._steps.ask("open", name, self._bootstrap, _GROUP, _TOPIC, mode, max_records)


def test_polled_records_are_acknowledged_with_the_next_poll(steps: Steps) -> None:
    with Broker(config=_FAST_CONFIG) as broker:
        scenario = ShareScenario(broker, steps)
        scenario.produce(10)
        scenario.add_consumer("a", _IMPLICIT)
        assert steps.poll("a") == [(offset, 1) for offset in range(10)]
        assert steps.ask("commit", "a") == {f"{_TOPIC}-0": "ok"}
        steps.ask("close", "a")
        scenario.add_consumer("b", _IMPLICIT)
        assert steps.ask("idle", "b", _IDLE_MS) == 0
        steps.ask("produce", broker.bootstrap_servers, _TOPIC, 1)
        assert steps.poll("b") == [(10, 1)]
        steps.ask("close", "b")


def test_released_records_are_delivered_again_and_rejected_ones_are_not(steps: Steps) -> None:
    with Broker(config=_FAST_CONFIG) as broker:
        scenario = ShareScenario(broker, steps)
        scenario.produce(4)
        scenario.add_consumer("a", _EXPLICIT)
        assert steps.poll("a") == [(offset, 1) for offset in range(4)]
        steps.ask("say", "a", "ACCEPT", [0])
        steps.ask("say", "a", "RELEASE", [1, 3])
        steps.ask("say", "a", "REJECT", [2])
        assert steps.ask("commit", "a") == {f"{_TOPIC}-0": "ok"}
        assert steps.poll("a") == [(1, 2), (3, 2)]
        steps.ask("say", "a", "ACCEPT", [1, 3])
        assert steps.ask("commit", "a") == {f"{_TOPIC}-0": "ok"}
        steps.ask("close", "a")


def test_record_released_too_often_is_archived(steps: Steps) -> None:
    with Broker(config={**_FAST_CONFIG, "group.share.delivery.count.limit": 3}) as broker:
        scenario = ShareScenario(broker, steps)
        scenario.produce(1)
        scenario.add_consumer("a", _EXPLICIT)
        for count in (1, 2, 3):
            assert steps.poll("a") == [(0, count)]
            steps.ask("say", "a", "RELEASE", [0])
            assert steps.ask("commit", "a") == {f"{_TOPIC}-0": "ok"}
        assert steps.ask("idle", "a", _IDLE_MS) == 0
        texts = [entry.text for entry in broker.explain(_GROUP) if entry.kind == "archived"]
        assert texts == [
            "record 0 of shared-0 archived after 3 deliveries (rule delivery-count-limit)"
        ]
        steps.ask("close", "a")


def test_two_consumers_share_one_partition(steps: Steps) -> None:
    with Broker(config=_FAST_CONFIG) as broker:
        scenario = ShareScenario(broker, steps)
        scenario.produce(20)
        scenario.add_consumer("a", _EXPLICIT, max_records=5)
        scenario.add_consumer("b", _EXPLICIT, max_records=5)
        got: dict[str, list[int]] = {"a": [], "b": []}
        while sum(map(len, got.values())) < 20:
            for name, offsets in got.items():
                polled = [offset for offset, _ in steps.ask("poll", name, 1)]
                steps.ask("say", name, "ACCEPT", polled)
                steps.ask("commit", name)
                offsets.extend(polled)
        assert sorted(got["a"] + got["b"]) == list(range(20))
        assert all(got.values())
        steps.ask("close", "a")
        steps.ask("close", "b")


def test_share_group_works_on_three_nodes(steps: Steps) -> None:
    with Broker(brokers=3, topics={_TOPIC: 6}, config=_FAST_CONFIG) as broker:
        scenario = ShareScenario(broker, steps)
        steps.ask("prepare", broker.bootstrap_servers, "other", _GROUP)
        steps.ask("produce", broker.bootstrap_servers, _TOPIC, 60)
        got = {}
        for name in ("a", "b"):
            scenario.add_consumer(name, _EXPLICIT)
            got[name] = 0
        while sum(got.values()) < 60:
            for name in got:
                got[name] += len([(offset, 1) for offset, _ in steps.ask("poll", name, 1)])
                steps.ask("accept all", name)
                assert set(steps.ask("commit", name).values()) <= {"ok"}
        assert sum(got.values()) == 60
        steps.ask("close", "a")
        steps.ask("close", "b")


def test_acknowledgements_survive_a_restart(steps: Steps, tmp_path: Path) -> None:
    with Broker(data_directory=tmp_path, config=_FAST_CONFIG) as broker:
        scenario = ShareScenario(broker, steps)
        scenario.produce(6)
        scenario.add_consumer("a", _EXPLICIT)
        assert len(steps.poll("a")) == 6
        steps.ask("say", "a", "ACCEPT", [0, 1, 4])
        steps.ask("say", "a", "RELEASE", [2, 3, 5])
        assert steps.ask("commit", "a") == {f"{_TOPIC}-0": "ok"}
        steps.ask("close", "a")
    with Broker(data_directory=tmp_path, config=_FAST_CONFIG) as broker:
        scenario = ShareScenario(broker, steps)
        scenario.add_consumer("b", _EXPLICIT)
        assert steps.poll("b") == [(2, 2), (3, 2), (5, 2)]
        steps.ask("say", "b", "ACCEPT", [2, 3, 5])
        assert steps.ask("commit", "b") == {f"{_TOPIC}-0": "ok"}
        steps.ask("close", "b")


@pytest.mark.parametrize("target", ["kafkalite", "kafka"])
def test_acknowledgement_is_in_flight_when_the_connection_is_lost(
    steps: Steps, tmp_path: Path, target: str
) -> None:
    """Java has no error for a lost connection: it names that of an unknown exception."""
    is_real = target == "kafka"
    with (
        required(),
        proxied_kafka(DEFAULT, tmp_path) if is_real else emulated_broker(DEFAULT) as broker,
    ):
        scenario = ShareScenario(broker, steps)
        scenario.produce(5)
        scenario.add_consumer("a", _EXPLICIT)
        assert len(steps.poll("a")) == 5
        steps.ask("accept all", "a")
        broker.hold("ShareAcknowledge", disconnects=True)
        assert steps.ask("commit", "a") == {f"{_TOPIC}-0": "UnknownServerException"}
        steps.ask("close", "a")


def test_broker_restarts_between_a_poll_and_its_acknowledgement(steps: Steps) -> None:
    """The client lost its session, as with Kafka; its error depends on when it notices that."""
    with Broker(config=_FAST_CONFIG, log_level="error") as broker:
        scenario = ShareScenario(broker, steps)
        scenario.produce(5)
        scenario.add_consumer("a", _EXPLICIT)
        assert len(steps.poll("a")) == 5
        broker.requests.start()
        broker.nodes[1].stop()
        broker.nodes[1].start()
        steps.ask("accept all", "a")
        (error,) = steps.ask("commit", "a").values()
        acknowledged = broker.requests.list("ShareAcknowledge")
        if error == "UnknownServerException":
            assert not acknowledged
        else:
            assert error == "NetworkException"
            assert [each.errors for each in acknowledged] == [("SHARE_SESSION_NOT_FOUND",)]
        assert steps.poll("a") == [(offset, 1) for offset in range(5)]
        steps.ask("accept all", "a")
        assert steps.ask("commit", "a") == {f"{_TOPIC}-0": "ok"}
        steps.ask("close", "a")


def test_locks_expire_when_the_clock_advances(steps: Steps) -> None:
    with Broker(config=_FAST_CONFIG) as broker:
        scenario = ShareScenario(broker, steps)
        scenario.produce(3)
        scenario.add_consumer("a", _EXPLICIT)
        assert steps.poll("a") == [(offset, 1) for offset in range(3)]
        steps.ask("say", "a", "RENEW", [2])
        broker.clock.advance(seconds=20)
        assert steps.ask("commit", "a") == {f"{_TOPIC}-0": "ok"}
        scenario.add_consumer("b", _EXPLICIT)
        broker.clock.advance(seconds=10)
        assert steps.poll("b") == [(0, 2), (1, 2)]
        steps.ask("say", "a", "ACCEPT", [0, 1])
        assert steps.ask("commit", "a") == {f"{_TOPIC}-0": "InvalidRecordStateException"}
        steps.ask("say", "b", "ACCEPT", [0, 1])
        assert steps.ask("commit", "b") == {f"{_TOPIC}-0": "ok"}
        (texts,) = [entry for entry in broker.explain(_GROUP) if entry.kind == "expired"]
        assert "did not acknowledge records 0 to 1 of shared-0 in time" in texts.text
        steps.ask("close", "b")
        steps.ask("close", "a")


def test_kafkas_own_share_consumers_read_and_acknowledge(steps: Steps) -> None:
    with Broker(config=_FAST_CONFIG) as broker:
        scenario = ShareScenario(broker, steps)
        scenario.produce(5)
        options = ("--topic", _TOPIC, "--max-messages", "3")
        texts = run_tool(
            "kafka-console-share-consumer",
            broker.bootstrap_servers,
            *(*options, "--group", _GROUP, "--timeout-ms", "15000"),
        )
        assert texts.lines == ["value 0", "value 1", "value 2"], texts
        texts = run_tool(
            "kafka-console-consumer",
            broker.bootstrap_servers,
            *("--topic", "__share_group_state", "--from-beginning", "--max-messages", "2"),
            *("--formatter", f"{_FORMATTERS}.ShareGroupStateMessageFormatter"),
        )
        initial, changed = json.loads(f"[{texts.stdout.replace('}{', '},{')}]")
        assert initial["key"]["data"]["groupId"] == _GROUP
        assert initial["value"]["data"]["startOffset"] == -1
        assert changed["key"]["type"] == 1
        # More records than one poll returns: the tool acknowledges with its next poll, which
        # waits for seconds if there are no records.
        steps.ask("produce", broker.bootstrap_servers, _TOPIC, 1500)
        texts = run_tool(
            "kafka-verifiable-share-consumer",
            broker.bootstrap_servers,
            *("--topic", _TOPIC, "--max-messages", "501", "--group-id", _GROUP),
        )
        events = [json.loads(line) for line in texts.lines]
        counts = [event["count"] for event in events if event["name"] == "records_consumed"]
        assert sum(counts) > 500
        acknowledged = [event for event in events if event["name"] == "offsets_acknowledged"]
        assert acknowledged
        assert all(event["success"] for event in acknowledged)
