"""Stand-ins for public images, made of Debian's packages because a registry may be unreachable.

The stand-in for `python:3.13-slim` has the same layout as the real image: `python` and `pip` are in
`/usr/local/bin`, and packages go to `/usr/local/lib/python3.13/site-packages`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.containers.debian import root_archive
from tests.oracle.requirements import UnavailableError

if TYPE_CHECKING:
    from tests.containers.engine import Engine

PYTHON = "docker.io/library/python:3.13-slim"
KCAT = "docker.io/edenhill/kcat:1.7.1"

_HERE = Path(__file__).parent
_BUILD_TIMEOUT_S = 600.0


def import_python(engine: Engine) -> None:
    """Make the stand-in for the image of Python if it is missing; raises UnavailableError."""
    if engine.has_image(PYTHON):
        return
    archive = root_archive()
    engine.run("import", "--change", 'CMD ["python3"]', archive, PYTHON)


def build_kcat(engine: Engine) -> str:
    """Return the name of the stand-in for the image of kcat; raises UnavailableError."""
    if not engine.has_image(KCAT):
        build(engine, _HERE / "kcat.Dockerfile", _HERE, KCAT)
    return KCAT


def build(engine: Engine, dockerfile: Path, context: Path, name: str, *options: str) -> None:
    """Build an image on the network of the host; raises UnavailableError with the last output."""
    # A machine behind a proxy has certificates and an index of its own.
    mounts = [
        f"--volume={path}:{path}:ro"
        for path in ("/etc/ssl/certs", "/etc/pip.conf")
        if Path(path).exists()
    ]
    # The format of OCI has no health check.
    settings = ["--format=docker", "--network=host", "--layers", *mounts]
    completed = engine.try_run(
        *["build", *settings, *options, f"--file={dockerfile}", f"--tag={name}", str(context)],
        timeout_s=_BUILD_TIMEOUT_S,
    )
    if completed.status != 0:
        raise UnavailableError(f"building {name} failed: {completed.errors[-1500:]}")
