"""Kafka Streams with `exactly_once_v2`: every word is counted once, whatever becomes of instances.

Each update of a count is written, so that the committed counts of a word must be 1, 2, 3 and so on:
one that was lost leaves a gap, one that was counted twice stands there twice.
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

from tests.clients.committed import CommittedReader
from tests.clients.meanwhile import meanwhile
from tests.clients.observer import wait_until
from tests.clients.roster import java_classes
from tests.clients.word_count import COUNTS, LINES, Instance
from tests.oracle.fixtures import broker_under_test
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.oracle.target import Target

pytestmark = pytest.mark.client

_PARTITIONS = 2
_PATIENCE_S = 120.0
_WORDS = [f"word-{number}" for number in range(50)]
_LOG = logging.getLogger(__name__)
_CONFIG = {
    **COMMON_CONFIG,
    # So that an instance that was killed is missed soon.
    "group.streams.heartbeat.interval.ms": "200",
    "group.streams.session.timeout.ms": "2000",
}


class Speech:
    """Says lines of words, on and on; knows which words were said for certain, and how often."""

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
        self.said: Counter[str] = Counter()

    def say(self, lines: int) -> None:
        """Say so many lines, spread over the partitions."""
        for number in range(lines):
            words = self._dice.choices(_WORDS, k=3)
            self._producer.produce(LINES, " ".join(words), partition=number % _PARTITIONS)
            self.said.update(words)
        assert self._producer.flush(_PATIENCE_S) == 0


class Story:
    """Two instances of an application, and what it makes of a speech."""

    def __init__(self, target: Target, directory: Path, protocol: str) -> None:
        self._target = target
        self._directory = directory
        self._protocol = protocol
        self._instances: dict[str, Instance] = {}
        self.kills = 0

    def start(self, *names: str) -> None:
        """Start instances, the first time or again: they find what they left on disk."""
        for name in names:
            self._instances[name] = Instance(
                self._target.bootstrap, name, self._directory, self._protocol, "exactly_once_v2"
            )

    def kill(self, *names: str) -> None:
        """End instances without a word."""
        for name in names:
            self._instances.pop(name).kill()
            self.kills += 1

    def kill_broker(self) -> None:
        """Kill the broker, and start it on what it had written."""
        self._target.kill()
        self._target.start()
        self.kills += 1

    def end(self) -> None:
        """End what still runs."""
        for instance in self._instances.values():
            instance.kill()

    def wait_for_more(self, reader: CommittedReader, updates: int) -> None:
        """Wait until so many more counts are committed."""
        wanted = len(reader.messages) + updates

        def is_there() -> bool:
            reader.read()
            return len(reader.messages) >= wanted

        wait_until(is_there, f"{updates} more counts", _PATIENCE_S)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    with required():
        java_classes()
        target = broker_under_test(tmp_path / "broker", _CONFIG)
        target.start()
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    wanted = [NewTopic(LINES, _PARTITIONS, 1), NewTopic(COUNTS, 1, 1)]
    for made in admin.create_topics(wanted).values():
        made.result()
    yield target
    target.kill()


@pytest.fixture
def story(request: pytest.FixtureRequest, target: Target, tmp_path: Path) -> Iterator[Story]:
    """Give an application whose group has the protocol that the test says."""
    story = Story(target, tmp_path, request.param)
    yield story
    story.end()


@pytest.mark.endurance
@pytest.mark.parametrize("story", ["classic"], indirect=True)
def test_an_instance_that_was_killed_leaves_no_trace(story: Story, target: Target) -> None:
    story.start("one")
    speech = Speech(target.bootstrap)
    with _reader(target) as reader:
        with meanwhile(lambda: speech.say(2)):
            story.wait_for_more(reader, 10)
            story.kill("one")
            story.start("one")
            story.wait_for_more(reader, 10)
        _check(reader, speech)


@pytest.mark.endurance
@pytest.mark.timeout(600)
@pytest.mark.parametrize("story", ["classic", "streams"], indirect=True)
def test_every_word_is_counted_once_through_kills(story: Story, target: Target) -> None:
    started = time.monotonic()
    story.start("one", "two")
    speech = Speech(target.bootstrap)
    with _reader(target) as reader:
        with meanwhile(lambda: speech.say(2)):
            story.wait_for_more(reader, 100)
            for killed in (["one"], ["two"], ["one"], ["one", "two"], ["two"], ["one"]):
                story.kill(*killed)
                if len(killed) == 1:
                    story.wait_for_more(reader, 200)
                story.start(*killed)
                story.wait_for_more(reader, 200)
            story.kill_broker()
            story.wait_for_more(reader, 200)
        _check(reader, speech)
    seconds = time.monotonic() - started
    _LOG.info("%d words, %d kills, %.0f s", speech.said.total(), story.kills, seconds)


def _reader(target: Target) -> CommittedReader:
    return CommittedReader(target.bootstrap, {COUNTS: 1}, _PATIENCE_S)


def _check(reader: CommittedReader, speech: Speech) -> None:
    def is_all_counted() -> bool:
        reader.read()
        return len(reader.messages) >= speech.said.total()

    wait_until(is_all_counted, "every word to be counted", _PATIENCE_S)
    counts: defaultdict[str, list[int]] = defaultdict(list)
    for message in reader.messages:
        counts[(message.key() or b"").decode()].append(int(message.value() or b""))
    assert counts == {word: list(range(1, times + 1)) for word, times in speech.said.items()}
