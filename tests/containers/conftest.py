"""The engine, the image and the networks that the tests of containers share."""

from __future__ import annotations

import itertools
import re
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from filelock import FileLock

from tests.containers.base_images import KCAT, PYTHON, build, build_kcat, import_python
from tests.containers.containers import Containers
from tests.containers.engine import check_engine, private_engine, remove_remains
from tests.oracle.requirements import (
    MissingProgramError,
    UnavailableError,
    cache_dir,
    required,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.containers.engine import Engine

ROOT = Path(__file__).parents[2]
IMAGE = "docker.io/library/kafkalite:latest"
"""The name to which engines expand `kafkalite`."""


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """Prepare the engine; one run at a time uses it, because compose files have fixed ports."""
    with _skipped_if_unusable():
        private = private_engine()
    with FileLock(cache_dir() / "containers.lock"):
        remove_remains(private)
        with _skipped_if_unusable():
            import_python(private)
            check_engine(private, PYTHON)
        yield private


@contextmanager
def _skipped_if_unusable() -> Iterator[None]:
    """Skip all tests on a machine where the body cannot prepare an engine."""
    try:
        yield
    except (MissingProgramError, UnavailableError, OSError, subprocess.TimeoutExpired) as reason:
        pytest.skip(f"no container engine: {reason}")


@pytest.fixture(scope="session")
def image(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Build the image by its Dockerfile, and return its name."""
    _build(engine, _dockerfile(), IMAGE, tmp_path_factory)
    # Recent layers are a cache of the next build.
    engine.run("image", "prune", "--force", "--filter=until=48h")
    return IMAGE


@pytest.fixture(scope="session")
def confluent_tag(engine: Engine, image: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the name of the image with a tag that modules compare with versions of Confluent.

    podman 4 reports each port that an image exposes as published, and the module of Node.js waits
    for all published ports. This image therefore exposes none.
    """
    name = image.replace(":latest", ":7.6.0")
    without = re.sub(r"^EXPOSE .*$", "", _dockerfile(), flags=re.MULTILINE)
    _build(engine, without, name, tmp_path_factory)
    return name.rpartition("/")[2]


def _dockerfile() -> str:
    return (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")


def _build(engine: Engine, text: str, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    dockerfile = tmp_path_factory.mktemp("image") / "Dockerfile"
    dockerfile.write_text(text, encoding="utf-8")
    ignored = ROOT / "docker" / "Dockerfile.dockerignore"
    with required():
        build(engine, dockerfile, ROOT, name, f"--ignorefile={ignored}")


@pytest.fixture(scope="session")
def kcat(engine: Engine) -> str:
    """Build the stand-in for the image of kcat, and return its name."""
    with required():
        build_kcat(engine)
    return KCAT


@pytest.fixture(scope="session")
def network(engine: Engine) -> Iterator[str]:
    """Create a network in which containers find each other by name."""
    name = "kafkalite-tests"
    engine.run("network", "create", name)
    yield name
    engine.run("network", "rm", "--force", name)


@pytest.fixture
def containers(engine: Engine, image: str) -> Iterator[Containers]:
    """Start containers of the image, and remove them after the test."""
    started = Containers(engine, image, (f"broker-{number}" for number in itertools.count(1)))
    yield started
    started.remove()


@pytest.fixture(scope="session")
def docker_host(engine: Engine) -> Iterator[str]:
    """Serve Docker's API, and return its address."""
    path = Path(engine.environment["CONTAINERS_CONF"]).with_name("docker.sock")
    path.unlink(missing_ok=True)
    address = f"unix://{path}"
    service = subprocess.Popen(
        [engine.podman, "system", "service", "--time=0", address],
        env=engine.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with service:
        try:
            while service.poll() is None:
                if engine.try_run("--remote", f"--url={address}", "version").status == 0:
                    break
            yield address
        finally:
            service.terminate()
