"""Listeners: defaults of the images, and addresses that cannot be served."""

from __future__ import annotations

import pytest

from kafkalite.docker.listeners import complete_listeners, security_protocols
from kafkalite.docker.properties import Properties, VariableError, read_properties


def completed(**environment: str) -> Properties:
    properties = read_properties(environment, {})
    complete_listeners(properties, environment, "box")
    return properties


def addresses(**environment: str) -> tuple[str | None, str | None]:
    """Return the values of `listeners` and `advertised.listeners`."""
    values = completed(**environment).values
    return values.get("listeners"), values.get("advertised.listeners")


def test_no_variable_sets_no_listener() -> None:
    assert addresses(KAFKA_NUM_PARTITIONS="3") == (None, None)


def test_listeners_are_derived_from_advertised_listeners() -> None:
    assert addresses(KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://kafka:9092") == (
        "PLAINTEXT://0.0.0.0:9092",
        "PLAINTEXT://kafka:9092",
    )


def test_address_without_host_is_advertised_with_the_name_of_the_container() -> None:
    assert addresses(KAFKA_LISTENERS="PLAINTEXT://:9092") == (
        "PLAINTEXT://:9092",
        "PLAINTEXT://box:9092",
    )
    assert addresses(
        KAFKA_LISTENERS="PLAINTEXT://:9092", KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://:9092"
    ) == ("PLAINTEXT://:9092", "PLAINTEXT://box:9092")


def test_controller_is_not_advertised() -> None:
    listeners = "PLAINTEXT://:9092,CONTROLLER://:9093"
    assert addresses(KAFKA_LISTENERS=listeners, KAFKA_CONTROLLER_LISTENER_NAMES="CONTROLLER") == (
        listeners,
        "PLAINTEXT://box:9092",
    )


def test_bitnami_listens_on_its_default_port() -> None:
    assert addresses(KAFKA_CFG_ADVERTISED_LISTENERS="PLAINTEXT://127.0.0.1:19092") == (
        "PLAINTEXT://:9092,CONTROLLER://:9093",
        "PLAINTEXT://127.0.0.1:19092",
    )


def test_bitnami_listens_on_advertised_ports_of_other_names() -> None:
    assert addresses(
        KAFKA_CFG_ADVERTISED_LISTENERS="CLIENT://kafka:9092,EXTERNAL://localhost:9094",
        KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP="CLIENT:PLAINTEXT,EXTERNAL:PLAINTEXT",
    )[0] == "CLIENT://0.0.0.0:9092,EXTERNAL://0.0.0.0:9094"  # fmt: skip


@pytest.mark.parametrize(
    ("environment", "host"), [({"KAFKA_ADVERTISED_HOST_NAME": "docker"}, "docker"), ({}, "box")]
)
def test_advertised_port_has_port_9092_inside(environment: dict[str, str], host: str) -> None:
    assert addresses(KAFKA_ADVERTISED_PORT="9093", **environment) == (
        "PLAINTEXT://0.0.0.0:9092",
        f"PLAINTEXT://{host}:9093",
    )


def test_protocols_are_those_of_the_map_or_of_the_names() -> None:
    named = completed(KAFKA_LISTENERS="SSL://:9092")
    assert {name: each.value for name, each in security_protocols(named).items()} == {"SSL": "SSL"}
    mapped = completed(
        KAFKA_LISTENERS="A://:9092", KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="A:SASL_SSL"
    )
    assert security_protocols(mapped)["A"].uses_sasl


@pytest.mark.parametrize(
    ("environment", "error"),
    [
        ({"KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092"},
         ("KAFKA_LISTENERS: no client can connect to 0.0.0.0: set KAFKA_ADVERTISED_LISTENERS to a "
         "host that clients reach, such as PLAINTEXT://box:9092")),
        ({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://0.0.0.0:9092"},
         "KAFKA_ADVERTISED_LISTENERS: no client can connect to 0.0.0.0"),
        ({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:0"},
         "KAFKA_ADVERTISED_LISTENERS: no client can connect to port 0"),
        ({"KAFKA_ADVERTISED_LISTENERS": "kafka:9092"},
         "KAFKA_ADVERTISED_LISTENERS: 'kafka:9092' has no listener name"),
        ({"KAFKA_LISTENERS": "PLAINTEXT://kafka"},
         "KAFKA_LISTENERS: 'PLAINTEXT://kafka' is not an address"),
        ({"KAFKA_CFG_LISTENERS": "A://:9092"},
         ("has no protocol for the listener A of KAFKA_CFG_LISTENERS: add A:PROTOCOL, one of "
         "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL")),
        ({"KAFKA_LISTENERS": "A://:9092", "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "A:QUIC"},
         "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: .*'A:QUIC' is not NAME:PROTOCOL"),
        ({"KAFKA_LISTENERS": "PLAINTEXT://:9092", "KAFKA_ADVERTISED_LISTENERS": "SSL://a:9092"},
         "KAFKA_ADVERTISED_LISTENERS has the listener SSL, but KAFKA_LISTENERS has only PLAINTEXT"),
        ({"KAFKA_LISTENERS": "PLAINTEXT://:9092,PLAINTEXT://:9093"},
         "KAFKA_LISTENERS has two addresses of the listener PLAINTEXT"),
    ],
)  # fmt: skip
def test_listeners_that_cannot_be_served_are_refused(
    environment: dict[str, str], error: str
) -> None:
    with pytest.raises(VariableError, match=error) as raised:
        completed(**environment)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "host",
    ["$(hostname -i)", "${HOST_IP}", "_{HOSTNAME_COMMAND}", "ka fka", "caf\udce9", "a@b"],
)
def test_advertised_host_that_is_no_name_is_refused(host: str) -> None:
    with pytest.raises(VariableError, match="which is not the name of a host"):
        completed(KAFKA_ADVERTISED_LISTENERS=f"PLAINTEXT://{host}:9092")


@pytest.mark.parametrize("host", ["[fe80::1%eth0]", "my_kafka-1.example", "192.168.0.5", "bücher"])
def test_names_and_addresses_are_advertised(host: str) -> None:
    text = f"PLAINTEXT://{host}:9092"
    assert addresses(KAFKA_ADVERTISED_LISTENERS=text)[1] == text


def test_command_for_the_host_name_is_refused_unless_an_address_is_advertised() -> None:
    with pytest.raises(VariableError, match="HOSTNAME_COMMAND is not run here"):
        completed(HOSTNAME_COMMAND="hostname -i", KAFKA_LISTENERS="PLAINTEXT://:9092")
    assert addresses(HOSTNAME_COMMAND="x", KAFKA_ADVERTISED_HOST_NAME="kafka")[1] == (
        "PLAINTEXT://kafka:9092"
    )


def test_advertised_port_that_is_no_number_is_refused() -> None:
    with pytest.raises(VariableError, match="KAFKA_ADVERTISED_PORT: 'x' is not the number"):
        completed(KAFKA_ADVERTISED_HOST_NAME="kafka", KAFKA_ADVERTISED_PORT="x")


def test_listeners_of_controllers_only_are_refused() -> None:
    with pytest.raises(VariableError, match="KAFKA_LISTENERS has only listeners of controllers"):
        completed(
            KAFKA_LISTENERS="CONTROLLER://:9093", KAFKA_CONTROLLER_LISTENER_NAMES="CONTROLLER"
        )
