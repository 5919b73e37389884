"""Variables KAFKALITE_* become options of `kafkalite serve`."""

from __future__ import annotations

from kafkalite.docker.own_variables import find_misspelt_variables, own_arguments


def options(**environment: str) -> list[str]:
    return own_arguments(environment, "container-1")


def test_default_listeners_are_for_the_host_and_the_network() -> None:
    assert options() == [
        "--listen=OUTSIDE://0.0.0.0:9092",
        "--listen=INSIDE://0.0.0.0:29092",
        "--advertise=OUTSIDE://localhost:9092",
        "--advertise=INSIDE://container-1:29092",
    ]


def test_there_are_no_default_listeners_if_other_variables_have_listeners() -> None:
    assert own_arguments({"KAFKALITE_BROKERS": "3"}, "c", has_listeners=True) == ["--brokers=3"]


def test_variables_become_options() -> None:
    assert options(
        KAFKALITE_LISTEN="A://0.0.0.0:1, B://0.0.0.0:2",
        KAFKALITE_ADVERTISE="A://a:1 B://b:2",
        KAFKALITE_TOPICS="orders:3,audit:1",
        KAFKALITE_BROKERS="3",
        KAFKALITE_DATA_DIR="/data",
        KAFKALITE_CLUSTER_ID="5L6g3nShT-eMCtK--X86sw",
        KAFKALITE_CONFIG="log.cleanup.policy=compact,delete; num.partitions=2\nx=y",
        KAFKALITE_PROPERTIES="/p",
        KAFKALITE_AS_VERSION="3.9",
        KAFKALITE_CONTROL="0.0.0.0:9097",
        KAFKALITE_CLOCK="manual",
        KAFKALITE_LOG_FORMAT="json",
        KAFKALITE_LOG_LEVEL="debug",
    ) == [
        "--listen=A://0.0.0.0:1",
        "--listen=B://0.0.0.0:2",
        "--advertise=A://a:1",
        "--advertise=B://b:2",
        "--topic=orders:3",
        "--topic=audit:1",
        "--config=log.cleanup.policy=compact,delete",
        "--config=num.partitions=2",
        "--config=x=y",
        "--brokers=3",
        "--data-dir=/data",
        "--cluster-id=5L6g3nShT-eMCtK--X86sw",
        "--properties=/p",
        "--as-version=3.9",
        "--control=0.0.0.0:9097",
        "--clock=manual",
        "--log-format=json",
        "--log-level=debug",
    ]


def test_own_listeners_have_no_default_advertised_addresses() -> None:
    assert options(KAFKALITE_LISTEN="0.0.0.0:9092") == ["--listen=0.0.0.0:9092"]


def test_empty_variables_have_no_effect() -> None:
    assert options(KAFKALITE_TOPICS="", KAFKALITE_DATA_DIR="", KAFKALITE_CONFIG=" ;\n") == options()
    assert options(KAFKALITE_LISTEN="", KAFKALITE_ADVERTISE=" ") == options()


def test_misspelt_variable_is_reported_and_those_of_kubernetes_are_not() -> None:
    environment = {
        "KAFKALITE_TOPIC": "orders:3",
        "KAFKALITE_BROKERS": "1",
        "KAFKALITE_PORT": "tcp://10.0.0.7:9092",
        "KAFKALITE_SERVICE_HOST": "10.0.0.7",
        "PATH": "/bin",
    }
    assert find_misspelt_variables(environment) == {"KAFKALITE_TOPIC": "KAFKALITE_TOPICS"}
