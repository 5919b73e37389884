"""The tables of releases equal the jars of those releases.

By default the pinned release is compared, and the last one before Kafka 4, whose jars other tests
use as well. The long level downloads the jars of every supported release.
"""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from kafkalite.apis.table import TABLE
from kafkalite.config.releases import Feature, emulated_release, release_names
from kafkalite.protocol.versions import Versions
from tests.java_codec.official import (
    Definition,
    definitions_in,
    older_jar_directory,
    supported_versions,
)
from tests.oracle.build_cache import build_once, run_build
from tests.oracle.jars import compiled, jar_directory
from tests.oracle.releases import LATEST_PATCH
from tests.oracle.requirements import program, required

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.endurance

PINNED: Final = "4.4"
BEFORE_KAFKA_4: Final = "3.9"


@pytest.fixture(scope="module", autouse=True)
def _jars() -> Iterator[None]:
    with required():
        jar_directory()
        older_jar_directory()
        yield


@functools.cache
def jars_of(release: str) -> Path:
    """Return the two jars of a release with its APIs and features, without dependencies."""
    if release == PINNED:
        return jar_directory()
    version = LATEST_PATCH[release]
    maven = program("mvn")

    def fetch(directory: Path) -> None:
        for artifact in ("kafka-clients", "kafka-server-common"):
            coordinates = f"-Dartifact=org.apache.kafka:{artifact}:{version}"
            goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
            run_build(
                [maven, "-q", "-B", goal, coordinates, f"-DoutputDirectory={directory}"], directory
            )

    return build_once(f"kafka-{version}", [], fetch)


def advertised_versions(definition: Definition) -> Versions | None:
    """Return the versions that a broker advertises; None for an API that it does not advertise."""
    if "broker" not in definition.get("listeners", ()) or definition["validVersions"] == "none":
        return None
    all_versions = supported_versions(definition)
    if not definition.get("latestVersionUnstable", False):
        return all_versions
    return (
        Versions(all_versions.lowest, all_versions.highest - 1)
        if all_versions.highest > all_versions.lowest
        else None
    )


def unstable_in(directory: Path) -> dict[str, int]:
    """Return the unstable latest versions of the brokers' APIs in a release."""
    versions_by_name = {}
    for definition in definitions_in(sorted(directory.glob("kafka-clients-*.jar"))).values():
        if "broker" in definition.get("listeners", ()) and definition.get("latestVersionUnstable"):
            versions_by_name[TABLE[definition["apiKey"]].name] = supported_versions(
                definition
            ).highest
    return versions_by_name


def apis_in(directory: Path) -> dict[str, Versions]:
    """Return the APIs that brokers of a release advertise, by current name."""
    versions_by_name = {}
    for name, definition in definitions_in(sorted(directory.glob("kafka-clients-*.jar"))).items():
        if (
            definition["type"] == "request"
            and (versions := advertised_versions(definition)) is not None
        ):
            key = definition["apiKey"]
            versions_by_name[TABLE[key].name if key in TABLE else name.removesuffix("Request")] = (
                versions
            )
    return versions_by_name


class Features(NamedTuple):
    """Facts about the features of a release."""

    features: dict[str, Feature]
    formatted_with_unstable: dict[str, int]
    """Levels of a cluster with the newest unstable level of metadata.version."""
    changes_of_records: frozenset[int]


def features_in(directory: Path) -> Features:
    """Return the features of a release, printed by its own classes."""
    logging = sorted(jar_directory().glob("slf4j-*.jar"))
    jars = [*sorted(directory.glob("kafka-*.jar")), *logging]
    path = ":".join(map(str, [compiled(Path(__file__).parent / "formatted"), *jars]))
    printed = subprocess.run(
        [program("java"), "-cp", path, "FormattedFeatures"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    rows = {name: map(int, levels) for name, *levels in map(str.split, printed.stdout.splitlines())}
    changes = frozenset(rows.pop("changes"))
    levels = {name: tuple(row) for name, row in rows.items()}
    return Features(
        {name: Feature(*row[:4]) for name, row in levels.items()},
        {name: row[4] for name, row in levels.items()},
        changes,
    )


def check_features(release_name: str, directory: Path) -> None:
    """Assert that the table of releases has the features in the jars."""
    release, official = emulated_release(release_name), features_in(directory)
    assert release.features == official.features
    assert release.changes_of_records == official.changes_of_records
    if release.formats_unstable_features:
        assert {
            name: feature.formatted
            for name, feature in release.with_unstable_features().features.items()
        } == official.formatted_with_unstable


def test_apis_and_features_equal_the_pinned_release() -> None:
    assert emulated_release(PINNED).apis == apis_in(jars_of(PINNED))
    assert emulated_release(PINNED).unstable == unstable_in(jars_of(PINNED))
    check_features(PINNED, jars_of(PINNED))


def test_apis_equal_the_last_release_before_kafka_4() -> None:
    assert emulated_release(BEFORE_KAFKA_4).apis == apis_in(older_jar_directory())
    assert emulated_release(BEFORE_KAFKA_4).unstable == unstable_in(older_jar_directory())


@pytest.mark.parametrize("release", release_names())
def test_apis_and_features_equal_every_release(release: str) -> None:
    with required():
        directory = jars_of(release)
    assert emulated_release(release).apis == apis_in(directory)
    assert emulated_release(release).unstable == unstable_in(directory)
    check_features(release, directory)
