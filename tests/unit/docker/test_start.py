"""The start of a broker: arguments, topics, and errors with the names of variables."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
from typing import TYPE_CHECKING

import pytest

from kafkalite.cluster.cluster import TopicError
from kafkalite.docker.properties import VariableError
from kafkalite.docker.start import (
    plan_from,
    run,
    serve_arguments,
    topic_creator,
    with_own_variables,
    with_variables,
)
from kafkalite.docker.topics import TopicToCreate
from kafkalite.server.broker import Broker
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.metadata.image import MetadataImage


def test_own_variables_come_after_those_of_other_images() -> None:
    assert serve_arguments(
        {
            "KAFKA_NUM_PARTITIONS": "2",
            "KAFKALITE_CONFIG": "num.partitions=3",
            "CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw",
            "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092",
        },
        "box",
    ) == [
        "--config=advertised.listeners=PLAINTEXT://kafka:9092",
        "--config=num.partitions=2",
        "--config=listeners=PLAINTEXT://0.0.0.0:9092",
        "--cluster-id=5L6g3nShT-eMCtK--X86sw",
        "--log-level=warning",
        "--config=num.partitions=3",
    ]


def test_plan_has_the_topics_of_both_kinds_of_variables() -> None:
    plan = plan_from({"KAFKALITE_TOPICS": "a:1,b:2", "KAFKA_CREATE_TOPICS": "c:1:1"}, "box")
    assert plan.topics == ("a", "b", "c")
    assert [spec.name for spec in plan.settings.listeners] == ["OUTSIDE", "INSIDE"]


def test_plan_has_the_properties_of_a_file(tmp_path: Path) -> None:
    environment = {"KAFKALITE_ROOT": str(tmp_path)}
    plan = plan_from(environment, "box", {"listeners": "PLAINTEXT://:19092"})
    assert [spec.listen_address.port for spec in plan.settings.listeners] == [19092]


def created(*topics: TopicToCreate) -> MetadataImage:
    """Return the metadata of a broker that started twice with these topics."""

    async def start() -> MetadataImage:
        create = topic_creator(topics)
        broker = Broker(Settings(listen=["127.0.0.1:0"]), Log(Level.ERROR), prepare=create)
        await broker.start()
        try:
            create(broker)
            assert broker.cluster is not None
            return broker.cluster.metadata.image
        finally:
            await broker.stop()

    return asyncio.run(start())


def test_topics_are_created_with_their_policy() -> None:
    image = created(TopicToCreate("a", 2), TopicToCreate("b", 1, "compact"))
    assert {name: len(topic.partitions) for name, topic in image.topics.items()} == {"a": 2, "b": 1}


def test_invalid_name_of_a_topic_is_an_error() -> None:
    with pytest.raises(TopicError, match="KAFKA_CREATE_TOPICS: cannot create a b"):
        created(TopicToCreate("a b"))


def test_refused_environment_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run({"KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092"}, "box") == 2
    error = capsys.readouterr().err
    assert error.startswith("kafkalite: KAFKA_LISTENERS: no client can connect to 0.0.0.0")
    assert error.count("\n") == 1


def test_refused_configuration_names_its_variable(capsys: pytest.CaptureFixture[str]) -> None:
    assert run({"KAFKA_NUM_PARTITIONS": "many", "KAFKALITE_LISTEN": "127.0.0.1:0"}, "box") == 2
    error = capsys.readouterr().err
    assert "num.partitions" in error
    assert error.endswith("(set by KAFKA_NUM_PARTITIONS)\n")


def test_variables_without_effect_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    environment = {
        "KAFKALITE_TOPIC": "a:1",
        "KAFKA_FOO": "1",
        "KAFKA_NUM_PARTITIONS": "many",
        "KAFKALITE_LISTEN": "127.0.0.1:0",
    }
    assert run(environment, "box") == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "kafkalite: unknown variable KAFKALITE_TOPIC: did you mean KAFKALITE_TOPICS?"
    assert lines[1].startswith("kafkalite: KAFKA_FOO has no effect")


def test_error_without_a_property_has_no_variable() -> None:
    assert with_variables("x", {"a.b": "KAFKA_A_B"}) == "x"
    assert with_variables("a.b is wrong", {"a.b": "KAFKA_A_B"}) == "a.b is wrong (set by KAFKA_A_B)"


def test_variable_of_a_part_of_a_property_is_not_named() -> None:
    variables = {"b": "KAFKA_B", "a": "KAFKA_A", "a.b": "KAFKA_A_B"}
    assert with_variables("not a.b.", variables) == "not a.b. (set by KAFKA_A_B)"


def test_invalid_value_names_the_variable_of_the_image(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        run({"KAFKALITE_BROKERS": "three"}, "box")
    assert raised.value.code == 2
    assert capsys.readouterr().err == (
        "kafkalite: KAFKALITE_BROKERS: 'three' is not a number from 1 to 1000\n"
    )
    environment = {"KAFKALITE_USERS": "alice:secret", "KAFKALITE_LISTEN": "127.0.0.1:0"}
    assert run(environment, "box") == 2
    error = capsys.readouterr().err
    assert error.startswith("kafkalite: users (KAFKALITE_USERS) need a listener with SASL")
    assert "secret" not in error


def test_options_after_the_image_are_named_as_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run({}, "box", ["--brokers=three"])
    assert "argument --brokers: 'three'" in capsys.readouterr().err
    assert with_own_variables("use --tls auto", []) == "use KAFKALITE_TLS=auto"
    assert with_own_variables("use --tls auto", ["--tls=x"]) == "use --tls auto"


def test_directory_that_is_not_writable_is_explained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"KAFKALITE_LISTEN": "127.0.0.1:0", "KAFKALITE_DATA_DIR": str(tmp_path / "data")}

    def refuse(path: str, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "mkdir", refuse)
    monkeypatch.setattr(os, "makedirs", refuse)
    assert run(environment, "box") == 2
    error = capsys.readouterr().err
    assert re.search(r"Permission denied; the user \d+ of the container must be able", error)
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "OUTSIDE://0.0.0.0:9092",
            r"to 0\.0\.0\.0: set it to a host .* such as OUTSIDE://box:9092",
        ),
        ("${HOST}:9092", r"to \$\{HOST\}, which is not the name of a host"),
    ],
)
def test_own_advertised_address_that_no_client_reaches_is_refused(text: str, error: str) -> None:
    with pytest.raises(VariableError, match=f"KAFKALITE_ADVERTISE: no client can connect {error}"):
        plan_from({"KAFKALITE_ADVERTISE": text}, "box")


def test_own_advertised_address_may_have_the_port_of_the_listener() -> None:
    assert "--advertise=kafka:0" in plan_from({"KAFKALITE_ADVERTISE": "kafka:0"}, "box").arguments


def test_address_of_another_machine_names_its_variable(capsys: pytest.CaptureFixture[str]) -> None:
    environment = {
        "KAFKA_LISTENERS": "PLAINTEXT://192.0.2.1:9092",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092",
    }
    assert run(environment, "box") == 2
    assert capsys.readouterr().err.endswith(
        "(set by KAFKA_LISTENERS; write 0.0.0.0 for all addresses of the container)\n"
    )


def test_port_that_is_taken_names_its_variable(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        environment = {
            "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092",
        }
        assert run(environment, "box") == 2
    assert capsys.readouterr().err == (
        f"kafkalite: cannot listen on 127.0.0.1:{port}: address already in use "
        "(set by KAFKA_LISTENERS)\n"
    )
