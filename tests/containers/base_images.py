"""Stand-ins for public images, made of Debian's packages because a registry may be unreachable.

The stand-in for `python:3.13-slim` has the same layout as the real image: `python` and `pip` are in
`/usr/local/bin`, and packages go to `/usr/local/lib/python3.13/site-packages`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.containers.debian import root_archive
from tests.oracle.jars import jar_directory
from tests.oracle.requirements import MissingProgramError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.containers.engine import Engine

PYTHON = "docker.io/library/python:3.13-slim"
KCAT = "docker.io/edenhill/kcat:1.7.1"
CURL = "docker.io/curlimages/curl:8.12.1"
KAFKA_RELEASE = "4.3.1"
KAFKA = f"docker.io/apache/kafka:{KAFKA_RELEASE}"

_HERE = Path(__file__).parent
_BUILD_TIMEOUT_S = 600.0


def import_python(engine: Engine) -> None:
    """Make the stand-in for the image of Python if it is missing.

    Raises MissingProgramError without debootstrap, and UnavailableError if it cannot be made.
    """
    if engine.has_image(PYTHON):
        return
    archive = root_archive()
    imported = engine.try_run("import", "--change", 'CMD ["python3"]', archive, PYTHON)
    if imported.status != 0:
        raise UnavailableError(f"podman stores no images here: {imported.errors[-500:]}")


def build_kcat(engine: Engine) -> None:
    """Make the stand-in for the image of kcat; raises UnavailableError."""
    build(engine, _HERE / "kcat.Dockerfile", _HERE, KCAT)


def build_curl(engine: Engine) -> None:
    """Make the stand-in for the image of curl; raises UnavailableError."""
    build(engine, _HERE / "curl.Dockerfile", _HERE, CURL)


def build_kafka(engine: Engine) -> None:
    """Make the stand-in for the image of Kafka, which has Connect.

    Raises MissingProgramError without the programs that fetch jars, and UnavailableError.
    """
    jars = f"--build-context=jars={jar_directory(KAFKA_RELEASE)}"
    build(engine, _HERE / "kafka" / "Dockerfile", _HERE / "kafka", KAFKA, jars)


THIRD_PARTY: Final[Mapping[str, Callable[[Engine], None]]] = {
    KCAT: build_kcat,
    CURL: build_curl,
    KAFKA: build_kafka,
}
"""Image of others → the function that makes its stand-in."""


def build(engine: Engine, dockerfile: Path, context: Path, name: str, *options: str) -> None:
    """Build an image on the network of the host.

    Raises UnavailableError with the last output, and MissingProgramError without package archives.
    """
    mounts = _mounts()
    # The format of OCI has no health check.
    settings = ["--format=docker", "--network=host", "--layers", *mounts]
    completed = engine.try_run(
        *["build", *settings, *options, f"--file={dockerfile}", f"--tag={name}", str(context)],
        timeout_s=_BUILD_TIMEOUT_S,
    )
    if completed.status != 0:
        _check_archives(engine)
        raise UnavailableError(f"building {name} failed: {completed.errors[-1500:]}")


def _mounts() -> list[str]:
    """Return options for a machine behind a proxy: it has certificates and an index of its own."""
    return [
        f"--volume={path}:{path}:ro"
        for path in ("/etc/ssl/certs", "/etc/pip.conf")
        if Path(path).exists()
    ]


def _check_archives(engine: Engine) -> None:
    """Raise MissingProgramError if a container cannot fetch packages of Debian and of Python."""
    for command in (
        ("apt-get", "update", "-qq", "--option=APT::Update::Error-Mode=any"),
        ("pip", "download", "-q", "--no-deps", "--no-cache-dir", "--dest=/tmp", "pip"),
    ):
        completed = engine.try_run("run", "--rm", "--network=host", *_mounts(), PYTHON, *command)
        if completed.status != 0:
            raise MissingProgramError(f"{command[0]} reaches no archive: {completed.errors[-500:]}")
