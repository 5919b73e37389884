"""Programs by the names of their scripts, run in a plain root directory."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalite.docker import programs
from kafkalite.docker.files import ImageFiles
from kafkalite.docker.install import ENTRYPOINT, install
from tests.oracle.target import free_port
from tests.unit.docker.image import ENTRYPOINT as SOURCE
from tests.unit.docker.image import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _pytest.mark import ParameterSet

READY = "Kafka Server started"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the files of the image."""
    return image_root(tmp_path_factory.mktemp("root"))


def image_root(directory: Path) -> Path:
    """Write the files of the image into a directory, and return it."""
    install(directory)
    shutil.copy(SOURCE, directory / ENTRYPOINT.lstrip("/"))
    (directory / ENTRYPOINT.lstrip("/")).chmod(0o755)
    return directory


@pytest.fixture
def port() -> int:
    return free_port()


def environment(root: Path, port: int = 0, **more: str) -> dict[str, str]:
    """Return the environment of a container whose root is a directory of this machine."""
    path = f"{root}/usr/local/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"
    listeners = {
        "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:1",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://localhost:{port}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_NODE_ID": "1",
    }
    return {
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "KAFKALITE_ROOT": str(root),
        **(listeners if port else {}),
        **more,
    }


def started(command: list[str], variables: Mapping[str, str], root: Path) -> subprocess.Popen[str]:
    """Return a started broker, when it has printed the line for which test libraries wait."""
    process = subprocess.Popen(
        command,
        env=dict(variables),
        cwd=root / "var" / "lib" / "kafkalite",
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a test can stop a script with its programs
    )
    assert process.stdout is not None
    for line in process.stdout:
        if READY in line:
            return process
    raise AssertionError("the broker ended")


def run(root: Path, command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={**environment(root), **more},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(10) == 0


def script(root: Path, path: str) -> str:
    return str(root / path.lstrip("/"))


def _long(*values: object) -> ParameterSet:
    """Return parameters that only the long tests use, because each starts several processes."""
    return pytest.param(*values, marks=pytest.mark.endurance)


@pytest.mark.parametrize(
    "command",
    [
        ["/etc/kafka/docker/run"],
        _long(["/etc/confluent/docker/run"]),
        _long(["/opt/bitnami/scripts/kafka/entrypoint.sh", "/opt/bitnami/scripts/kafka/run.sh"]),
        _long(["/__cacert_entrypoint.sh", "/etc/kafka/docker/run"]),
        _long(["/usr/bin/start-kafka.sh"]),
        _long([ENTRYPOINT]),
        _long([ENTRYPOINT, "sh", "-c", "exec kafkalite-entrypoint --log-level error"]),
    ],
    ids=lambda command: " ".join(command)[:50],
)
def test_start_script_runs_the_broker(root: Path, port: int, command: list[str]) -> None:
    paths = [script(root, part) if part.startswith("/") else part for part in command]
    process = started(paths, environment(root, port), root)
    listed = run(
        root,
        [script(root, "/opt/kafka/bin/kafka-topics.sh"), "--list", "--bootstrap-server",
         f"localhost:{port}"],
    )  # fmt: skip
    assert (listed.returncode, listed.stdout, listed.stderr) == (0, "", "")
    stop(process)


WITHOUT_ZOOKEEPER = """
sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' {root}/etc/confluent/docker/configure
echo 'kafka-storage format --ignore-formatted -t 4L6g3nShT-eMCtK--X86sw -c /etc/kafka.properties \
--add-scram SCRAM-SHA-512=[name=alice,password=secret]' >> {root}/etc/confluent/docker/configure
"""
WITH_ZOOKEEPER = """
echo 'clientPort={zookeeper}' > zookeeper.properties
zookeeper-server-start zookeeper.properties &
"""
RUN = """
echo '' > {root}/etc/confluent/docker/ensure
{root}/etc/confluent/docker/run
"""
LAUNCH = """
. {root}/etc/confluent/docker/bash-config
{root}/etc/confluent/docker/configure
{root}/etc/confluent/docker/launch
"""
APACHE = """
{root}/etc/kafka/docker/run
"""


@pytest.mark.parametrize(
    ("commands", "has_user"),
    [
        _long(APACHE, False),
        _long(WITH_ZOOKEEPER + RUN, False),
        _long(WITH_ZOOKEEPER + LAUNCH, False),
        _long(WITHOUT_ZOOKEEPER + RUN, True),
        (WITHOUT_ZOOKEEPER + LAUNCH, True),
    ],
    ids=["apache", "zookeeper, run", "zookeeper, launch", "kraft, run", "kraft, launch"],
)
def test_start_script_of_a_test_library_runs_the_broker(
    tmp_path: Path, port: int, commands: str, *, has_user: bool
) -> None:
    root = image_root(tmp_path)
    starter = root / "testcontainers_start.sh"
    advertised = f"export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:{port}\n"
    starter.write_text(
        f"#!/bin/sh\n{advertised}{commands.format(root=root, zookeeper=free_port())}"
    )
    starter.chmod(0o755)
    waiting = f"while [ ! -f {starter} ]; do sleep 0.1; done; {starter}"
    variables = environment(root, port, KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://unused:1")
    process = started(["sh", "-c", waiting], variables, root)
    tool = script(root, "/opt/kafka/bin/kafka-broker-api-versions.sh")
    asked = run(root, [tool, "--bootstrap-server", f"127.0.0.1:{port}"])
    assert asked.stdout.startswith(f"localhost:{port} (id: 1 ")
    assert bool(ImageFiles(str(root)).formatted_users()) is has_user
    os.killpg(process.pid, signal.SIGTERM)
    assert process.stdout is not None
    process.stdout.close()
    process.wait(10)


def test_controller_without_broker_waits(root: Path) -> None:
    command = [script(root, "/etc/kafka/docker/run")]
    with subprocess.Popen(
        command,
        env=environment(root, KAFKA_PROCESS_ROLES="controller"),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert re.match("no broker: .* waits until it is stopped", process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_environment_that_is_refused_ends_the_container(root: Path) -> None:
    refused = run(
        root, [script(root, ENTRYPOINT)], KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://0.0.0.0:9092"
    )
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr.count("\n") == 1
    assert refused.stderr.startswith("kafkalite: KAFKA_ADVERTISED_LISTENERS: no client can connect")


def test_unknown_program_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert programs.run_program("kafkalite-entrypoint", ["no-such-program", "x"], {}) == 127
    assert capsys.readouterr().err == "kafkalite: there is no program no-such-program\n"


def test_directory_is_no_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert programs.run_program("kafkalite-entrypoint", [str(tmp_path)], {}) == 2
    assert "permission denied" in capsys.readouterr().err
