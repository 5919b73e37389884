"""The compose files: valid, with known variables and options; their own services run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from kafkalite.cli import process
from kafkalite.cli.parsing import CommandParser, new_parser
from kafkalite.cli.serve import add_options
from kafkalite.config.options import VARIABLE_PREFIX
from kafkalite.docker.own_variables import variables
from kafkalite.docker.start import plan_from
from kafkalite.server.logging import Level, Log
from tests.architecture.source import ROOT
from tests.docs.schemas import validate
from tests.unit.docker.image import DOCKER
from tests.unit.docker.recipes import RECIPES, Machine, Recipe, Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafkalite.server.settings import Settings

pytestmark = pytest.mark.endurance

_KAFKA_IMAGE = "apache/kafka"
_HOSTS_OF_ALL = {"0.0.0.0", "127.0.0.1", "localhost"}  # noqa: S104 - in compose files
SERVICES = [
    pytest.param(recipe, service, id=f"{recipe.name}: {service.name}")
    for recipe in RECIPES.values()
    for service in recipe.services.values()
]
for_services = pytest.mark.parametrize(("recipe", "service"), SERVICES)
for_recipes = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)


def is_broker(service: Service) -> bool:
    """Return whether a service runs a broker by the environment of the image."""
    if service.is_own:
        return not service.command or service.command[0].startswith("-")
    return service.content["image"].startswith(f"{_KAFKA_IMAGE}:") and not service.command


def settings_of(service: Service) -> Settings:
    """Return the settings of the broker that a service runs; SystemExit if an option is unknown."""
    plan = plan_from(service.environment, service.content.get("hostname", ""))
    assert plan.translation.notices == ()
    parser = CommandParser()
    add_options(parser)
    arguments = parser.parse_args([*plan.arguments, *service.command])
    return process.settings_from(arguments, Log(Level.ERROR))


def advertised_addresses(service: Service) -> set[str]:
    """Return the addresses at which other services reach a service."""
    if is_broker(service):
        settings = settings_of(service)
        addresses = {
            str(spec.advertised_address(spec.listen_address.port + node, node))
            for spec in settings.listeners
            for node in range(settings.brokers)
        }
        oidc = service.environment.get("KAFKALITE_OIDC")
        return addresses | ({oidc.replace("0.0.0.0", service.name)} if oidc else set())  # noqa: S104
    words = service.command
    return {words[index + 1] for index, word in enumerate(words) if word == "--advertise"}


def texts(service: Service) -> Iterator[str]:
    """Yield the command of a service, its variables, and the files that it mounts."""
    yield " ".join(service.command)
    yield from service.environment.values()
    for source in service.mounts.values():
        if source.startswith("./") and (DOCKER / source).is_dir():
            for file in (DOCKER / source).iterdir():
                if file.is_file():
                    yield file.read_text(encoding="utf-8")


@for_recipes
def test_recipe_matches_the_compose_specification(recipe: Recipe) -> None:
    validate(recipe.content, "compose-spec.json")


@for_recipes
def test_recipe_begins_with_its_purpose_and_its_command(recipe: Recipe) -> None:
    lines = (DOCKER / recipe.name).read_text(encoding="utf-8").splitlines()
    assert re.match(r"# [A-Z]", lines[0])
    assert f"#   docker compose -f docker/{recipe.name} up" in lines


@for_recipes
def test_recipe_is_in_the_guide(recipe: Recipe) -> None:
    assert f"`docker/{recipe.name}`" in (ROOT / "docs/how-to/compose.md").read_text("utf-8")


@for_recipes
def test_smoke_test_runs_the_recipe(recipe: Recipe) -> None:
    smoke_test = (DOCKER / "smoke-test.sh").read_text(encoding="utf-8")
    assert re.search(rf"^ *(?:begin |recipe=){re.escape(recipe.name)}$", smoke_test, re.MULTILINE)


@for_services
def test_image_of_others_has_a_release(recipe: Recipe, service: Service) -> None:
    if service.is_own:
        assert any("build" in other.content for other in recipe.services.values())
    else:
        assert re.fullmatch(r"[\w./-]+:[\w.-]*\d[\w.-]*", service.content["image"])


@for_services
def test_variables_are_known(recipe: Recipe, service: Service) -> None:
    own = {name for name in service.environment if name.startswith(VARIABLE_PREFIX)}
    assert own <= set(variables()), recipe.name
    if is_broker(service):
        assert settings_of(service).listeners


@for_services
def test_command_has_known_options(recipe: Recipe, service: Service) -> None:
    if service.is_own and service.command[:1] == ["kafkalite"]:
        assert new_parser(service.command[1:]).parse_args(service.command[1:]), recipe.name


@for_services
def test_service_waits_for_healthy_services(recipe: Recipe, service: Service) -> None:
    for name, rule in service.content.get("depends_on", {}).items():
        assert rule == {"condition": "service_healthy"}
        assert recipe.services[name].content["healthcheck"]["test"]
    if service.is_own:
        # The health check of the image is for a broker.
        assert is_broker(service) or "healthcheck" in service.content


@for_services
def test_mounted_files_and_volumes_exist(recipe: Recipe, service: Service) -> None:
    for source in service.mounts.values():
        if source.startswith("."):
            assert (DOCKER / source).exists() or source == "./findings"
        else:
            assert source in recipe.content["volumes"]


@for_services
def test_addresses_of_services_are_advertised(recipe: Recipe, service: Service) -> None:
    served = {
        name: advertised_addresses(other)
        for name, other in recipe.services.items()
        if is_broker(other) or "--advertise" in other.command
    }
    for text in texts(service):
        for host, port in re.findall(r"\b([a-z][a-z-]*):(\d{4,5})\b", text):
            if host in served:
                assert f"{host}:{port}" in served[host], text


@for_services
def test_published_ports_are_those_that_the_host_can_reach(
    recipe: Recipe, service: Service
) -> None:
    if not is_broker(service):
        return
    published = {
        int(port) + offset
        for mapping in service.content.get("ports", ())
        for first, last in [(mapping.split(":")[-2].split("-") * 2)[:2]]
        for port in [first]
        for offset in range(int(last) - int(first) + 1)
    }
    for address in advertised_addresses(service):
        host, _, port = address.rpartition(":")
        if host in _HOSTS_OF_ALL:
            assert int(port) in published, recipe.name


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Callable[[str], Machine]]:
    """Return a function that runs services of a recipe; they are stopped after the test."""
    machines = []

    def start(name: str) -> Machine:
        machines.append(Machine(RECIPES[name], tmp_path))
        return machines[-1]

    yield start
    for each in machines:
        each.stop()


def bootstrap(machine: Machine, service: str = "kafkalite") -> str:
    return machine.text(service, f"{service}:29092")


@pytest.mark.parametrize("name", ["compose.yaml", "compose.ui.yaml", "compose.connect.yaml",
                                  "compose.spark.yaml"])  # fmt: skip
def test_broker_of_the_recipe_is_healthy(machine: Callable[[str], Machine], name: str) -> None:
    started = machine(name)
    started.start("kafkalite")
    started.check_health("kafkalite")
    listed = started.run("kafkalite", ["kafka-topics", "--bootstrap-server", bootstrap(started),
                                       "--list"])  # fmt: skip
    assert "orders" in listed.stdout.split()


@pytest.mark.client
def test_three_nodes_hold_the_topic_and_one_may_stop(machine: Callable[[str], Machine]) -> None:
    started = machine("compose.three-nodes.yaml")
    started.start("kafkalite")
    started.check_health("kafkalite")
    servers = started.text("service", started.recipe.services["service"].command[1])
    producer = Producer({"bootstrap.servers": servers})
    metadata = producer.list_topics("orders", timeout=30)
    assert sorted(metadata.brokers) == [1, 2, 3]
    assert [sorted(each.replicas) for each in metadata.topics["orders"].partitions.values()] == [
        [1, 2, 3]
    ] * 3
    assert started.run("kafkalite", ["kafkalite", "node", "stop", "2"]).returncode == 0
    for partition in range(3):
        producer.produce("orders", b"two apples", partition=partition)
    assert producer.flush(30) == 0


@pytest.mark.client
def test_secured_broker_accepts_its_password_and_its_tokens_only(
    machine: Callable[[str], Machine],
) -> None:
    started = machine("compose.secured.yaml")
    started.start("kafkalite")
    started.check_health("kafkalite")
    words = [
        started.text("password-client", word)
        for word in started.recipe.services["password-client"].command
    ]
    pairs = [word.split("=", 1) for word in words if "=" in word]
    settings: dict[str, Any] = dict(pairs)
    settings["bootstrap.servers"] = words[1]
    with_password = AdminClient(settings)
    assert len(with_password.list_topics("orders", timeout=30).topics["orders"].partitions) == 3

    properties = dict(
        line.split("=", 1)
        for line in (DOCKER / "secured/token.properties").read_text("utf-8").splitlines()
        if "=" in line
    )
    (client_id,) = re.findall(r'clientId="(.+?)"', properties["sasl.jaas.config"])
    (secret,) = re.findall(r'clientSecret="(.+?)"', properties["sasl.jaas.config"])
    endpoint = properties["sasl.oauthbearer.token.endpoint.url"]
    common = {
        "bootstrap.servers": words[1],
        "security.protocol": properties["security.protocol"],
        "ssl.ca.location": started.text("token-client", properties["ssl.truststore.location"]),
    }
    with_token = Producer(
        {
            **common,
            "sasl.mechanisms": properties["sasl.mechanism"],
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": started.text("token-client", endpoint),
            "sasl.oauthbearer.client.id": client_id,
            "sasl.oauthbearer.client.secret": secret,
        }
    )
    with_token.produce("orders", b"two apples")
    assert with_token.flush(30) == 0

    errors: list[KafkaError] = []
    refused = Producer({**settings, "sasl.password": "wrong", "error_cb": errors.append})
    while not errors:
        refused.poll(1)
    assert errors[0].code() == KafkaError._AUTHENTICATION


@pytest.mark.client
def test_capture_has_the_traffic_and_the_stand_in_its_records(
    machine: Callable[[str], Machine],
) -> None:
    # The real Kafka of the recipe is a container; kafkalite accepts its environment.
    started = machine("compose.capture.yaml")
    started.start("kafka")
    started.start("capture", "files in")
    started.check_health("capture")
    show = [started.text("show", word) for word in started.recipe.services["show"].command]
    assert started.run("show", show).stdout == ""
    producer = Producer({"bootstrap.servers": bootstrap(started, "capture")})
    producer.produce("orders", b"two apples")
    assert producer.flush(30) == 0
    started.stop()
    assert "Produce" in started.run("show", show).stdout
    started.start("stand-in")
    started.check_health("stand-in")
    read = started.run(
        "stand-in",
        ["kafka-console-consumer", "--bootstrap-server", bootstrap(started, "stand-in"),
         "--topic", "orders", "--from-beginning", "--max-messages", "1"],
    )  # fmt: skip
    assert read.stdout == "two apples\n"
