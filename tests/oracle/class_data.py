"""Archives of the classes of a broker, with which a JVM uses half the processor time to start.

A JVM loads and verifies each class that it uses. With class data sharing, it maps the classes of an
archive instead. Tools and clients find most of their classes in the archive, too. It fits one JVM
and one class path; the JVM loads all other classes as usual.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.oracle.build_cache import build_once, run_build
from tests.oracle.requirements import UnavailableError, program
from tests.oracle.target import free_port

if TYPE_CHECKING:
    from collections.abc import Sequence

SHARING = "-Xshare:auto"
"""The option of JVMs that may use an archive."""

_ARCHIVE = "broker.jsa"
_SILENT = "-Xlog:cds*=off"  # the JVM writes about archives to the output of the program
_READY = "Kafka Server started"
_CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
_STOP_TIMEOUT_S = 120.0


def archive_flags(name: str, classpath: str, flags: Sequence[str], version: str) -> tuple[str, ...]:
    """Return the options for a JVM with this class path; make the archive if it is not cached.

    `name` identifies the jars, `flags` are options of every JVM, and `version` is the output of
    `java -version`. Raises UnavailableError if the archive cannot be made.
    """

    def build(directory: Path) -> None:
        java = [program("java"), *flags, _SILENT, "-cp", classpath]
        _archive_broker(java, directory / "broker", directory / _ARCHIVE)

    digest = hashlib.sha256(version.encode()).hexdigest()[:8]
    directory = build_once(f"class-data-{name}-{digest}", [Path(__file__)], build)
    return (f"-XX:SharedArchiveFile={directory / _ARCHIVE}", _SILENT)


def _archive_broker(java: list[str], directory: Path, archive: Path) -> None:
    """Start and stop a broker, whose JVM then writes the classes that it has loaded."""
    directory.mkdir()
    properties = directory / "server.properties"
    properties.write_text(_properties(directory / "data"))
    storage = ["format", "--standalone", "-t", _CLUSTER_ID, "-c", str(properties)]
    run_build([*java, "kafka.tools.StorageTool", *storage], directory)
    command = [*java[:-2], f"-XX:ArchiveClassesAtExit={archive}", *java[-2:]]
    with subprocess.Popen(
        [*command, "kafka.Kafka", str(properties)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as broker:
        try:
            assert broker.stdout is not None
            output: list[str] = []
            for line in broker.stdout:
                output.append(line)
                if _READY in line:
                    broker.terminate()
            broker.wait(_STOP_TIMEOUT_S)
        finally:
            broker.kill()
    if not archive.exists():
        raise UnavailableError(f"the broker wrote no archive of classes: {''.join(output)[-800:]}")
    shutil.rmtree(directory)


def _properties(data: Path) -> str:
    broker, controller = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    listeners = f"PLAINTEXT://{broker},CONTROLLER://{controller}"
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": controller,
        "controller.listener.names": "CONTROLLER",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(data),
        "log.cleaner.dedupe.buffer.size": "2097152",
    }
    return "".join(f"{key}={value}\n" for key, value in properties.items())
