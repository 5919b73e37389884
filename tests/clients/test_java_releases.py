"""Java clients of each release, at a broker that emulates their release and at the default one."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from kafkalite.testing import Broker
from tests.oracle.build_cache import build_once, run_build
from tests.oracle.jars import SHORT_LIVED, compiled, jar_directory
from tests.oracle.requirements import program, required

pytestmark = [pytest.mark.client, pytest.mark.endurance, pytest.mark.timeout(240)]

_SOURCES: Final = Path(__file__).parent / "java_releases"
_TIMEOUT_S: Final = 180

CLIENTS: Final = {
    "3.3": "3.3.2",
    "3.4": "3.4.1",
    "3.5": "3.5.2",
    "3.6": "3.6.2",
    "3.7": "3.7.2",
    "3.8": "3.8.1",
    "3.9": "3.9.1",
    "4.0": "4.0.1",
    "4.1": "4.1.1",
    "4.2": "4.2.0",
    "4.3": "4.3.1",
    "4.4": "4.4.0",
}
"""Release → version of its client."""
_CLASSIC_ONLY: Final = {"3.3", "3.4", "3.5", "3.6"}
_WITHOUT_SHARE_CONSUMER: Final = {*_CLASSIC_ONLY, "3.7", "3.8", "3.9", "4.0"}
_OPTIONAL_CONSUMER_PROTOCOL: Final = {"3.7", "3.8", "3.9"}
"""Releases whose brokers have the consumer protocol only if a setting enables it."""

_CONFIG: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.share.assignment.interval.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}


def client_jar(version: str) -> Path:
    """Return the jar of a version of the Java client."""
    maven = program("mvn")

    def fetch(directory: Path) -> None:
        artifact = f"org.apache.kafka:kafka-clients:{version}"
        goal = ["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={directory}"]
        run_build([maven, "-q", "-B", *goal], directory)

    return build_once(f"kafka-clients-{version}", [], fetch) / f"kafka-clients-{version}.jar"


def kinds_of(release: str) -> list[str]:
    """Return the kinds of consumers that a client has."""
    kinds = ["classic"]
    if release not in _CLASSIC_ONLY:
        kinds.append("consumer")
    if release not in _WITHOUT_SHARE_CONSUMER:
        kinds.append("share")
    return kinds


def settings_of(release: str) -> dict[str, Any]:
    """Return the topics and settings of a broker that emulates a release."""
    config = dict(_CONFIG)
    if release in _OPTIONAL_CONSUMER_PROTOCOL:
        config["group.coordinator.rebalance.protocols"] = "classic,consumer"
    if release == "4.1":
        config["share.version"] = "1"  # 4.1 has share groups, but new clusters have level 0
    return {"topics": {"orders": 1}, "config": config, "as_version": release}


def run_clients(release: str, *bootstraps: str) -> dict[str, str]:
    """Run each kind of client at each broker; return the values that it read."""
    with required():
        # The libraries that the client needs are those of the pinned release.
        others = [jar for jar in sorted(jar_directory().glob("*.jar")) if "kafka" not in jar.name]
        jars = [compiled(_SOURCES), client_jar(CLIENTS[release]), *others]
    kinds = ",".join(kinds_of(release))
    level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    command = [program("java"), "-Xmx256m", *SHORT_LIVED, level, "-cp", ":".join(map(str, jars))]
    command += ["ReleaseClients", *(f"{bootstrap},{kinds}" for bootstrap in bootstraps)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [line.rsplit(" ", 1) for line in done.stdout.splitlines()]
    return dict(rows)


@pytest.mark.parametrize("release", CLIENTS)
def test_clients_work_with_their_release_and_the_default_one(release: str) -> None:
    with (
        Broker(**settings_of(release), log_level="error") as own,
        Broker(topics={"orders": 1}, config=_CONFIG, log_level="error") as default,
    ):
        read = run_clients(release, own.bootstrap_servers, default.bootstrap_servers)
    for number, broker in enumerate(("own", "default")):
        for kind in kinds_of(release):
            assert read[f"{number} {kind}"] == "idempotent,committed", (broker, kind)
