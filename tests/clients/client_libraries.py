"""The client libraries: their capabilities, and how each driver is started."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tests.oracle.build_cache import build_once, run_build
from tests.oracle.jars import compiled, java_command
from tests.oracle.requirements import program

_DIRECTORY = Path(__file__).parent
_ROOT = _DIRECTORY.parents[1]
_ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Command: TypeAlias = Callable[[], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One client library; `command` prepares its driver and returns the command that starts it."""

    name: str
    command: Command
    protocols: tuple[str, ...] = ("classic",)
    codecs: tuple[str, ...] = _ALL_CODECS
    logs_commits: bool = True
    is_from_pip: bool = False


def client_named(name: str) -> Client:
    """Return a client by its name."""
    return next(client for client in CLIENTS if client.name == name)


def java_classes() -> Path:
    """Compile the Java programs of this directory against the official jars."""
    return compiled(_DIRECTORY / "java")


def driver_environment() -> dict[str, str]:
    """Return the environment of a driver: that of this process, with the repository importable."""
    paths = [str(_ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def _python(module: str) -> Command:
    return lambda: [sys.executable, "-m", f"tests.clients.drivers.{module}"]


def _kcat() -> list[str]:
    program("kcat")
    return _python("kcat_driver")()


def _java() -> list[str]:
    return java_command("ClientDriver", classes=java_classes(), log_level="error")


def kafkajs_program(name: str) -> list[str]:
    """Return the command that runs one of the kafkajs programs."""
    node, npm = program("node"), program("npm")
    names = (
        "driver.js", "clock.js", "producers.js", "secured.js", "tokens.js", "worker.js",
        "package.json", "package-lock.json",
    )  # fmt: skip
    sources = [_DIRECTORY / "js" / name for name in names]

    def install(directory: Path) -> None:
        for source in sources:
            shutil.copy(source, directory)
        run_build([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], directory)

    return [node, str(build_once("kafkajs", sources, install) / name)]


def java_worker() -> list[str]:
    """Return the command that runs the Java client's worker."""
    return java_command("TransactionWorker", classes=java_classes(), log_level="error")


def franz_go_worker() -> list[str]:
    """Build franz-go's worker with modules of the Go proxy; return the command that runs it."""
    go = program("go")
    names = (
        "main.go", "driver.go", "matrix.go", "producers.go", "reader.go", "secured.go", "admin.go",
        "go.mod", "go.sum",
    )  # fmt: skip
    sources = [_DIRECTORY / "go" / name for name in names]

    def build(directory: Path) -> None:
        run_build(
            [go, "build", "-C", str(_DIRECTORY / "go"), "-o", str(directory / "worker"), "."],
            directory,
        )

    return [str(build_once("franz-go", sources, build) / "worker")]


def kafkajs_worker() -> list[str]:
    """Return the command that runs the kafkajs worker."""
    return kafkajs_program("worker.js")


def _kafkajs() -> list[str]:
    return kafkajs_program("driver.js")


FRANZ_GO = Client(name="franz-go", command=lambda: [*franz_go_worker(), "driver"])
"""Not one of CLIENTS: its driver only produces, and reads in a group."""

CLIENTS = (
    Client(
        name="confluent-kafka",
        command=_python("confluent_driver"),
        protocols=("classic", "consumer"),
        is_from_pip=True,
    ),
    Client(name="aiokafka", command=_python("aiokafka_driver"), is_from_pip=True),
    Client(name="kafka-python", command=_python("kafka_python_driver"), is_from_pip=True),
    Client(name="java", command=_java, protocols=("classic", "consumer")),
    Client(name="kafkajs", command=_kafkajs),
    Client(name="kcat", command=_kcat, logs_commits=False),
)
