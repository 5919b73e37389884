"""The compose files of the project and of its pages, and the command that starts them."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from tests.architecture.source import ROOT
from tests.docs.blocks import Kind, blocks_of
from tests.oracle.requirements import program
from tests.oracle.target import free_port

if TYPE_CHECKING:
    from tests.containers.engine import Engine

_TIMEOUT_S = 120.0
_IMAGE = "kafkalite"
_PORT = 9092
"""The port of the host for clients in every recipe that has one."""

NOT_STARTED = {
    "apache/spark:4.0.0-python3": "its job fetches Spark's Kafka source from Maven",
    "ghcr.io/kafbat/kafka-ui:v1.5.0": "no package registry has this program",
    "python:3.13-slim": "its command installs Spark",
    "your-service": "it is the reader's",
}
"""Images of services that the tests do not start, with the reason."""


class Recipe(NamedTuple):
    """One compose file."""

    name: str
    text: str
    directory: Path

    @property
    def services(self) -> dict[str, Any]:
        """Return the definitions of all services by name."""
        services: dict[str, Any] = yaml.safe_load(self.text)["services"]
        return services

    @property
    def broker(self) -> str:
        """Return the name of the first service with the image of kafkalite."""
        return next(name for name, each in self.services.items() if each["image"] == _IMAGE)

    @property
    def started(self) -> list[str]:
        """Return the names of services without a profile whose image exists, in the start order."""
        order = TopologicalSorter(
            {name: service.get("depends_on", ()) for name, service in self.services.items()}
        ).static_order()
        return [
            name
            for name in order
            if "profiles" not in self.services[name]
            and self.services[name]["image"] not in NOT_STARTED
        ]

    @property
    def awaited(self) -> set[str]:
        """Return the names of services for which others wait until they are healthy."""
        return {name for each in self.services.values() for name in each.get("depends_on", ())}

    @property
    def third_party_images(self) -> set[str]:
        """Return the full names of the images of others that the tests start."""
        images = {self.services[name]["image"] for name in self.started} - {_IMAGE}
        return {f"docker.io/{image}" for image in images}


def recipes() -> list[Recipe]:
    """Return all compose files in the repository, and all in its pages."""
    files = [*ROOT.glob("docker/compose*.yaml"), *ROOT.glob("examples/**/compose*.yaml")]
    return [
        *(
            Recipe(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"), path.parent)
            for path in sorted(files)
        ),
        *(Recipe(block.name, block.text, ROOT) for block in blocks_of(Kind.COMPOSE)),
    ]


class Project(NamedTuple):
    """A recipe whose containers have names of the tests, and other ports of the host."""

    engine: Engine
    recipe: Recipe
    file: Path
    name: str
    port: int
    """The port of the host for clients."""

    @classmethod
    def create(cls, engine: Engine, recipe: Recipe, directory: Path) -> Project:
        """Write the recipe; other programs may use its ports, so that it gets free ones."""
        file = directory / "compose.yaml"
        ports = _HostPorts(recipe)
        port = ports.of(_PORT)
        definition = yaml.safe_load(ports.in_text(recipe.text))
        for name, service in recipe.services.items():
            if "healthcheck" in service:  # it uses the ports in the container
                definition["services"][name]["healthcheck"] = service["healthcheck"]
        for service in definition["services"].values():
            if "ports" in service:
                service["ports"] = [ports.replace(mapping) for mapping in service["ports"]]
            if "volumes" in service:
                service["volumes"] = [
                    re.sub(r"^\.", str(recipe.directory / "."), mount, count=1)
                    for mount in service["volumes"]
                ]
        broker = definition["services"][recipe.broker]
        if "ports" in broker and f"localhost:{port}" not in str(broker):
            advertised = f"OUTSIDE://localhost:{port},INSIDE://{recipe.broker}:29092"
            broker["environment"]["KAFKALITE_ADVERTISE"] = advertised
        file.write_text(yaml.safe_dump(definition), encoding="utf-8")
        return cls(engine, recipe, file, "recipe", port)

    def run(self, *arguments: str) -> str:
        """Return the output of podman-compose.

        Raises MissingProgramError, or AssertionError if it fails.
        """
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
        return completed.stdout

    def up(self, *services: str, profile: str | None = None) -> None:
        """Start services in the background; their images exist."""
        profiles = () if profile is None else (f"--profile={profile}",)
        self.run(*profiles, "up", "--detach", "--no-build", *services)

    def remove(self) -> None:
        """Remove all containers, also those of services with profiles, and all volumes."""
        profiles = {
            profile
            for service in self.recipe.services.values()
            for profile in service.get("profiles", ())
        }
        options = [f"--profile={profile}" for profile in sorted(profiles)]
        self.run(*options, "down", "--volumes", "--timeout=0")

    def wait_until_healthy(self, service: str) -> None:
        """Run the health check of a service until it passes; raises AssertionError."""
        container = self.container(service)
        end_s = time.monotonic() + _TIMEOUT_S
        while (check := self.engine.try_run("healthcheck", "run", container)).status != 0:
            log = self.engine.try_run("logs", container)
            assert self.engine.inspect(container)["State"]["Running"], log
            assert time.monotonic() < end_s, (check, log)

    def wait_until_done(self, service: str) -> str:
        """Return the output of a service that ends with status 0; raises AssertionError."""
        container = self.container(service)
        status = self.engine.run("wait", container)
        log = self.engine.try_run("logs", container)
        assert status == "0", log
        return log.output

    def start(self) -> dict[str, str]:
        """Start all services that can be started; return the output of those that end."""
        outputs = {}
        for service in self.recipe.started:
            self.up(service)
            if service in self.recipe.awaited or service == self.recipe.broker:
                self.wait_until_healthy(service)
            else:
                outputs[service] = self.wait_until_done(service)
        return outputs

    def container(self, service: str) -> str:
        """Return the name of a service's container."""
        return f"{self.name}_{service}_1"

    def exec(self, service: str, *command: str) -> str:
        """Return the output of a command in the container of a service."""
        return self.engine.run("exec", self.container(service), *command)

    @property
    def network(self) -> str:
        """Return the name of the network of all services."""
        return f"{self.name}_default"


class _HostPorts:
    """Free ports of the host in place of those of a recipe; ports in a row stay in a row."""

    def __init__(self, recipe: Recipe) -> None:
        mappings = [
            mapping for service in recipe.services.values() for mapping in service.get("ports", ())
        ]
        ranges = [_ports_of_the_host(mapping) for mapping in mappings]
        ports = sorted({_PORT, *(port for each in ranges for port in each)})
        first = free_port(len(ports))
        self._ports = {port: first + offset for offset, port in enumerate(ports)}

    def of(self, port: int) -> int:
        return self._ports[port]

    def in_text(self, text: str) -> str:
        """Return a text with other ports of the host after `localhost`."""
        return re.sub(
            r"(?<=localhost:)\d+",
            lambda match: str(self._ports.get(int(match[0]), match[0])),
            text,
        )

    def replace(self, mapping: str) -> str:
        """Return a mapping such as `127.0.0.1:9092-9094:9092-9094` with other ports of the host."""
        *address, _, inside = mapping.split(":")
        published = _ports_of_the_host(mapping)
        first, last = self.of(published[0]), self.of(published[-1])
        outside = str(first) if first == last else f"{first}-{last}"
        return ":".join((*address, outside, inside))


def _ports_of_the_host(mapping: str) -> range:
    first, _, last = mapping.split(":")[-2].partition("-")
    return range(int(first), int(last or first) + 1)
