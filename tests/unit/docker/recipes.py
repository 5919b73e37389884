"""The compose files in `docker/`, and their services as programs of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from kafkalite.docker import install
from tests.oracle.target import free_port
from tests.unit.docker.image import DOCKER, ENTRYPOINT, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

IMAGE = "kafkalite"
_PORTS_OF_A_SERVICE = 8
_OWN_HOSTS = ("0.0.0.0", "127.0.0.1", "localhost")  # noqa: S104 - in compose files


class Service(NamedTuple):
    """A service of a recipe."""

    name: str
    content: dict[str, Any]

    @property
    def environment(self) -> dict[str, str]:
        """Return its variables; YAML has numbers for some of them."""
        return {name: str(value) for name, value in self.content.get("environment", {}).items()}

    @property
    def command(self) -> list[str]:
        """Return its command, none if it is that of the image."""
        return [str(word) for word in self.content.get("command", ())]

    @property
    def mounts(self) -> dict[str, str]:
        """Return path in the container → volume or directory of the host."""
        mounts = [mount.split(":") for mount in self.content.get("volumes", ())]
        return {path: source for source, path, *_ in mounts}

    @property
    def is_own(self) -> bool:
        """Return whether it runs the image of this project."""
        return bool(self.content["image"] == IMAGE)


class Recipe(NamedTuple):
    """A compose file."""

    name: str
    content: dict[str, Any]

    @property
    def services(self) -> dict[str, Service]:
        """Return its services by name."""
        return {name: Service(name, content) for name, content in self.content["services"].items()}


def _recipes() -> Iterator[Recipe]:
    for path in sorted(DOCKER.glob("compose*.yaml")):
        yield Recipe(path.name, yaml.safe_load(path.read_text(encoding="utf-8")))


RECIPES = {recipe.name: recipe for recipe in _recipes()}


class Machine:
    """Runs services of a recipe on this machine, with free ports and a directory for volumes."""

    def __init__(self, recipe: Recipe, directory: Path) -> None:
        self.recipe = recipe
        self._directory = directory
        self._root = directory / "root"
        self._write_programs()
        self._ports: dict[tuple[str, int], int] = {}
        self._processes: list[subprocess.Popen[str]] = []

    def _write_programs(self) -> None:
        install.install(self._root)
        shutil.copy(ENTRYPOINT, self._root / install.ENTRYPOINT.lstrip("/"))
        self._programs = self._root / "usr" / "local" / "bin"
        command = self._programs / "kafkalite"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m kafkalite "$@"\n', "utf-8")
        for program in (command, self._root / install.ENTRYPOINT.lstrip("/")):
            program.chmod(0o755)

    def port(self, service: str, port: int) -> int:
        """Return the port of this machine for one of a service.

        Ports after the first one of a listener are in a row, as those of several nodes are.
        """
        for known, here in self._ports.items():
            if known[0] == service and 0 <= port - known[1] < _PORTS_OF_A_SERVICE:
                return here + port - known[1]
        taken = _PORTS_OF_A_SERVICE * len(self._ports)
        first = free_port(taken + _PORTS_OF_A_SERVICE) + taken
        self._ports[service, port] = first
        return first

    def path(self, service: str, path: str) -> Path | None:
        """Return the path on this machine of a path below a mount of a service."""
        for mount, source in self.recipe.services[service].mounts.items():
            if path == mount or path.startswith(f"{mount}/"):
                base = DOCKER / source if source.startswith(".") else self._directory / source
                base.mkdir(exist_ok=True)
                return base / path.removeprefix(mount).lstrip("/")
        return None

    def text(self, service: str, text: str) -> str:
        """Return a text of a service with the addresses and paths of this machine."""
        names = "|".join(re.escape(name) for name in (*self.recipe.services, *_OWN_HOSTS))

        def address(match: re.Match[str]) -> str:
            host, port = match[1], int(match[2])
            own = host in _OWN_HOSTS
            return f"127.0.0.1:{self.port(service if own else host, port)}"

        text = re.sub(rf"(?<![\w.-])({names}):(\d{{4,5}})", address, text)
        mounts = "|".join(map(re.escape, self.recipe.services[service].mounts)) or "(?!)"
        return re.sub(
            rf"(?<![\w.])(?:{mounts})(?:/[\w./-]*)?(?![\w-])",
            lambda match: str(self.path(service, match[0])),
            text,
        )

    def environment(self, service: str) -> dict[str, str]:
        """Return the variables of a service, for a program of this machine."""
        return {
            "PATH": f"{self._programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "KAFKALITE_ROOT": str(self._root),
            **{
                name: self.text(service, value)
                for name, value in self.recipe.services[service].environment.items()
            },
        }

    def run(self, service: str, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command in the environment of a service, as `docker compose exec` does."""
        return subprocess.run(
            command,
            cwd=self._directory,
            env=self.environment(service),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def check_health(self, service: str) -> None:
        """Run the health check of a service; AssertionError if it is not healthy."""
        kind, *command = self.recipe.services[service].content["healthcheck"]["test"]
        assert kind == "CMD"
        done = self.run(service, [self._inline(service, word) for word in command])
        assert done.returncode == 0, done.stderr

    def _inline(self, service: str, word: str) -> str:
        """Return a word with the port of this machine also in a Python address."""
        word = self.text(service, word)
        return re.sub(
            r"'localhost', (\d+)",
            lambda match: f"'127.0.0.1', {self.port(service, int(match[1]))}",
            word,
        )

    def start(self, service: str, ready: str = "kafkalite is ready") -> None:
        """Start a service, and wait until it prints a line with this text."""
        command = [self.text(service, word) for word in self.recipe.services[service].command]
        process = subprocess.Popen(
            [self._programs / "kafkalite-entrypoint", *command],
            cwd=self._directory,
            env=self.environment(service),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        for line in process.stdout:
            if ready in line:
                self._processes.append(process)
                return
        raise AssertionError(f"{service} ended with status {process.wait()}")

    def stop(self) -> None:
        """Stop all services, the last one first."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            assert process.stdout is not None
            process.stdout.close()
            assert process.wait(10) == 0
        self._processes.clear()
