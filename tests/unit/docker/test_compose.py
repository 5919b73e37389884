"""The compose file and the Dockerfile say what the README promises, without an engine to ask."""

from __future__ import annotations

import json
import re
import subprocess
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
import yaml

from kafkalite.control.address import DEFAULT_PORT
from kafkalite.server.settings import Settings
from tests.unit.docker.image import DOCKER, ROOT, load_entrypoint

COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
BROKER = COMPOSE["services"]["kafkalite"]
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
NOTHING_TESTED = 77


def options(name: str) -> tuple[str, ...]:
    """Return what the broker's variables in the compose file say for one option."""
    given: list[str] = load_entrypoint().serve_arguments(BROKER["environment"], "unused")
    return tuple(each.split("=", 1)[1] for each in given if each.startswith(f"--{name}="))


def test_the_compose_file_follows_the_compose_specification() -> None:
    vendored = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    schema = json.loads(vendored.read_text(encoding="utf-8"))
    jsonschema.validate(COMPOSE, schema)


def test_a_service_waits_until_the_broker_is_healthy() -> None:
    service = COMPOSE["services"]["service"]
    assert service["depends_on"] == {"kafkalite": {"condition": "service_healthy"}}
    assert BROKER["healthcheck"]["test"] == ["CMD", "kafkalite-entrypoint", "healthcheck"]
    assert options("topic")


def test_each_side_is_told_an_address_that_it_can_reach() -> None:
    listeners = {
        spec.name: spec
        for spec in Settings(listen=options("listen"), advertise=options("advertise")).listeners
    }
    inside, outside = listeners["INSIDE"], listeners["OUTSIDE"]
    assert str(inside.told(inside.listen.port, 0)) == f"{BROKER['hostname']}:{inside.listen.port}"
    assert f"{BROKER['hostname']}:{inside.listen.port}" in COMPOSE["services"]["service"]["command"]
    (mapping,) = BROKER["ports"]
    on_host, in_container = mapping.split(":")
    assert int(in_container) == outside.listen.port
    assert str(outside.told(outside.listen.port, 0)) == f"localhost:{on_host}"


def test_data_is_kept_on_a_volume() -> None:
    (mount,) = BROKER["volumes"]
    volume, path = mount.split(":")
    assert volume in COMPOSE["volumes"]
    assert options("data-dir")[0].startswith(path)


def test_the_image_does_not_run_as_root() -> None:
    users = re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)
    assert users
    assert users[-1] not in {"root", "0"}


def test_what_the_image_copies_is_there_and_let_through() -> None:
    copied = re.findall(r"^COPY (?:--\S+ )*(.+) \S+$", DOCKERFILE, re.MULTILINE)
    paths = {path for each in copied for path in each.split()}
    allowed = (DOCKER / "Dockerfile.dockerignore").read_text().split()
    for path in paths:
        assert (ROOT / path).exists(), path
        assert f"!{path}" in allowed, path


def test_the_image_exposes_the_ports_that_are_listened_on() -> None:
    exposed = re.findall(r"^EXPOSE (.+)$", DOCKERFILE, re.MULTILINE)[0].split()
    defaults = load_entrypoint().DEFAULT_LISTEN
    assert set(exposed) == {*re.findall(r":(\d+)", defaults), str(DEFAULT_PORT)}


def test_the_smoke_test_tries_the_image_where_an_engine_runs() -> None:
    done = subprocess.run(
        [str(DOCKER / "smoke-test.sh")], capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode == NOTHING_TESTED:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
