"""Jars that a plain PySpark lacks, fetched from Maven Central once per machine."""

from __future__ import annotations

import re
from pathlib import Path

import pyspark

from tests.oracle.built import built_once, run_build
from tests.oracle.requirements import program

SPARKS = Path(pyspark.__file__).parent / "jars"


def jars(name: str, pom: Path, **properties: str) -> list[Path]:
    """Return the jars that `pom` names, with its `properties`; LackingError without Maven."""
    maven = program("mvn")
    given = [f"-D{name}={value}" for name, value in properties.items()]

    def fetch(directory: Path) -> None:
        goal = "dependency:copy-dependencies"
        where = f"-DoutputDirectory={directory}"
        run_build([maven, "-q", "-B", "-f", str(pom), goal, where, *given], directory)

    told = "-".join([name, *properties.values()])
    return sorted(built_once(told, [pom], fetch).glob("*.jar"))


def hadoop_version() -> str:
    """Return the version of the Hadoop that PySpark brings: what is added must be of the same."""
    [client] = SPARKS.glob("hadoop-client-api-*.jar")
    found = re.search(r"hadoop-client-api-(.+)\.jar", client.name)
    assert found is not None
    return found[1]
