"""Kafka's official jars, and programs of ours compiled against them.

The jars come from Maven Central by `pom.xml` in this directory and are stored in the cache.
"""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

from tests.oracle import moved_classes
from tests.oracle.build_cache import build_once, run_build
from tests.oracle.class_data import SHARING, archive_flags
from tests.oracle.moved_classes import adapt_jars
from tests.oracle.releases import LATEST_PATCH
from tests.oracle.requirements import MissingProgramError, UnavailableError, program

_MIN_JAVA_VERSION = 17
_RELOAD4J_BINDING = "slf4j-reload4j"
_POM = Path(__file__).parent / "pom.xml"

# For short-lived programs: C1, the serial collector and archived classes start fastest.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", SHARING)
# Releases that are started often; None is the pinned one. Making an archive costs six starts.
_ARCHIVED_RELEASES = (None, LATEST_PATCH["4.3"])


def jar_directory(release: str | None = None) -> Path:
    """Fetch every jar of a Kafka release, by default the pinned one.

    Raises MissingProgramError without Java and Maven.
    """
    result = _fetch_result(release)
    if isinstance(result, Path):
        return result
    raise result


@functools.cache
def _fetch_result(release: str | None) -> Path | MissingProgramError | UnavailableError:
    """Fetch once per run; an unreachable registry is not requested again."""
    try:
        return _fetch_jars(release)
    except (MissingProgramError, UnavailableError) as reason:
        return reason


def _fetch_jars(release: str | None) -> Path:
    _check_java()
    return dependencies("kafka-jars", _POM, release)


def dependencies(name: str, pom: Path, release: str | None) -> Path:
    """Fetch every jar that a POM names, for a release of Kafka, by default that of the POM.

    Returns the directory of the jars. Raises MissingProgramError without Maven, and
    UnavailableError if the jars cannot be fetched.
    """
    maven = program("mvn")

    def fetch(directory: Path) -> None:
        goal = "dependency:copy-dependencies"
        arguments = [f"-DoutputDirectory={directory}", "-DincludeScope=runtime"]
        if release is not None:
            arguments.append(f"-Dkafka.version={release}")
        run_build([maven, "-q", "-B", "-f", str(pom), goal, *arguments], directory)
        adapt_jars(directory)

    sources = [pom, Path(moved_classes.__file__)]
    return build_once(name if release is None else f"{name}-{release}", sources, fetch)


@functools.cache
def _java_version() -> str:
    output = subprocess.run(
        [program("java"), "-version"], capture_output=True, text=True, timeout=60, check=False
    )
    return output.stderr + output.stdout


def _check_java() -> None:
    """Kafka 4 needs Java 17; an older version counts as not installed."""
    match = re.search(r'version "(\d+)', _java_version())
    if match is None or int(match[1]) < _MIN_JAVA_VERSION:
        raise MissingProgramError(
            f"Java {_MIN_JAVA_VERSION} is needed, this is {match and match[1]}"
        )


@functools.cache
def classpath(release: str | None = None) -> str:
    """Return all jars of a release as one class path."""
    return classpath_of(jar_directory(release))


def classpath_of(directory: Path) -> str:
    """Return all jars of a directory as one class path, ordered so that class-data archives fit.

    Releases before 4.0 contain their own SLF4J binding, which would print nothing.
    """
    jars = sorted(directory.glob("*.jar"))
    return ":".join(str(jar) for jar in jars if not jar.name.startswith(_RELOAD4J_BINDING))


def java_command(
    main_class: str,
    *arguments: str,
    classes: Path | None = None,
    heap: str = "256m",
    log_level: str = "warn",
    flags: tuple[str, ...] = SHORT_LIVED,
    release: str | None = None,
    jar_path: str | None = None,
) -> list[str]:
    """Build the command that runs one main class on the jars (and on our own classes).

    The jars are those of a release, or of `jar_path`. An archive of classes needs the jars at the
    beginning of the class path.
    """
    jars = jar_path or classpath(release)
    path = jars if classes is None else f"{jars}:{classes}"
    level = f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"
    options = [f"-Xmx{heap}", *flags, level]
    if SHARING in flags and jar_path is None and release in _ARCHIVED_RELEASES:
        options += _archive_flags(release)
    return [program("java"), *options, "-cp", path, main_class, *arguments]


@functools.cache
def _archive_flags(release: str | None) -> tuple[str, ...]:
    name = jar_directory(release).name
    return archive_flags(name, classpath(release), SHORT_LIVED, _java_version())


@functools.cache
def compiled(source_directory: Path, path: str | None = None) -> Path:
    """Compile every Java file of a directory; return the class directory.

    `path` is the class path; by default it is that of Kafka.
    """
    compiler = program("javac")
    sources = sorted(source_directory.glob("*.java"))
    path = classpath() if path is None else path

    def compile_all(directory: Path) -> None:
        options = ["-Xlint:all,-processing,-classfile", "-proc:none"]
        files = [str(source) for source in sources]
        run_build([compiler, *options, "-cp", path, "-d", str(directory), *files], directory)

    return build_once(f"classes-{source_directory.name}", [_POM, *sources], compile_all)
