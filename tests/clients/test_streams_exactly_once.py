"""Kafka Streams with `exactly_once_v2`: every word is counted once, despite kills.

Each update of a count is written, so the committed counts of a word must be 1, 2, 3 and so on: a
lost update leaves a gap, and a repeated one appears twice.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.background import in_background
from tests.clients.client_libraries import java_classes
from tests.clients.committed_reader import CommittedReader
from tests.clients.observer import wait_until
from tests.clients.word_count import COUNTS, LINES, Instance
from tests.oracle.fixtures import broker_under_test
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.oracle.target import Target

pytestmark = [pytest.mark.client, pytest.mark.endurance]

_PARTITIONS = 2
_PATIENCE_S = 120.0
_WORDS = [f"word-{number}" for number in range(50)]
_LOG = logging.getLogger(__name__)
_CONFIG = {
    **COMMON_CONFIG,
    # So that a killed instance is detected soon.
    "group.streams.heartbeat.interval.ms": "200",
    "group.streams.session.timeout.ms": "2000",
}


class WordSource:
    """Writes lines of words, and counts the acknowledged words."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 500,
                "linger.ms": 10,
            }
        )
        self._dice = random.Random(7)  # noqa: S311 - words, not secrets
        self.written_words: Counter[str] = Counter()

    def write(self, lines: int) -> None:
        """Write lines, spread over the partitions."""
        for number in range(lines):
            words = self._dice.choices(_WORDS, k=3)
            self._producer.produce(LINES, " ".join(words), partition=number % _PARTITIONS)
            self.written_words.update(words)
        assert self._producer.flush(_PATIENCE_S) == 0


class Scenario:
    """Two instances of an application, and their results for a topic of words."""

    def __init__(self, target: Target, directory: Path, protocol: str) -> None:
        self._target = target
        self._directory = directory
        self._protocol = protocol
        self._instances: dict[str, Instance] = {}
        self.kills = 0

    def start(self, *names: str) -> None:
        """Start or restart instances; they reuse their files."""
        for name in names:
            self._instances[name] = Instance(
                self._target.bootstrap, name, self._directory, self._protocol, "exactly_once_v2"
            )

    def kill(self, *names: str) -> None:
        """Kill instances."""
        for name in names:
            self._instances.pop(name).kill()
            self.kills += 1

    def kill_broker(self) -> None:
        """Kill the broker, and start it with its files."""
        self._target.kill()
        self._target.start()
        self.kills += 1

    def stop(self) -> None:
        """End all running instances."""
        for instance in self._instances.values():
            instance.kill()

    def wait_for_more(self, reader: CommittedReader, updates: int) -> None:
        """Wait until `updates` more counts are committed."""
        requested = len(reader.messages) + updates

        def is_there() -> bool:
            reader.read()
            return len(reader.messages) >= requested

        wait_until(is_there, f"{updates} more counts", _PATIENCE_S)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
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


@pytest.fixture
def scenario(request: pytest.FixtureRequest, target: Target, tmp_path: Path) -> Iterator[Scenario]:
    """Return an application with the group protocol in the test's parameter."""
    scenario = Scenario(target, tmp_path, request.param)
    yield scenario
    scenario.stop()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", ["classic", "streams"], indirect=True)
def test_every_word_is_counted_once_through_kills(scenario: Scenario, target: Target) -> None:
    started = time.monotonic()
    scenario.start("one", "two")
    words_source = WordSource(target.bootstrap)
    with _reader(target) as reader:
        with in_background(lambda: words_source.write(2)):
            scenario.wait_for_more(reader, 100)
            for killed in (["one"], ["two"], ["one", "two"]):
                scenario.kill(*killed)
                if len(killed) == 1:
                    scenario.wait_for_more(reader, 200)
                scenario.start(*killed)
                scenario.wait_for_more(reader, 200)
            scenario.kill_broker()
            scenario.wait_for_more(reader, 200)
        _check(reader, words_source)
    seconds = time.monotonic() - started
    _LOG.info(
        "%d words, %d kills, %.0f s", words_source.written_words.total(), scenario.kills, seconds
    )


def _reader(target: Target) -> CommittedReader:
    return CommittedReader(target.bootstrap, {COUNTS: 1}, _PATIENCE_S)


def _check(reader: CommittedReader, words_source: WordSource) -> None:
    def is_all_counted() -> bool:
        reader.read()
        return len(reader.messages) >= words_source.written_words.total()

    wait_until(is_all_counted, "every word to be counted", _PATIENCE_S)
    counts: defaultdict[str, list[int]] = defaultdict(list)
    for message in reader.messages:
        counts[(message.key() or b"").decode()].append(int(message.value() or b""))
    assert counts == {
        word: list(range(1, times + 1)) for word, times in words_source.written_words.items()
    }
