"""The module of Testcontainers in `examples/`, and the programs of the guide."""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from confluent_kafka import Producer

from tests.architecture.source import ROOT
from tests.docs.blocks import Kind, all_blocks
from tests.oracle.build_cache import build_once, run_build
from tests.oracle.requirements import program, required
from tests.oracle.target import free_port
from tests.unit.docker.test_programs import environment, image_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

DIRECTORY = ROOT / "examples" / "testcontainers"
GUIDE = "docs/how-to/testcontainers.md"
POM = Path(__file__).parent / "pom.xml"
_TIMEOUT_S = 60


class Result(NamedTuple):
    """The result of a command in a container, as Testcontainers has it."""

    exit_code: int
    output: bytes


class Machine:
    """Runs the command of one container on this machine, where no engine is needed."""

    def __init__(self, directory: Path) -> None:
        self._root = image_root(directory)
        self._directory = directory
        self._process: subprocess.Popen[str] | None = None
        self.port = free_port(3)
        self._variables: dict[str, str] = {}

    def start(self, variables: Mapping[str, str], arguments: list[str]) -> None:
        command = self._root / "usr" / "local" / "bin" / "kafkalite"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m kafkalite "$@"\n', "utf-8")
        command.chmod(0o755)
        listen = f"OUTSIDE://127.0.0.1:{self.port},INSIDE://127.0.0.1:{self.port + 1}"
        own = {
            "KAFKALITE_LISTEN": listen,
            "KAFKALITE_CONTROL": f"127.0.0.1:{self.port + 2}",
        }
        self._variables = {**environment(self._root), **variables, **own}
        self._process = subprocess.Popen(
            self._words(arguments),
            env=self._variables,
            cwd=self._directory,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, command: list[str]) -> Result:
        done = subprocess.run(
            self._words(command),
            env=self._variables,
            cwd=self._directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_S,
            check=False,
        )
        return Result(done.returncode, done.stdout)

    def wait_for_line(self, text: str) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        assert any(text in line for line in self._process.stdout)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.communicate(timeout=_TIMEOUT_S)

    def _words(self, command: list[str]) -> list[str]:
        """Return a command with the file of the address in the directory of the test."""
        return [word.replace("/tmp/", f"{self._directory}/") for word in command]  # noqa: S108


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Let Testcontainers run its containers as programs of this machine."""
    container = importlib.import_module("testcontainers.core.container")
    strategies = importlib.import_module("testcontainers.core.wait_strategies")
    here = Machine(tmp_path)
    replaced: dict[str, Callable[..., object]] = {
        "start": lambda container: here.start(container.env, container._command),
        "exec": lambda _, command: here.run(command),
        "get_container_host_ip": lambda _: "localhost",
        "get_exposed_port": lambda _, __: here.port,
        "stop": lambda _: here.stop(),
    }
    monkeypatch.setattr(container, "DockerClient", dict)
    for name, function in replaced.items():
        monkeypatch.setattr(container.DockerContainer, name, function)
    monkeypatch.setattr(
        strategies.LogMessageWaitStrategy,
        "wait_until_ready",
        lambda strategy, _: here.wait_for_line(strategy._message.pattern),
    )
    monkeypatch.syspath_prepend(str(DIRECTORY))
    yield here
    here.stop()


@pytest.mark.client
def test_the_python_module_runs_a_broker_with_topics(machine: Machine) -> None:
    module = importlib.import_module("kafkalite_container")
    with module.KafkaliteContainer(topics={"orders": 3}) as kafka:
        assert kafka.bootstrap_servers == f"localhost:{machine.port}"
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        metadata = producer.list_topics("orders", timeout=30)
        assert [(each.host, each.port) for each in metadata.brokers.values()] == [
            ("localhost", machine.port)
        ]
        tests = importlib.import_module("test_orders")
        tests.test_an_order_is_written(kafka)
        tests.test_the_clock_of_the_broker_moves(kafka)
        with pytest.raises(RuntimeError, match="is not a duration"):
            kafka.run("clock", "advance", "soon")


def test_modules_of_the_guide_exist() -> None:
    blocks = [block for block in all_blocks() if block.page == GUIDE and block.language == "python"]
    lines = [line for block in blocks for line in block.text.splitlines()]
    imported = [line.split() for line in lines if line.startswith("from testcontainers")]
    assert imported
    for _, module, _, name in imported:
        assert hasattr(importlib.import_module(module), name)


_PAGE = """
import org.testcontainers.kafka.ConfluentKafkaContainer;
import org.testcontainers.kafka.KafkaContainer;
import org.testcontainers.utility.DockerImageName;

public class Page%d {
    public static void main(String[] arguments) throws Exception {
%s
    }
}
"""


@pytest.mark.client
@pytest.mark.endurance
def test_java_programs_compile(tmp_path: Path) -> None:
    with required():
        compiler, maven = program("javac"), program("mvn")
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
        jars = build_once(
            "testcontainers-jars",
            [POM],
            lambda directory: run_build(
                [maven, "-q", "-B", "-f", str(POM), *goal, f"-DoutputDirectory={directory}"],
                directory,
            ),
        )
    blocks = [
        block
        for block in all_blocks()
        if block.page == GUIDE and block.language == "java" and block.kind is not Kind.JAVA_TEST
    ]
    assert blocks
    sources = []
    for number, block in enumerate(blocks):
        source = tmp_path / f"Page{number}.java"
        source.write_text(_PAGE % (number, textwrap.indent(block.text, "        ")), "utf-8")
        sources.append(str(source))
    options = ["-Xlint:all,-processing,-classfile", "-Werror", "-proc:none", "-d", str(tmp_path)]
    done = subprocess.run(
        [compiler, *options, "-cp", f"{jars}/*", *sources],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
