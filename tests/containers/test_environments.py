"""Containers with the environments of other Kafka images become healthy and have their topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.docker.environments import FORMS, HOSTNAME, Form

if TYPE_CHECKING:
    from pathlib import Path

    from tests.containers.containers import Containers
    from tests.containers.engine import Engine

pytestmark = pytest.mark.container

HOSTS = ("--add-host=broker:127.0.0.1", "--add-host=kafka:127.0.0.1")
"""Names of services, which the network of a compose file resolves."""


def options(form: Form, directory: Path) -> list[str]:
    """Return the options of the container that a form describes."""
    mounts = []
    for number, (path, text) in enumerate(form.files.items()):
        file = directory / str(number)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o644)
        mounts.append(f"--volume={file}:{path}:ro")
    variables = [f"--env={name}={value}" for name, value in form.environment.items()]
    return [f"--hostname={HOSTNAME}", *HOSTS, *mounts, *variables]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.image.value}: {form.name}")
def test_container_becomes_healthy_and_has_its_topics(
    engine: Engine, containers: Containers, tmp_path: Path, form: Form
) -> None:
    name = containers.start(*options(form, tmp_path))
    engine.run("healthcheck", "run", name)
    if form.login is None and form.topics:
        listed = engine.run(
            "exec", name, "kafka-topics", "--list", "--bootstrap-server", "localhost:9092"
        )
        assert set(form.topics) <= set(listed.splitlines())
