"""The compose files of the project and of its pages, and the command that starts them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from tests.architecture.source import ROOT
from tests.containers.base_images import KCAT
from tests.docs.blocks import Kind, blocks_of
from tests.oracle.requirements import program

if TYPE_CHECKING:
    from tests.containers.engine import Engine

_TIMEOUT_S = 120.0
_IMAGE = "kafkalite"
_PORT = 9092
"""The port of the host in every recipe."""

THIRD_PARTY_IMAGES = {"apache/spark:4.0.0-python3", "python:3.13-slim", "your-service"}
"""Images of services that the tests do not start: they cannot be built here, or are a reader's."""


class Recipe(NamedTuple):
    """One compose file."""

    name: str
    text: str

    @property
    def services(self) -> dict[str, Any]:
        """Return the definitions of the services."""
        services: dict[str, Any] = yaml.safe_load(self.text)["services"]
        return services

    @property
    def broker(self) -> str:
        """Return the name of the first service, which is the broker in every recipe."""
        return next(iter(self.services))

    @property
    def clients(self) -> list[str]:
        """Return the names of the other services that can be started here."""
        available = (_IMAGE, KCAT.removeprefix("docker.io/"))
        return [
            name
            for name, service in self.services.items()
            if name != self.broker and service["image"] in available
        ]


def recipes() -> list[Recipe]:
    """Return all compose files in the repository, and all in its pages."""
    files = [*ROOT.glob("docker/compose*.yaml"), *ROOT.glob("examples/**/compose*.yaml")]
    return [
        *(Recipe(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in files),
        *(Recipe(block.name, block.text) for block in blocks_of(Kind.COMPOSE)),
    ]


class Project(NamedTuple):
    """A recipe whose containers have names of the tests, and another port of the host."""

    engine: Engine
    recipe: Recipe
    file: Path
    name: str

    @classmethod
    def create(cls, engine: Engine, recipe: Recipe, directory: Path, port: int) -> Project:
        """Write the recipe; another program may use its port, so it gets this one."""
        file = directory / "compose.yaml"
        text = recipe.text.replace(f"localhost:{_PORT}", f"localhost:{port}")
        definition = yaml.safe_load(text.replace(f'"{_PORT}:', f'"{port}:'))
        broker = definition["services"][recipe.broker]
        # podman 4 refuses this setting of Docker 25.
        broker.get("healthcheck", {}).pop("start_interval", None)
        variables = broker.setdefault("environment", {})
        if f"localhost:{port}" not in str(variables):
            advertised = f"OUTSIDE://localhost:{port},INSIDE://{recipe.broker}:29092"
            variables["KAFKALITE_ADVERTISE"] = advertised
        file.write_text(yaml.safe_dump(definition), encoding="utf-8")
        return cls(engine, recipe, file, "recipe")

    def run(self, *arguments: str) -> None:
        """Run podman-compose; raises MissingProgramError, or AssertionError if it fails."""
        command = program(str(Path(sys.executable).parent / "podman-compose"))
        completed = subprocess.run(
            [command, f"--project-name={self.name}", f"--file={self.file}", *arguments],
            env=self.engine.environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        assert completed.returncode == 0, completed.stdout + completed.stderr

    def up(self, *services: str) -> None:
        """Start services in the background; their images exist."""
        self.run("up", "--detach", "--no-build", *services)

    def container(self, service: str) -> str:
        """Return the name of a service's container."""
        return f"{self.name}_{service}_1"

    @property
    def network(self) -> str:
        """Return the name of the network of all services."""
        return f"{self.name}_default"
