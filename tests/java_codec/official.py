"""Kafka's message definitions, read from its jars."""

from __future__ import annotations

import functools
import json
import re
import zipfile
from pathlib import Path
from typing import Any, Final

from kafkalite.protocol.versions import Versions
from tests.oracle.build_cache import build_once, run_build
from tests.oracle.jars import jar_directory
from tests.oracle.requirements import program

KINDS: Final = {"coordinator-key": "key", "coordinator-value": "value"}
"""Kinds of messages with another name in our specs."""

_POM: Final = Path(__file__).parent / "pom.xml"
_COMMENT: Final = re.compile(r"^\s*//.*$", re.MULTILINE)

Definition = dict[str, Any]
"""The JSON of one definition; used only here and in `test_official_definitions`."""


@functools.cache
def older_jar_directory() -> Path:
    """Return a directory with the clients of the last release before Kafka 4."""
    maven = program("mvn")
    program("java")

    def fetch(directory: Path) -> None:
        goal = "dependency:copy-dependencies"
        run_build(
            [maven, "-q", "-B", "-f", str(_POM), goal, f"-DoutputDirectory={directory}"], directory
        )

    return build_once("older-kafka-jars", [_POM], fetch)


@functools.cache
def definitions() -> dict[str, Definition]:
    """Return the definitions of the pinned release, by message name."""
    directory = jar_directory()
    # Kafka Streams defines messages for its own use; brokers do not read them.
    jars = set(directory.glob("kafka-*.jar")) - set(directory.glob("kafka-streams*"))
    return definitions_in(sorted(jars))


@functools.cache
def older_definitions() -> dict[str, Definition]:
    """Return the definitions of the last release before Kafka 4."""
    return definitions_in(sorted(older_jar_directory().glob("kafka-clients-*.jar")))


def definitions_in(jars: list[Path]) -> dict[str, Definition]:
    """Return all definitions in the jars, by message name."""
    definitions_by_name: dict[str, Definition] = {}
    for jar in jars:
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"common/(message|metadata)/\w+\.json", name):
                    text = _COMMENT.sub("", archive.read(name).decode())
                    definition = json.loads(text)
                    definitions_by_name[definition["name"]] = definition
    return definitions_by_name


def supported_versions(definition: Definition) -> Versions:
    """Return the versions of a message in a release, including the unstable one."""
    return Versions.parse(definition["validVersions"])
