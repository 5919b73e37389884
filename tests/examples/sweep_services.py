"""The services in `examples/sweep`: how each is built and started, and the fault it can have."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalite.lab.sweep.sweep import SweepOptions
from tests.architecture.source import ROOT
from tests.oracle.build_cache import build_once, run_build
from tests.oracle.requirements import program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

SERVICES: Final = ROOT / "examples" / "sweep"
_GO_SOURCES: Final = ("go.mod", "go.sum", "main.go")
_NODE_SOURCES: Final = ("package.json", "package-lock.json", "service_kafkajs.js")
_BUILD_TIMEOUT_S: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service that is correct, and has a fault with an argument."""

    command: Callable[[], tuple[str, ...]]
    """Builds it, and returns the command that starts it."""
    argument: str
    found: Mapping[str, str]
    """Case that finds the fault → a part of its reasons."""
    state: str = "shop.yaml"
    check: tuple[str, ...] = ()
    """Arguments of the check."""

    def options(self, *, is_planted: bool) -> SweepOptions:
        """Return the options of its sweep."""
        return SweepOptions(
            command=(*self.command(), *[self.argument] * is_planted),
            check=(sys.executable, str(SERVICES / "check_bills.py"), *self.check),
            state=str(SERVICES / self.state),
            confirmations=0,
        )


def _python(name: str) -> Callable[[], tuple[str, ...]]:
    return lambda: (sys.executable, str(SERVICES / name))


def _java(name: str) -> Callable[[], tuple[str, ...]]:
    def command() -> tuple[str, ...]:
        java = program("java")
        target = _built_classes() / "target"
        flags = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
        return java, *flags, "-cp", f"{target}/classes:{target}/lib/*", f"shop.{name}"

    return command


def _built_classes() -> Path:
    maven, project = program("mvn"), SERVICES / "java"

    def build(directory: Path) -> None:
        shutil.copy(project / "pom.xml", directory)
        shutil.copytree(project / "src", directory / "src")
        run_build([maven, "-q", "-B", "package"], directory, _BUILD_TIMEOUT_S)

    return build_once("sweep-java", [project / "pom.xml", *project.rglob("*.java")], build)


def _go() -> tuple[str, ...]:
    go, sources = program("go"), [SERVICES / "go" / name for name in _GO_SOURCES]

    def build(directory: Path) -> None:
        run_build([go, "build", "-C", str(SERVICES / "go"), "-o", f"{directory}/"], directory)

    return (str(build_once("sweep-go", sources, build) / "billing"),)


def _node() -> tuple[str, ...]:
    node, npm = program("node"), program("npm")
    sources = [SERVICES / "node" / name for name in _NODE_SOURCES]

    def install(directory: Path) -> None:
        for source in sources:
            shutil.copy(source, directory)
        run_build([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], directory)

    return node, str(build_once("sweep-node", sources, install) / "service_kafkajs.js")


BY_NAME: Final[Mapping[str, Service]] = {
    "librdkafka": Service(
        command=_python("service_librdkafka.py"),
        argument="--commit-first",
        found={
            "Produce#1 bills-0 request-lost": "missing: bill of order-1",
            "Produce#3 bills-0 killed-before": "missing: bill of order-3",
        },
    ),
    "aiokafka": Service(
        command=_python("service_aiokafka.py"),
        argument="--without-idempotence",
        found={
            "Produce#1 bills-0 answer-lost": "sent it again without idempotence",
            "Produce#2 bills-0 late": "sent it again without idempotence",
        },
    ),
    "java": Service(
        command=_java("BillingService"),
        argument="--ignore-failed-commits",
        found={"OffsetCommit#1 session-expired": "6 bills for 3 orders"},
        check=("--at-most-one-more",),
    ),
    "spring": Service(
        command=_java("SpringBillingService"),
        argument="--no-wait",
        found={"Produce#1 bills-0 request-lost": "missing: bill of order-1"},
    ),
    "franz-go": Service(
        command=_go,
        argument="-no-wait",
        found={"Produce#1 bills-0 request-lost": "missing: bill of order-1"},
    ),
    "kafkajs": Service(
        command=_node,
        argument="--new-only",
        found={"Produce#1 bills-0 request-lost": "missing: bill of order-1"},
        state="empty_shop.yaml",
    ),
}
"""Client library → the service that uses it."""
