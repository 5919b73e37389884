"""The tables of releases say what the jars of those releases say.

By default the pinned release judges, and the last one before Kafka 4, whose jars other tests want
as well; the long form fetches the jars of every release that can be presented.
"""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from kafkalite.apis.table import TABLE
from kafkalite.config.releases import Feature, presented, release_names
from kafkalite.protocol.versions import Versions
from tests.java_codec.official import Definition, definitions_in, older_jar_directory, speaks
from tests.oracle.built import built_once, run_build
from tests.oracle.jars import compiled, jar_directory
from tests.oracle.requirements import program, required

if TYPE_CHECKING:
    from collections.abc import Iterator

PINNED: Final = "4.3"
BEFORE_KAFKA_4: Final = "3.9"

LATEST_PATCH: Final = {
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
}

NOT_OURS: Final = "kraft.version"
"""The one feature left out: there is no quorum here that could have it."""


@pytest.fixture(scope="module", autouse=True)
def _jars() -> Iterator[None]:
    with required():
        jar_directory()
        older_jar_directory()
        yield


@functools.cache
def jars_of(release: str) -> Path:
    """Fetch what a release says of its APIs and features: two jars, without what they need."""
    if release == PINNED:
        return jar_directory()
    version = LATEST_PATCH[release]
    maven = program("mvn")

    def fetch(directory: Path) -> None:
        for artifact in ("kafka-clients", "kafka-server-common"):
            wanted = f"-Dartifact=org.apache.kafka:{artifact}:{version}"
            goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
            run_build(
                [maven, "-q", "-B", goal, wanted, f"-DoutputDirectory={directory}"], directory
            )

    return built_once(f"kafka-{version}", [Path(__file__)], fetch)


def shown(definition: Definition) -> Versions | None:
    """Return the versions that a broker tells clients of, None for an API it keeps to itself."""
    if "broker" not in definition.get("listeners", ()) or definition["validVersions"] == "none":
        return None
    every = speaks(definition)
    if not definition.get("latestVersionUnstable", False):
        return every
    return Versions(every.lowest, every.highest - 1) if every.highest > every.lowest else None


def apis_in(directory: Path) -> dict[str, Versions]:
    """Return what brokers of a release tell of their APIs; each by the name it has now."""
    found = {}
    for name, definition in definitions_in(sorted(directory.glob("kafka-clients-*.jar"))).items():
        if definition["type"] == "request" and (versions := shown(definition)) is not None:
            key = definition["apiKey"]
            found[TABLE[key].name if key in TABLE else name.removesuffix("Request")] = versions
    return found


def features_in(directory: Path) -> dict[str, Feature]:
    """Return the features of a release, as its own classes tell them."""
    logging = sorted(jar_directory().glob("slf4j-*.jar"))
    jars = [*sorted(directory.glob("kafka-*.jar")), *logging]
    path = ":".join(map(str, [compiled(Path(__file__).parent / "formatted"), *jars]))
    told = subprocess.run(
        [program("java"), "-cp", path, "FormattedFeatures"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    rows = [line.split() for line in told.stdout.splitlines()]
    return {name: Feature(*map(int, levels)) for name, *levels in rows if name != NOT_OURS}


def test_the_pinned_release_says_the_same_of_apis_and_features() -> None:
    assert presented(PINNED).apis == apis_in(jars_of(PINNED))
    assert presented(PINNED).features == features_in(jars_of(PINNED))


def test_the_last_release_before_kafka_4_says_the_same_of_apis() -> None:
    assert presented(BEFORE_KAFKA_4).apis == apis_in(older_jar_directory())


@pytest.mark.endurance
@pytest.mark.parametrize("release", release_names())
def test_every_release_says_the_same_of_apis_and_features(release: str) -> None:
    with required():
        directory = jars_of(release)
    assert presented(release).apis == apis_in(directory)
    assert presented(release).features == features_in(directory)
