"""Runs test classes of Kafka in one JVM, with kafkalite as their cluster."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import zipfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from xml.etree import ElementTree as ET

from tests.oracle.jars import SHORT_LIVED, classpath_of, compiled, dependencies
from tests.oracle.requirements import program

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_DIRECTORY: Final = Path(__file__).parent
_ROOT: Final = _DIRECTORY.parents[1]
_POM: Final = _DIRECTORY / "pom.xml"
_JARS: Final = "kafka-integration-jars"
_RESULTS: Final = _DIRECTORY / "results.tsv"
_SEPARATOR: Final = "\t"
_HEAP: Final = "1500m"
_LAUNCHER: Final = "org.junit.platform.console.ConsoleLauncher"
STREAMS: Final = "org.apache.kafka.streams.integration"
CONNECT: Final = "org.apache.kafka.connect.integration"
CLIENTS: Final = "org.apache.kafka.clients"
_TEST_JARS: Final = (
    "connect-runtime",
    "kafka-clients-integration-tests",
    "kafka-server",
    "kafka-storage",
    "kafka-streams-integration-tests",
    "kafka-tools",
    "kafka_2.13",
)
_EMBEDDED_CLUSTER: Final = re.compile(
    r"org/apache/kafka/(?:streams|connect)/integration/(?:\w+/)?\w+Test"
)
# The beginning of the names of the annotations ClusterTest, ClusterTests and ClusterTemplate.
_CLUSTER_TEST: Final = b"Lorg/apache/kafka/common/test/api/ClusterTe"


class Result(NamedTuple):
    """How many tests of a class ended how; `note` is the reason for a class that is not run."""

    name: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    note: str = ""


class Run(NamedTuple):
    """The results of all classes of a run, and its failures as `Class.test: message`."""

    results: list[Result]
    failures: list[str]


def stored_results() -> dict[str, Result]:
    """Return the committed results by the full name of the class."""
    results = {}
    for line in _RESULTS.read_text(encoding="utf-8").splitlines():
        name, passed, failed, skipped, note = line.split(_SEPARATOR)
        results[name] = Result(name, int(passed), int(failed), int(skipped), note)
    return results


def store_results(results: Iterable[Result]) -> None:
    """Replace the committed results of these classes; a class that fails keeps its reason."""
    rows = stored_results() if _RESULTS.exists() else {}
    for result in results:
        note = rows[result.name].note if result.failed and result.name in rows else ""
        rows[result.name] = result._replace(note=note)
    lines = (_SEPARATOR.join(map(str, rows[name])) + "\n" for name in sorted(rows))
    _RESULTS.write_text("".join(lines), encoding="utf-8")


def run_suite(names: Sequence[str], directory: Path, timeout_s: float) -> Run:
    """Run the test classes with these full names one after another; return what they did.

    A name of the form `CLASS#METHOD(TYPES)` selects one method.

    Raises MissingProgramError without Java or Maven, UnavailableError if the jars cannot be
    fetched, and TimeoutExpired.
    """
    jars = classpath_of(dependencies(_JARS, _POM, None))
    # Our classes precede those of the same names in Kafka's jars.
    path = f"{compiled(_DIRECTORY / 'java', jars)}:{jars}"
    reports = directory / "reports"
    command = [program("java"), f"-Xmx{_HEAP}", *SHORT_LIVED]
    command += ["-Dlog4j2.level=warn"]
    command += [f"-Dkafkalite.python={sys.executable}", f"-Dkafkalite.directory={directory}"]
    command += [f"-Djava.io.tmpdir={directory}"]
    command += ["-cp", path, _LAUNCHER, "execute", "--disable-banner", "--details=none"]
    command += [f"--reports-dir={reports}"]
    command += [f"--select-{'method' if '#' in name else 'class'}={name}" for name in names]
    # The launcher selects classes by their names, and ours may end differently.
    command += ["--include-classname=.*"]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    with (directory / "junit.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(timeout_s)
        finally:
            # A test that failed or did not end has left a kafkalite behind.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return _read_reports(reports)


def _read_reports(directory: Path) -> Run:
    counts: dict[str, Counter[str]] = {}
    failures = []
    for report in sorted(directory.glob("*.xml")):
        for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - of our own run
            name = case.attrib["classname"]
            outcome, message = _outcome(case)
            counts.setdefault(name, Counter())[outcome] += 1
            if outcome == "failed":
                failures.append(f"{name}.{case.attrib['name']}: {message}")
    results = [
        Result(name, count["passed"], count["failed"], count["skipped"])
        for name, count in counts.items()
    ]
    return Run(results, failures)


def _outcome(case: ET.Element) -> tuple[str, str]:
    for tag in ("failure", "error"):
        found = case.find(tag)
        if found is not None:
            return "failed", found.get("message") or found.get("type") or ""
    return ("skipped" if case.find("skipped") is not None else "passed"), ""


def integration_classes() -> list[str]:
    """Return the full names of all classes of Kafka's integration tests, in order.

    Those of Streams and Connect have a cluster by their package, the others by `@ClusterTest`.
    """
    directory = dependencies(_JARS, _POM, None)
    names: set[str] = set()
    for jar in (jar for name in _TEST_JARS for jar in directory.glob(f"{name}-*-test.jar")):
        with zipfile.ZipFile(jar) as archive:
            for member in archive.namelist():
                name, _, suffix = member.rpartition(".")
                if suffix == "class" and _has_cluster(name, archive, member):
                    names.add(name.replace("/", "."))
    return sorted(names)


def _has_cluster(name: str, archive: zipfile.ZipFile, member: str) -> bool:
    if _EMBEDDED_CLUSTER.fullmatch(name):
        return True
    return name.endswith("Test") and _CLUSTER_TEST in archive.read(member)
