"""What a broker is told at its start, from options and from a Kafka properties file."""

from __future__ import annotations

import pytest

from kafkalite.server.addresses import AddressError
from kafkalite.server.settings import Settings, SettingsError


def test_nodes_are_numbered_from_node_id() -> None:
    assert list(Settings().node_ids) == [1]
    assert list(Settings(brokers=3, config={"node.id": "7"}).node_ids) == [7, 8, 9]


@pytest.mark.parametrize("settings", [Settings(config={"node.id": "x"}), Settings(brokers=0)])
def test_impossible_nodes_are_refused(settings: Settings) -> None:
    with pytest.raises(SettingsError):
        _ = settings.node_ids


def test_listeners_of_a_properties_file_count_where_none_are_given() -> None:
    config = {
        "listeners": "PLAINTEXT://:19092, CONTROLLER://:19093",
        "advertised.listeners": "PLAINTEXT://broker.test:19092",
        "controller.listener.names": "CONTROLLER",
    }
    (spec,) = Settings(config=config).listeners
    assert (spec.name, spec.listen.port) == ("PLAINTEXT", 19092)
    assert str(spec.told(19092, 0)) == "broker.test:19092"
    (spec,) = Settings(config=config, listen=("127.0.0.1:5",), advertise=("h:6",)).listeners
    assert (spec.listen.port, str(spec.told(5, 0))) == (5, "h:6")


@pytest.mark.parametrize(
    "config",
    [
        {"listeners": "SSL://:9092"},
        {"listeners": "A://:9092", "listener.security.protocol.map": "A:SASL_PLAINTEXT"},
    ],
)
def test_a_protocol_that_is_not_spoken_is_refused(config: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="PLAINTEXT"):
        _ = Settings(config=config).listeners


@pytest.mark.parametrize(
    ("listen", "brokers"),
    [
        (("A://127.0.0.1:9092", "B://127.0.0.1:9092"), 1),
        (("A://127.0.0.1:9092", "B://127.0.0.1:9094"), 3),
        (("A://127.0.0.1:9094", "B://0.0.0.0:9092"), 3),
    ],
)
def test_listeners_that_would_meet_are_refused(listen: tuple[str, ...], brokers: int) -> None:
    with pytest.raises(AddressError, match="would meet"):
        _ = Settings(listen=listen, brokers=brokers).listeners


@pytest.mark.parametrize(
    ("listen", "brokers"),
    [
        (("A://127.0.0.1:9092", "B://127.0.0.1:9095"), 3),
        (("A://127.0.0.1:9092", "B://127.0.0.2:9092"), 3),
        (("A://127.0.0.1:0", "B://127.0.0.1:0"), 3),
    ],
)
def test_listeners_that_do_not_meet_are_served(listen: tuple[str, ...], brokers: int) -> None:
    assert len(Settings(listen=listen, brokers=brokers).listeners) == 2


def test_what_was_asked_for_and_is_not_served_is_told() -> None:
    assert Settings().unmet == {}
    config = {"authorizer.class.name": "", "remote.log.storage.system.enable": "False"}
    assert Settings(config=config).unmet == {}
    asked = {"authorizer.class.name": "a.B", "remote.log.storage.system.enable": "true"}
    assert Settings(config=asked).unmet.keys() == asked.keys()


def test_the_data_directory_comes_from_the_option_then_from_log_dirs() -> None:
    assert Settings().log_directory is None
    assert Settings(config={"log.dirs": "/data"}).log_directory == "/data"
    assert Settings(config={"log.dir": "/data"}).log_directory == "/data"
    assert Settings(data_directory="/own", config={"log.dirs": "/data"}).log_directory == "/own"
    with pytest.raises(SettingsError):
        _ = Settings(config={"log.dirs": "/a,/b"}).log_directory
