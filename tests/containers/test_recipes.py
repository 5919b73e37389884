"""Every compose file of the project is started.

podman starts no health checks without systemd, and older ones do not wait for them. The tests
therefore run the health check themselves before they start the services that wait for it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.containers.base_images import THIRD_PARTY
from tests.containers.clients import consume, produce
from tests.containers.recipes import NOT_STARTED, Project, recipes
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.containers.engine import Engine

pytestmark = pytest.mark.container

RECIPES = recipes()
CAPTURE = "docker/compose.capture.yaml"
CLUSTER = "docker/compose.cluster.yaml"
CONNECT = "docker/compose.connect.yaml"
SECURED = "docker/compose.secured.yaml"
THREE_NODES = "docker/compose.three-nodes.yaml"
_CA = "/var/lib/kafkalite/ca.pem"


@pytest.fixture
def project(request: pytest.FixtureRequest, engine: Engine, image: str, tmp_path: Path,
            ) -> Iterator[Project]:  # fmt: skip
    """Write a recipe for the tests, and remove all of it after the test."""
    assert image
    created = Project.create(engine, request.param, tmp_path)
    with required():
        created.run("version")
        for name in created.recipe.third_party_images:
            THIRD_PARTY[name](engine)
    try:
        yield created
    finally:
        created.remove()


def for_recipes(*names: str, omitted: Sequence[str] = ()) -> pytest.MarkDecorator:
    """Run a test with the recipes of these names, by default all."""
    selected = [
        recipe
        for recipe in RECIPES
        if (not names or recipe.name in names) and recipe.name not in omitted
    ]
    return pytest.mark.parametrize(
        "project", selected, ids=[recipe.name for recipe in selected], indirect=True
    )


@for_recipes(omitted=(CAPTURE, CLUSTER, SECURED))
def test_clients_use_the_broker_of_the_recipe(engine: Engine, project: Project, kcat: str) -> None:
    outputs = project.start()
    _check_cluster(project, kcat, ())
    servers = f"localhost:{project.port}"
    produce(servers, "orders", [b"from the host"])
    assert b"from the host" in consume(servers, "orders", _records(project) + 1)
    if project.recipe.name == THREE_NODES:
        _check_that_a_node_may_stop(project, outputs["service"])
    if project.recipe.name == CONNECT:
        _check_connector(project)
    _check_stop(engine, project)


@for_recipes(SECURED)
def test_clients_log_in_to_the_secured_broker(
    engine: Engine, project: Project, kcat: str, tmp_path: Path
) -> None:
    outputs = project.start()
    assert "PartitionCount: 3" in outputs["token-client"]
    command = project.recipe.services["password-client"]["command"]
    options = [word for word in command if "=" in word]
    login = [word for option in options for word in ("-X", option)]
    _check_cluster(project, kcat, login)
    certificate = tmp_path / "ca.pem"
    engine.run("cp", f"{project.container(project.recipe.broker)}:{_CA}", certificate)
    settings: dict[str, str | bool] = dict(option.split("=", 1) for option in options)
    settings["ssl.ca.location"] = str(certificate)
    produce(f"localhost:{project.port}", "orders", [b"a"], **settings)
    assert consume(f"localhost:{project.port}", "orders", 1, **settings) == [b"a"]
    _check_stop(engine, project)


@for_recipes(CAPTURE)
def test_capture_of_a_real_kafka_is_shown_and_served(engine: Engine, project: Project) -> None:
    outputs = project.start()
    assert outputs["service"] == "two apples"
    _check_stop(engine, project)
    assert "Produce" in project.run("--profile=show", "run", "--rm", "--no-deps", "show")
    project.up("stand-in", profile="stand-in")
    project.wait_until_healthy("stand-in")
    assert consume(f"localhost:{project.port}", "orders", 1) == [b"two apples"]


def _check_cluster(project: Project, kcat: str, login: Sequence[str]) -> None:
    """Check the nodes and the topic that a client in another container sees."""
    expected = _expected(project)
    volumes = [
        f"--volume={project.name}_{volume}"
        for volume in project.recipe.services.get("password-client", {}).get("volumes", ())
    ]
    client = ["run", "--rm", f"--network={project.network}", *volumes, kcat, *login]
    listed = project.engine.run(*client, "-b", expected.addresses[0], "-L", "-J", "-t", "orders")
    metadata = json.loads(listed)
    assert [node["name"] for node in metadata["brokers"]] == expected.addresses
    partitions = metadata["topics"][0]["partitions"]
    assert len(partitions) == expected.partitions
    assert all(len(each["replicas"]) == len(expected.addresses) for each in partitions)


class _Cluster(NamedTuple):
    """The addresses of the nodes for other containers, and the partitions of `orders`."""

    addresses: list[str]
    partitions: int


def _expected(project: Project) -> _Cluster:
    """Return the cluster that a recipe describes."""
    recipe = project.recipe
    variables = recipe.services[recipe.broker]["environment"]
    first = 19092 if "KAFKA_LISTENERS" in variables else 29092
    nodes = variables.get("KAFKALITE_BROKERS", 1)
    ((count,),) = [re.findall(r"orders(?::| .*--partitions )(\d+)", recipe.text)[:1]]
    addresses = [f"{recipe.broker}:{first + offset}" for offset in range(nodes)]
    return _Cluster(addresses, int(count))


def _records(project: Project) -> int:
    """Return the number of records that the services of a recipe write."""
    return 2 if project.recipe.name == CONNECT else 0


def _check_that_a_node_may_stop(project: Project, listed: str) -> None:
    assert listed.count("isrs: ") == 3
    project.exec("kafkalite", "kafkalite", "node", "stop", "2")
    servers = f"localhost:{project.port}"
    produce(servers, "orders", [str(number).encode() for number in range(20)], acks="all")
    assert len(consume(servers, "orders", 21)) == 21


def _check_connector(project: Project) -> None:
    lines = project.exec(
        "kafkalite", "kafka-console-consumer", "--bootstrap-server", "kafkalite:29092",
        "--topic", "orders", "--from-beginning", "--max-messages", "2",
    )  # fmt: skip
    assert lines.splitlines() == ["two apples", "a pear"]


def _check_stop(engine: Engine, project: Project) -> None:
    container = project.container(project.recipe.broker)
    engine.run("stop", "--time=30", container)
    assert engine.inspect(container)["State"]["ExitCode"] == 0


def test_every_image_of_others_has_a_stand_in_or_a_reason() -> None:
    for recipe in RECIPES:
        assert recipe.third_party_images <= THIRD_PARTY.keys(), recipe.name
    images = {service["image"] for recipe in RECIPES for service in recipe.services.values()}
    assert images >= NOT_STARTED.keys()


def test_every_recipe_is_found() -> None:
    names = {recipe.name.partition(":")[0] for recipe in RECIPES}
    assert names >= {"docker/compose.yaml", "docs/how-to/compose.md", CAPTURE, CONNECT, SECURED}
