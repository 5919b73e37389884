"""Kafka Connect of three releases, at a broker that emulates its release and at the default one.

A file is written to a topic in transactions, and the topic to another file. A worker takes seconds
to start, so only an old release and the two latest ones run.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from kafkalite.config.releases import DEFAULT
from kafkalite.testing import Broker
from tests.clients.committed_reader import CommittedReader
from tests.clients.connect import Worker
from tests.clients.observer import wait_until
from tests.oracle.jars import classpath_of, dependencies, jar_directory
from tests.oracle.releases import LATEST_PATCH
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.client, pytest.mark.endurance, pytest.mark.timeout(240)]

_POM: Final = Path(__file__).parent / "connect_pom.xml"
_RELEASES: Final = ["3.3", "4.3", "4.4"]
_PINNED: Final = "4.4"
"""Maven Central does not have its connectors. The jars of the comparison have those of 4.3."""
_TOPIC: Final = "lines"
_LINES: Final = [f"line {number}" for number in range(100)]
_TIMEOUT_S: Final = 120.0
_CONFIG: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


@pytest.fixture
def jar_path(release: str) -> str:
    """Return the class path of Connect in a release."""
    with required():
        jars = jar_directory()  # checks the version of Java
        if release == _PINNED:
            return classpath_of(jars)
        return classpath_of(dependencies("connect-jars", _POM, LATEST_PATCH[release]))


class Copy:
    """A worker that copies a file to a topic, and the topic to another file."""

    def __init__(self, broker: Broker, directory: Path, jar_path: str) -> None:
        directory.mkdir()
        self._bootstrap = broker.bootstrap_servers
        self._input, self._output = directory / "input.txt", directory / "output.txt"
        self._input.write_text("".join(f"{line}\n" for line in _LINES))
        self.worker = Worker(self._bootstrap, directory, "worker", jar_path=jar_path)

    def start(self) -> None:
        """Create the connectors."""
        package = "org.apache.kafka.connect.file"
        source = {
            "connector.class": f"{package}.FileStreamSourceConnector",
            "file": str(self._input),
            "topic": _TOPIC,
        }
        sink = {
            "connector.class": f"{package}.FileStreamSinkConnector",
            "file": str(self._output),
            "topics": _TOPIC,
            "consumer.override.isolation.level": "read_committed",
        }
        self._configure("source", source)
        self._configure("sink", sink)

    def _configure(self, name: str, config: dict[str, str]) -> None:
        self.worker.ask_until_success("PUT", f"/connectors/{name}/config", config)

    def check(self) -> None:
        """Wait until all lines are in the topic and in the other file, once and in order."""
        with CommittedReader(self._bootstrap, {_TOPIC: 1}, _TIMEOUT_S) as reader:
            wait_until(lambda: len(self._copied()) >= len(_LINES), "copies", _TIMEOUT_S)
            reader.read_to_the_end()
            values = [(message.value() or b"").decode() for message in reader.messages]
        assert values == self._copied() == _LINES

    def _copied(self) -> list[str]:
        return self._output.read_text().splitlines() if self._output.exists() else []


@pytest.fixture
def brokers(release: str) -> Iterator[list[Broker]]:
    """Start a broker that emulates a release, and one of the default release if that differs."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                Broker(topics={_TOPIC: 1}, config=_CONFIG, as_version=version, log_level="error")
            )
            for version in dict.fromkeys((release, DEFAULT))
        ]


@pytest.mark.parametrize("release", _RELEASES)
def test_files_are_copied_through_their_release_and_the_default_one(
    brokers: list[Broker], jar_path: str, tmp_path: Path
) -> None:
    copies = [
        Copy(broker, tmp_path / str(number), jar_path) for number, broker in enumerate(brokers)
    ]
    try:
        for each in copies:
            each.worker.launch()
        for each in copies:
            each.start()
        for each in copies:
            each.check()
    finally:
        for each in copies:
            each.worker.kill()
