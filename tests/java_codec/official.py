"""The definitions Kafka itself is generated from, as they lie in its jars."""

from __future__ import annotations

import functools
import json
import re
import zipfile
from pathlib import Path
from typing import Any, Final

from kafkalite.protocol.versions import Versions
from tests.oracle.built import built_once, run_build
from tests.oracle.jars import jar_directory
from tests.oracle.requirements import program

KINDS: Final = {"coordinator-key": "key", "coordinator-value": "value"}
"""What the specs call those kinds of message that have another name in the definitions."""

_POM: Final = Path(__file__).parent / "pom.xml"
_COMMENT: Final = re.compile(r"^\s*//.*$", re.MULTILINE)

Definition = dict[str, Any]
"""One definition as its JSON says it; only read, and only here and in the test beside this."""


@functools.cache
def older_jar_directory() -> Path:
    """Fetch the clients of the last release before Kafka 4."""
    maven = program("mvn")
    program("java")

    def fetch(directory: Path) -> None:
        goal = "dependency:copy-dependencies"
        run_build(
            [maven, "-q", "-B", "-f", str(_POM), goal, f"-DoutputDirectory={directory}"], directory
        )

    return built_once("older-kafka-jars", [_POM], fetch)


@functools.cache
def definitions() -> dict[str, Definition]:
    """Read every definition of the pinned release, by the message's name."""
    # Kafka Streams defines messages too, for its own members alone; no broker reads them.
    jars = set(jar_directory().glob("kafka-*.jar")) - set(jar_directory().glob("kafka-streams*"))
    return definitions_in(sorted(jars))


@functools.cache
def older_definitions() -> dict[str, Definition]:
    """Read those of the last release before Kafka 4."""
    return definitions_in(sorted(older_jar_directory().glob("kafka-clients-*.jar")))


def definitions_in(jars: list[Path]) -> dict[str, Definition]:
    """Read every definition in some jars, by the message's name."""
    found: dict[str, Definition] = {}
    for jar in jars:
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"common/(message|metadata)/\w+\.json", name):
                    text = _COMMENT.sub("", archive.read(name).decode())
                    definition = json.loads(text)
                    found[definition["name"]] = definition
    return found


def speaks(definition: Definition) -> Versions:
    """Return the versions a release speaks of a message, the unstable one included."""
    return Versions.parse(definition["validVersions"])
