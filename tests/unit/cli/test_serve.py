"""The command as people run it: what it prints, its exit status, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from kafkalite import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
STOP_S = 2.0
PATIENCE_S = 60
"""Only what hangs takes so long, however busy the machine is."""
BAD_USE = 2


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kafkalite", *arguments]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=PATIENCE_S,
        check=False,
    )


class Serving:
    """`kafkalite serve` in a process of its own."""

    def __init__(self, *arguments: str) -> None:
        begun = time.monotonic()
        self.process = subprocess.Popen(
            command("serve", *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )
        assert self.process.stdout is not None
        self.banner = self.process.stdout.readline()
        self.start_s = time.monotonic() - begun
        found = re.search(r"at (\S+)", self.banner)
        assert found, self.banner + self.process.communicate(timeout=5)[1]
        self.bootstrap = found[1]

    def topics(self) -> dict[str, int]:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        found = admin.list_topics(timeout=PATIENCE_S).topics
        return {name: len(topic.partitions) for name, topic in found.items()}

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Return the exit status and everything said on stderr.

        On a machine too busy to end it at once it takes no longer than it took to start.
        """
        begun = time.monotonic()
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=PATIENCE_S)
        assert time.monotonic() - begun < max(STOP_S, self.start_s)
        return self.process.returncode, said

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def serving(request: pytest.FixtureRequest) -> Iterator[Serving]:
    # What ignores a signal is inherited, and the tests themselves may be run by nohup.
    ignored = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        broker = Serving("--listen", "127.0.0.1:0", *getattr(request, "param", ()))
    finally:
        signal.signal(signal.SIGHUP, ignored)
    yield broker
    broker.kill()


def test_the_banner_names_the_port_that_was_picked(serving: Serving) -> None:
    assert re.fullmatch(r"kafkalite is ready at 127\.0\.0\.1:[1-9]\d*\n", serving.banner)
    assert serving.topics() == {}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_quickly_and_cleanly(serving: Serving, number: int) -> None:
    with socket.create_connection(tuple(serving.bootstrap.split(":")), 5):
        assert serving.stop(number) == (0, "")


def test_a_broker_that_was_started_to_outlive_its_terminal_does() -> None:
    """As by nohup: the signal is ignored when the process begins."""
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        serving = Serving("--listen", "127.0.0.1:0")
    finally:
        signal.signal(signal.SIGHUP, ignored)
    serving.process.send_signal(signal.SIGHUP)
    assert serving.topics() == {}
    assert serving.stop() == (0, "")


@pytest.mark.parametrize(
    "serving", [("--topic", "orders:3", "--topic=audit:1", "--brokers", "2")], indirect=True
)
def test_topics_and_nodes_are_there_when_it_is_ready(serving: Serving) -> None:
    assert len(serving.bootstrap.split(",")) == 2
    assert serving.topics() == {"orders": 3, "audit": 1}


@pytest.mark.parametrize(
    ("serving", "said"),
    [
        (("--clock", "accelerated:60"), "  its clock runs 60 times as fast\n"),
        (("--clock", "manual"), "  its clock stands; without --control nobody can advance it\n"),
        (("--as-version", "3.9"), "  it speaks as Kafka 3.9\n"),
    ],
    indirect=["serving"],
)
def test_it_says_so_when_it_is_not_as_elsewhere(serving: Serving, said: str) -> None:
    assert serving.process.stdout is not None
    assert serving.process.stdout.readline() == said


@pytest.mark.parametrize(
    "serving", [("--control", "0", "--clock", "manual@2026-03-01")], indirect=True
)
def test_it_says_where_it_can_be_driven_and_is_driven_there(serving: Serving) -> None:
    assert serving.process.stdout is not None
    found = re.fullmatch(
        r"  control at (http://127\.0\.0\.1:[1-9]\d*)\n", serving.process.stdout.readline()
    )
    assert found
    assert serving.process.stdout.readline() == "  its clock stands until it is advanced\n"
    done = run("clock", "advance", "7d", "--control", found[1])
    assert (done.stdout, done.stderr) == ("2026-03-08T00:00:00.000Z (manual)\n", "")
    assert serving.topics() == {}
    assert serving.stop() == (0, "")


@pytest.mark.parametrize("serving", [("--log-format", "json")], indirect=True)
def test_a_bad_client_gets_one_log_line(serving: Serving) -> None:
    host, _, port = serving.bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), 5) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert client.recv(1) == b""
    status, said = serving.stop()
    assert status == 0
    (line,) = said.splitlines()
    assert '"reason": "frame length 1195725856' in line
    assert '"peer": "127.0.0.1:' in line


def test_data_survives_a_kill(tmp_path: Path) -> None:
    arguments = ("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path), "--topic", "kept:2")
    first = Serving(*arguments)
    first.kill()
    second = Serving(*arguments)
    assert second.topics() == {"kept": 2}
    assert second.stop()[0] == 0


def test_settings_come_from_a_file_and_options_outweigh_it(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "num.partitions=7\nlisteners=PLAINTEXT://127.0.0.1:0\ncompression.type \\\n = gzip"
    )
    broker = Serving("--properties", str(file), "--config", "num.partitions=4")
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.list_topics("made-by-asking", timeout=10)
        assert broker.topics() == {"made-by-asking": 4}
    finally:
        broker.kill()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--config", "no.such.key=1"), "no.such.key"),
        (("--config", "num.partitions=many"), "num.partitions"),
        (("--config", "just-a-word"), "KEY=VALUE"),
        (("--topic", "no-partitions"), "NAME:PARTITIONS"),
        (("--topic", "t:0"), "NAME:PARTITIONS"),
        (("--topic", "bad name:1"), "bad name"),
        (("--data-dir", "/dev/null/data"), "/dev/null"),
        (("--properties", "/nowhere/server.properties"), "/nowhere/server.properties"),
        (("--listen", "no-port"), "HOST:PORT"),
        (("--listen", "no-such-host.invalid:0"), "no-such-host.invalid"),
        (("--advertise", "a:1", "--advertise", "b:2"), "b:2"),
        (("--no-such-option",), "--no-such-option"),
        (("a-word",), "a-word"),
        (("--brokers", "0"), "--brokers"),
        (("--brokers", "many"), "--brokers"),
        (("--log-level", "loud"), "warning"),
        (("--topic",), "--topic"),
        (("--topic", "t:1", "--topic", "t:2"), "t has 1 already"),
        (("--data-dir", ""), "--data-dir is empty"),
        (("--clock", "fast"), "real, manual and accelerated"),
        (("--clock", "accelerated"), "needs a rate"),
        (("--clock", "manual@soon"), "is not a time"),
        (("--as-version", "9.9"), "'3.9', '4.0'"),
        (("--control", "here"), "[HOST:]PORT"),
        (("--control", "no-such-host.invalid:0"), "no-such-host.invalid"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(arguments: tuple[str, ...], said: str) -> None:
    done = run("serve", "--listen=127.0.0.1:0", *arguments)
    assert done.returncode == BAD_USE
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("kafkalite: ")
    assert said in line


def test_a_port_in_use_is_said_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "--listen", f"127.0.0.1:{port}")
    assert done.returncode == BAD_USE
    (line,) = done.stderr.splitlines()
    assert f"127.0.0.1:{port}" in line
    assert "in use" in line


def test_a_data_directory_in_use_is_said_in_one_line(tmp_path: Path) -> None:
    arguments = ("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path))
    first = Serving(*arguments)
    try:
        done = run("serve", *arguments)
    finally:
        first.kill()
    assert done.returncode == BAD_USE
    (line,) = done.stderr.splitlines()
    assert str(tmp_path) in line
    assert "in use" in line


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        (("sreve",), "see kafkalite --help"),
        (("--no-such-option",), "see kafkalite --help"),
        (("serve", "--port=1"), "--port=1 (see kafkalite serve --help)"),
    ],
)
def test_bad_use_of_the_command_is_said_in_one_line(arguments: tuple[str, ...], where: str) -> None:
    done = run(*arguments)
    assert done.returncode == BAD_USE
    (line,) = done.stderr.splitlines()
    assert line.startswith("kafkalite: ")
    assert where in line


def test_without_a_command_the_help_is_shown() -> None:
    done = run()
    assert done.returncode == BAD_USE
    assert "serve" in done.stderr


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_file_written_for_a_real_kafka_serves(tmp_path: Path, log_format: str) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=4\n"
        "controller.quorum.bootstrap.servers=localhost:9093\n"
        "listeners=PLAINTEXT://:0,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n"
        f"log.dirs={tmp_path}/data\nzookeeper.connect=localhost:2181\n"
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
    )
    broker = Serving("--properties", str(file), "--log-format", log_format)
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        assert list(admin.list_topics(timeout=PATIENCE_S).brokers) == [4]
        assert (tmp_path / "data" / "meta.properties").exists()
        _, said = broker.stop()
    finally:
        broker.kill()
    unknown, unmet = said.splitlines()
    assert "zookeeper.connect" in unknown
    assert "authorizer.class.name" in unmet


def test_the_version_is_told() -> None:
    done = run("--version")
    assert done.returncode == 0
    assert __version__ in done.stdout


def test_help_needs_no_broker() -> None:
    done = run("serve", "--help")
    assert done.returncode == 0
    for option in ("--listen", "--advertise", "--brokers", "--data-dir", "--topic", "--config",
                   "--properties", "--as-version", "--control", "--clock", "--log-format",
                   "--log-level"):  # fmt: skip
        assert option in done.stdout
