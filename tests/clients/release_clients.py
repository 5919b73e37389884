"""Java programs that run on the client libraries of a chosen release of Kafka."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from tests.oracle.build_cache import build_once, run_build
from tests.oracle.jars import compiled, jar_directory, java_command
from tests.oracle.releases import LATEST_PATCH
from tests.oracle.requirements import program, required

_SOURCES: Final = Path(__file__).parent / "java_releases"
_TIMEOUT_S: Final = 180


def release_jar(artifact: str, version: str) -> Path:
    """Return the jar of a version of one of Kafka's libraries."""
    maven = program("mvn")

    def fetch(directory: Path) -> None:
        coordinates = f"-Dartifact=org.apache.kafka:{artifact}:{version}"
        goal = ["dependency:copy", coordinates, f"-DoutputDirectory={directory}"]
        run_build([maven, "-q", "-B", *goal], directory)

    return build_once(f"{artifact}-{version}", [], fetch) / f"{artifact}-{version}.jar"


def command_on_release(
    release: str,
    main_class: str,
    *arguments: str,
    classes: Path,
    artifacts: tuple[str, ...] = ("kafka-clients",),
) -> list[str]:
    """Return the command that runs a program of `classes` on libraries of a release."""
    # The libraries that the clients need are those of the pinned release.
    others = [jar for jar in sorted(jar_directory().glob("*.jar")) if "kafka" not in jar.name]
    kafka = [release_jar(artifact, LATEST_PATCH[release]) for artifact in artifacts]
    return java_command(
        main_class,
        *arguments,
        classes=classes,
        log_level="error",
        jar_path=":".join(map(str, [*kafka, *others])),
    )


def run_on_release(
    release: str, main_class: str, *arguments: str, artifacts: tuple[str, ...] = ("kafka-clients",)
) -> dict[str, str]:
    """Run a program on libraries of a release; return the last word of each line by the others.

    The test is skipped without Java or the libraries.
    """
    with required():
        command = command_on_release(
            release, main_class, *arguments, classes=compiled(_SOURCES), artifacts=artifacts
        )
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [line.rsplit(" ", 1) for line in done.stdout.splitlines()]
    return dict(rows)
