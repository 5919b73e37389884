"""Jars that a plain PySpark lacks, fetched from Maven Central once per machine."""

from __future__ import annotations

import re
from pathlib import Path

import pyspark

from tests.oracle.build_cache import build_once, run_build
from tests.oracle.requirements import program

SPARKS = Path(pyspark.__file__).parent / "jars"


def jars(name: str, pom: Path, **properties: str) -> list[Path]:
    """Return the jars that `pom` lists; raises MissingProgramError without Maven."""
    maven = program("mvn")
    options = [f"-D{name}={value}" for name, value in properties.items()]

    def fetch(directory: Path) -> None:
        goal = "dependency:copy-dependencies"
        output_option = f"-DoutputDirectory={directory}"
        run_build([maven, "-q", "-B", "-f", str(pom), goal, output_option, *options], directory)

    key = "-".join([name, *properties.values()])
    return sorted(build_once(key, [pom], fetch).glob("*.jar"))


def hadoop_version() -> str:
    """Return the version of PySpark's Hadoop, which added jars must match."""
    [client] = SPARKS.glob("hadoop-client-api-*.jar")
    match = re.search(r"hadoop-client-api-(.+)\.jar", client.name)
    assert match is not None
    return match[1]
