"""Every compose file of the project is started.

podman starts no health checks without systemd, and older ones do not wait for them. The tests
therefore run the health check themselves before they start the services that wait for it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.containers.clients import consume, produce
from tests.containers.containers import wait_for_line
from tests.containers.recipes import THIRD_PARTY_IMAGES, Project, Recipe, recipes
from tests.oracle.requirements import required
from tests.oracle.target import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.containers.engine import Engine

pytestmark = pytest.mark.container

RECIPES = recipes()


@pytest.fixture
def port() -> int:
    """Return a free port of the host."""
    return free_port()


@pytest.fixture(params=RECIPES, ids=[recipe.name for recipe in RECIPES])
def project(
    request: pytest.FixtureRequest, engine: Engine, image: str, tmp_path: Path, port: int
) -> Iterator[Project]:
    """Start the broker of a recipe, and remove all of it after the test."""
    assert image
    created = Project.create(engine, request.param, tmp_path, port)
    with required():
        created.run("version")
    try:
        created.up(created.recipe.broker)
        wait_for_line(engine, created.container(created.recipe.broker), "kafkalite is ready")
        yield created
    finally:
        created.run("down", "--volumes", "--timeout=0")


def test_recipe_starts(engine: Engine, project: Project, kcat: str, port: int) -> None:
    recipe = project.recipe
    broker = project.container(recipe.broker)
    engine.run("healthcheck", "run", broker)
    if recipe.clients:
        project.up(*recipe.clients)
    for client in recipe.clients:
        status = engine.run("wait", project.container(client))
        assert status == "0", engine.try_run("logs", project.container(client))

    _check_topics_from_the_host(port)
    inside = _address_inside(recipe)
    in_network = ["run", "--rm", f"--network={project.network}", kcat, "-b", inside]
    metadata = json.loads(engine.run(*in_network, "-L", "-J", "-t", "orders"))
    assert [node["name"] for node in metadata["brokers"]] == [inside]
    assert len(metadata["topics"][0]["partitions"]) == 3

    engine.run("stop", "--time=30", broker)
    assert engine.inspect(broker)["State"]["ExitCode"] == 0


def test_only_images_of_others_are_not_started() -> None:
    for recipe in RECIPES:
        started = {recipe.broker, *recipe.clients}
        omitted = {
            service["image"] for name, service in recipe.services.items() if name not in started
        }
        assert omitted <= THIRD_PARTY_IMAGES, recipe.name


def _check_topics_from_the_host(port: int) -> None:
    produce(f"localhost:{port}", "orders", [b"a"])
    assert consume(f"localhost:{port}", "orders", 1) == [b"a"]


def _address_inside(recipe: Recipe) -> str:
    """Return the address that the recipe's own clients use."""
    return "broker:19092" if recipe.broker == "broker" else f"{recipe.broker}:29092"


def test_every_recipe_is_found() -> None:
    names = {recipe.name.partition(":")[0] for recipe in RECIPES}
    assert {"docker/compose.yaml", "docker/compose.spark.yaml", "docs/how-to/compose.md"} <= names
