"""The compose file and the Dockerfile, checked without a Docker engine."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
import yaml

from kafkalite.config.options import DEFAULT_CONTROL_PORT
from kafkalite.docker.install import ENTRYPOINT
from kafkalite.docker.own_variables import DEFAULT_LISTEN
from kafkalite.docker.start import serve_arguments
from kafkalite.server.settings import Settings
from tests.unit.docker.image import DOCKER, ROOT

COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
BROKER = COMPOSE["services"]["kafkalite"]
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
NOTHING_TESTED = 77


def options(name: str) -> tuple[str, ...]:
    """Return the values of an option in the variables of the compose file."""
    given = serve_arguments(BROKER["environment"], "unused")
    return tuple(each.split("=", 1)[1] for each in given if each.startswith(f"--{name}="))


def test_service_waits_for_a_healthy_broker() -> None:
    service = COMPOSE["services"]["service"]
    assert service["depends_on"] == {"kafkalite": {"condition": "service_healthy"}}
    assert BROKER["healthcheck"]["test"] == ["CMD", "kafkalite-entrypoint", "healthcheck"]
    assert options("topic")


def test_advertised_addresses_are_reachable_from_each_side() -> None:
    listeners = {
        spec.name: spec
        for spec in Settings(listen=options("listen"), advertise=options("advertise")).listeners
    }
    inside, outside = listeners["INSIDE"], listeners["OUTSIDE"]
    assert (
        str(inside.advertised_address(inside.listen_address.port, 0))
        == f"{BROKER['hostname']}:{inside.listen_address.port}"
    )
    assert (
        f"{BROKER['hostname']}:{inside.listen_address.port}"
        in COMPOSE["services"]["service"]["command"]
    )
    (mapping,) = BROKER["ports"]
    on_host, in_container = mapping.split(":")
    assert int(in_container) == outside.listen_address.port
    assert str(outside.advertised_address(outside.listen_address.port, 0)) == f"localhost:{on_host}"


def test_data_directory_is_on_a_volume() -> None:
    (mount,) = BROKER["volumes"]
    volume, path = mount.split(":")
    assert volume in COMPOSE["volumes"]
    assert options("data-dir")[0].startswith(path)


def test_image_does_not_run_as_root() -> None:
    users = re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)
    assert users
    assert users[-1] not in {"root", "0"}


def test_image_has_the_scripts_of_other_images_for_its_user() -> None:
    (user,) = re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)
    makes_root = (ROOT / "docker" / "root_file_system.py").read_text(encoding="utf-8")
    assert f"\nUSER = {user}\n" in makes_root
    assert f"python -m kafkalite.docker.install /root-file-system {user}\n" in DOCKERFILE
    assert f" /packages{ENTRYPOINT.removeprefix('/usr/local')}\n" in DOCKERFILE


def test_copied_files_exist_and_are_not_ignored() -> None:
    copied = re.findall(r"^COPY (?:--chmod=\S+ )?([^-].*) \S+$", DOCKERFILE, re.MULTILINE)
    paths = {path for each in copied for path in each.split()}
    allowed = (DOCKER / "Dockerfile.dockerignore").read_text().split()
    for path in paths:
        assert (ROOT / path).exists(), path
        assert f"!{path}" in allowed, path


def test_image_exposes_the_ports_of_its_listeners() -> None:
    exposed = re.findall(r"^EXPOSE (.+)$", DOCKERFILE, re.MULTILINE)[0].split()
    assert set(exposed) == {*re.findall(r":(\d+)", DEFAULT_LISTEN), str(DEFAULT_CONTROL_PORT)}


def smoke_test(subject: str, timeout_s: float) -> None:
    """Run the smoke test; skip the test without a Docker engine."""
    done = subprocess.run(
        [str(DOCKER / "smoke-test.sh"), subject],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode == NOTHING_TESTED:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr


def test_smoke_test_passes_where_a_docker_engine_runs() -> None:
    smoke_test("image", 300)


@pytest.mark.endurance
@pytest.mark.timeout(2000)  # it pulls the images of others
def test_recipes_pass_where_a_docker_engine_runs() -> None:
    smoke_test("recipes", 1900)
