"""KIP-1242 with Java's producer: its cluster advertises the address of another cluster.

The producer sends the cluster and the node that it wants to reach in ApiVersions. The broker of the
other cluster answers REBOOTSTRAP_REQUIRED, and the producer returns to its bootstrap servers. A
producer that does not send them writes to the other cluster.
"""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import pytest

from kafkalite.testing import Broker
from tests.clients.observer import end_offsets, wait_until
from tests.clients.tools import MAIN_CLASSES
from tests.oracle.jars import java_command
from tests.oracle.requirements import required
from tests.oracle.target import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.client, pytest.mark.endurance]

_TOPIC = "orders"
_REBOOTSTRAP = "Rebootstrap requested by server due to cluster metadata mismatch for cluster"


@contextmanager
def _producer(port: int, log: Path, *settings: str) -> Iterator[IO[str]]:
    """Run the console producer; yield its standard input, which takes one record a line."""
    arguments = ["--bootstrap-server", f"127.0.0.1:{port}", "--topic", _TOPIC, "--sync"]
    arguments += [f"--command-property={setting}" for setting in settings]
    with required():
        name = MAIN_CLASSES["kafka-console-producer"]
        command = java_command(name, *arguments, log_level="info")
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, text=True
        )
    assert process.stdin is not None
    try:
        yield process.stdin
    finally:
        process.kill()
        process.wait()
        process.stdin.close()


def _cluster(port: int, advertised_port: int, directory: Path | None = None) -> Broker:
    return Broker(
        topics={_TOPIC: 1},
        config={"advertised.listeners": f"PLAINTEXT://127.0.0.1:{advertised_port}"},
        data_directory=directory,
        port=port,
        log_level="error",
    )


def _has_record(broker: Broker) -> bool:
    return end_offsets(broker.bootstrap_servers, _TOPIC, 1) == {0: 1}


def test_a_producer_waits_for_its_own_cluster(tmp_path: Path) -> None:
    log, data = tmp_path / "producer.log", tmp_path / "data"
    port, other_port = free_port(), free_port()
    with _cluster(other_port, other_port) as other:
        with _cluster(port, other_port, data) as misleading, _producer(port, log) as producer:
            cluster_id = misleading.cluster_id
            producer.write("order\n")
            producer.flush()
            line = f"{_REBOOTSTRAP} {cluster_id} and node 1."
            wait_until(lambda: line in log.read_text(encoding="utf-8"), "the request")
            misleading.stop()
            with _cluster(port, port, data) as repaired:
                assert repaired.cluster_id == cluster_id
                wait_until(lambda: _has_record(repaired), "the record")
        assert not _has_record(other)


@pytest.mark.parametrize(
    "setting", ["metadata.recovery.strategy=none", "metadata.cluster.check.enable=false"]
)
def test_a_producer_without_the_check_writes_to_another_cluster(
    tmp_path: Path, setting: str
) -> None:
    log = tmp_path / "producer.log"
    port, other_port = free_port(), free_port()
    with (
        _cluster(other_port, other_port) as other,
        _cluster(port, other_port),
        _producer(port, log, setting) as producer,
    ):
        producer.write("order\n")
        producer.flush()
        wait_until(lambda: _has_record(other), "the record")
    assert _REBOOTSTRAP not in log.read_text(encoding="utf-8")
