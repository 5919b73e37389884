"""Settings as each release of Kafka describes them.

`python -m tests.conformance.described_settings` records them from real brokers with Kafka's own
defaults. The file has the settings of the
latest release in full, and of each earlier release those that it describes in another way than the
next one.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from kafkalite.config.keys import own_broker_keys
from tests.conformance.recordings import RECORDED
from tests.conformance.scenario_cluster import ScenarioCluster
from tests.conformance.scenarios.configs import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    PLACES,
    TOPIC,
    describe,
)
from tests.conformance.setup import create_topic
from tests.oracle.real_kafka import RealKafka
from tests.oracle.releases import LATEST_PATCH

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATH: Final = RECORDED / "described_settings.jsonl"
_OF_NODE: Final = frozenset((*PLACES, "controller.quorum.voters", *own_broker_keys()))
"""Settings that differ because the brokers are set up in different ways."""
_RESOURCES: Final = ((BROKER, "1"), (TOPIC, "described"), (GROUP, "g"), (CLIENT_METRICS, "m"))
_WITHOUT_BOOTSTRAP_SERVERS: Final = ("3.3", "3.4", "3.5", "3.6", "3.7", "3.8")
"""Releases that need `controller.quorum.voters`."""
# Version 4.0.1 of some jars is not on Maven Central.
_VERSIONS: Final = {**LATEST_PATCH, "4.0": "4.0.0"}

Described = dict[str, object]
"""`kind name` → value, source, read-only, sensitive, type, synonyms; `kind` → error."""


def described(port: int) -> Described:
    """Return the settings of a broker, a new topic, a group and a subscription."""
    cluster = ScenarioCluster(port, "described")
    found: Described = {}
    try:
        create_topic(cluster, "described")
        for kind, name in _RESOURCES:
            (result,) = cluster.probe(describe(kind, name), 4).results
            found[str(kind)] = int(result.error_code)
            for each in result.configs:
                if each.name not in _OF_NODE:
                    synonyms = [[it.name, it.value, int(it.source)] for it in each.synonyms]
                    found[f"{kind} {each.name}"] = [
                        each.value,
                        int(each.config_source),
                        each.read_only,
                        each.is_sensitive,
                        int(each.config_type),
                        synonyms,
                    ]
    finally:
        cluster.close()
    return found


def recorded(release: str) -> Described:
    """Return the settings that a release of Kafka described."""
    found: Described = {}
    for line in _PATH.read_text().splitlines():
        name, changes = json.loads(line)
        found = {key: value for key, value in {**found, **changes}.items() if value is not None}
        if name == release:
            return found
    raise KeyError(release)


def _record(releases: dict[str, str]) -> None:
    later: Described = {}
    lines = []
    for name, version in reversed(releases.items()):
        with _running(name, version) as kafka:
            found = described(kafka.port)
        changes: Described = dict.fromkeys(later.keys() - found.keys())
        changes |= {key: value for key, value in found.items() if later.get(key) != value}
        lines.append(json.dumps([name, dict(sorted(changes.items()))], separators=(",", ":")))
        later = found
    _PATH.write_text("".join(f"{line}\n" for line in lines))


@contextmanager
def _running(name: str, version: str) -> Iterator[RealKafka]:
    with TemporaryDirectory() as directory:
        has_voters = name in _WITHOUT_BOOTSTRAP_SERVERS
        kafka = RealKafka(
            Path(directory, "kafka"),
            {},
            release=version,
            defaults={},
            format_options=() if has_voters else ("--standalone",),
        )
        if has_voters:
            kafka.configure(
                {
                    "advertised.listeners": f"PLAINTEXT://{kafka.bootstrap}",
                    "controller.quorum.voters": f"1@{kafka.controller}",
                }
            )
        kafka.start()
        try:
            yield kafka
        finally:
            kafka.kill()


if __name__ == "__main__":
    _record(_VERSIONS)
    sys.exit()
