"""A private container engine of the tests: podman with storage, networks and settings of its own.

Nothing is read from or written to the engine of the user: images with the names of public ones,
such as the stand-in for `python:3.13-slim`, exist in the storage of the tests only.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from tests.oracle.requirements import MissingProgramError, cache_dir, program

_CONTAINERS_CONF = """\
[containers]
# The engine of Debian 12 sets limits that a virtual machine may refuse.
default_ulimits = []
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
# A short name is one of this engine, not of a registry.
compat_api_enforce_docker_hub = false
tmp_dir = "{runtime}/tmp"
[network]
network_backend = "netavark"
network_config_dir = "{directory}/networks"
"""
_STORAGE_CONF = """\
[storage]
driver = "overlay"
graphroot = "{directory}/storage"
runroot = "{runtime}/run"
"""
_REGISTRIES_CONF = """\
unqualified-search-registries = ["docker.io"]
short-name-mode = "permissive"
"""
_PROGRAMS = ("podman", "runc", "debootstrap")
_FILES = ("/usr/lib/podman/netavark", "/usr/lib/podman/aardvark-dns")
COMMAND_TIMEOUT_S = 120.0


class Completed(NamedTuple):
    """The result of a command: its status, and its output without the last line break."""

    status: int
    output: str
    errors: str


class Engine(NamedTuple):
    """The podman command with the settings of the tests."""

    podman: str
    environment: dict[str, str]

    def try_run(
        self, *arguments: str | Path, timeout_s: float = COMMAND_TIMEOUT_S, stdin: str = ""
    ) -> Completed:
        """Run a podman command; raises subprocess.TimeoutExpired."""
        completed = subprocess.run(
            [self.podman, *map(str, arguments)],
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return Completed(
            completed.returncode, completed.stdout.rstrip("\n"), completed.stderr.rstrip("\n")
        )

    def run(
        self, *arguments: str | Path, timeout_s: float = COMMAND_TIMEOUT_S, stdin: str = ""
    ) -> str:
        """Return the output of a podman command; raises AssertionError if it fails."""
        completed = self.try_run(*arguments, timeout_s=timeout_s, stdin=stdin)
        assert completed.status == 0, f"podman {arguments}: {completed.output}\n{completed.errors}"
        return completed.output

    def has_image(self, name: str) -> bool:
        """Return whether an image of this name exists in the storage."""
        return self.try_run("image", "exists", name).status == 0

    def inspect(self, container: str) -> dict[str, Any]:
        """Return the description of a container or image."""
        described: list[dict[str, Any]] = json.loads(self.run("inspect", container))
        return described[0]


@functools.cache
def private_engine() -> Engine:
    """Return the engine; its images are in the cache directory.

    Raises MissingProgramError if a program is not installed or lacks the rights that it needs.
    """
    for name in _PROGRAMS:
        program(name)
    for file in _FILES:
        if not Path(file).exists():
            raise MissingProgramError(f"{file} is not installed")
    if os.geteuid() != 0:
        raise MissingProgramError("debootstrap and networks of containers need root")
    directory = cache_dir() / "containers"
    # podman compares these paths with those of its storage, so they are the same in every run.
    runtime = Path("/run") / f"kafkalite-tests-{zlib.crc32(bytes(directory)):08x}"
    for each in (directory / "networks", runtime / "tmp", runtime / "run"):
        each.mkdir(parents=True, exist_ok=True)
    settings = {
        "CONTAINERS_CONF": _CONTAINERS_CONF,
        "CONTAINERS_STORAGE_CONF": _STORAGE_CONF,
        "CONTAINERS_REGISTRIES_CONF": _REGISTRIES_CONF,
    }
    environment = dict(os.environ)
    for variable, text in settings.items():
        path = runtime / f"{variable.lower()}.conf"
        path.write_text(text.format(directory=directory, runtime=runtime), encoding="utf-8")
        environment[variable] = str(path)
    engine = Engine(program("podman"), environment)
    answer = engine.try_run("info")
    if answer.status != 0:
        raise MissingProgramError(f"podman does not run here: {answer.errors[-500:]}")
    return engine


def remove_remains(engine: Engine) -> None:
    """Remove the containers, networks and volumes of a killed run."""
    for container in engine.run("ps", "--all", "--quiet").split():
        # The first one may remove others, which depend on it.
        engine.run("rm", "--force", "--depend", "--ignore", "--volumes", "--time=0", container)
    engine.run("network", "prune", "--force")
    engine.run("volume", "prune", "--force")


def check_engine(engine: Engine, image: str) -> None:
    """Raise MissingProgramError if this machine cannot run a container, as in another container."""
    completed = engine.try_run("run", "--rm", image, "true")
    if completed.status != 0:
        raise MissingProgramError(f"podman runs no containers here: {completed.errors[-500:]}")
