"""Settings of a broker process, from options and from a properties file."""

from __future__ import annotations

import pytest

from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.security.sasl.users import User
from kafkalite.server.addresses import AddressError
from kafkalite.server.settings import (
    Settings,
    SettingsError,
    names_key_store,
    parse_config,
    parse_node_config,
    parse_topics,
    parse_users,
    without_secret,
)


def test_node_ids_begin_with_node_id() -> None:
    assert list(Settings().node_ids) == [1]
    assert list(Settings(brokers=3, config={"node.id": "7"}).node_ids) == [7, 8, 9]


@pytest.mark.parametrize("settings", [Settings(config={"node.id": "x"}), Settings(brokers=0)])
def test_invalid_node_ids_are_rejected(settings: Settings) -> None:
    with pytest.raises(SettingsError):
        _ = settings.node_ids


def test_listeners_of_a_properties_file_are_used_without_options() -> None:
    config = {
        "listeners": "PLAINTEXT://:19092, CONTROLLER://:19093",
        "advertised.listeners": "PLAINTEXT://broker.test:19092",
        "controller.listener.names": "CONTROLLER",
    }
    (spec,) = Settings(config=config).listeners
    assert (spec.name, spec.listen_address.port) == ("PLAINTEXT", 19092)
    assert str(spec.advertised_address(19092, 0)) == "broker.test:19092"
    (spec,) = Settings(config=config, listen=("127.0.0.1:5",), advertise=("h:6",)).listeners
    assert (spec.listen_address.port, str(spec.advertised_address(5, 0))) == (5, "h:6")


def test_the_controller_has_a_listener_on_request() -> None:
    settings = Settings(listen=("127.0.0.1:5",), controller_listen="127.0.0.1:7")
    broker, controller = settings.listeners
    assert (broker.name, broker.is_for_controllers) == ("PLAINTEXT", False)
    assert (controller.name, controller.is_for_controllers) == ("CONTROLLER", True)
    assert controller.listen_address.port == 7
    config = {
        "controller.listener.names": "quorum,other",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,QUORUM:SSL",
    }
    _, controller = settings._replace(config=config).listeners
    assert (controller.name, controller.protocol) == ("QUORUM", SecurityProtocol.SSL)


@pytest.mark.parametrize(
    ("listen", "controller_listen", "message"),
    [
        ("A://h:1", "x", "is not an address"),
        ("A://h:1", "OTHER://h:2", "has the name CONTROLLER"),
        ("CONTROLLER://h:1", "h:2", "given twice"),
        ("A://h:1", "h:1", "same port"),
    ],
)
def test_an_impossible_listener_of_the_controller_is_rejected(
    listen: str, controller_listen: str, message: str
) -> None:
    with pytest.raises(AddressError, match=message):
        _ = Settings(listen=(listen,), controller_listen=controller_listen).listeners


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SSL", "SASL_SSL"])
def test_the_listener_of_the_controller_does_not_bypass_the_security_of_others(
    listener: str,
) -> None:
    settings = Settings(listen=("PLAINTEXT://h:1", f"{listener}://h:2"), controller_listen="h:3")
    with pytest.raises(SettingsError, match="No security protocol defined for listener CONTROLLER"):
        _ = settings.listeners
    protocols = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"
    chosen = settings._replace(config={"listener.security.protocol.map": protocols})
    assert chosen.listeners[-1].protocol is SecurityProtocol.PLAINTEXT
    secured = settings._replace(config={"controller.listener.names": listener})
    with pytest.raises(AddressError, match="given twice"):
        _ = secured.listeners


@pytest.mark.parametrize(
    ("config", "protocol"),
    [
        ({"listeners": "SASL_SSL://:9092", "inter.broker.listener.name": "SASL_SSL"}, "SASL_SSL"),
        (
            {
                "listeners": "A://:9092",
                "listener.security.protocol.map": "A:SASL_PLAINTEXT",
                "inter.broker.listener.name": "A",
            },
            "SASL_PLAINTEXT",
        ),
    ],
)
def test_listeners_of_a_properties_file_may_be_secured(
    config: dict[str, str], protocol: str
) -> None:
    (spec,) = Settings(config=config).listeners
    assert spec.protocol.value == protocol


IMPOSSIBLE_NAMES = [
    ({"listeners": "INSIDE://:9092"}, "No security protocol defined for listener INSIDE"),
    ({"inter.broker.listener.name": "INSIDE"}, "not 'INSIDE': set it to one of PLAINTEXT$"),
    ({"security.inter.broker.protocol": "SSL"}, "must be a listener name"),
    ({"early.start.listeners": "INSIDE"}, "early.start.listeners contains listener INSIDE"),
    ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "nonroutable"),
    ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "nonroutable"),
    (
        {
            "process.roles": "broker",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
        },
        "must not contain a value appearing in listeners",
    ),
]


@pytest.mark.parametrize(("config", "message"), IMPOSSIBLE_NAMES)
def test_listener_names_must_be_consistent(config: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        _ = Settings(config=config).listeners
    # Listeners that are given by option replace those of the file.
    assert Settings(config=config, listen=("A://h:1",), advertise=("h:1",)).listeners


def test_the_protocol_of_a_listener_is_mapped_by_its_name() -> None:
    config = {"listener.security.protocol.map": "ssl:plaintext, B : PLAINTEXT"}
    specs = Settings(listen=("SSL://h:1", "B://h:2", "C://h:3"), config=config).listeners
    assert {spec.protocol for spec in specs} == {SecurityProtocol.PLAINTEXT}
    config = {"listener.security.protocol.map": "B:ssl"}
    specs = Settings(listen=("SSL://h:1", "B://h:2"), config=config).listeners
    assert {spec.protocol for spec in specs} == {SecurityProtocol.SSL}


@pytest.mark.parametrize("text", ["A:TLS", "A", ":", "A:PLAINTEXT,B:"])
def test_a_protocol_map_with_an_unknown_protocol_is_rejected(text: str) -> None:
    config = {"listener.security.protocol.map": text}
    with pytest.raises(SettingsError, match="is not NAME:PROTOCOL with one of PLAINTEXT, SSL"):
        _ = Settings(listen=("A://h:1",), config=config).listeners


def test_a_listener_may_have_any_mapped_name() -> None:
    config = {
        "listeners": "inside://:9092",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "early.start.listeners": "INSIDE",
    }
    (spec,) = Settings(config=config).listeners
    assert spec.listen_address.port == 9092


@pytest.mark.parametrize(
    ("listen", "brokers"),
    [
        (("A://127.0.0.1:9092", "B://127.0.0.1:9092"), 1),
        (("A://127.0.0.1:9092", "B://127.0.0.1:9094"), 3),
        (("A://127.0.0.1:9094", "B://0.0.0.0:9092"), 3),
    ],
)
def test_listeners_with_the_same_port_are_rejected(listen: tuple[str, ...], brokers: int) -> None:
    with pytest.raises(AddressError, match="would use the same port"):
        _ = Settings(listen=listen, brokers=brokers).listeners


@pytest.mark.parametrize(
    ("listen", "brokers"),
    [
        (("A://127.0.0.1:9092", "B://127.0.0.1:9095"), 3),
        (("A://127.0.0.1:9092", "B://127.0.0.2:9092"), 3),
        (("A://127.0.0.1:0", "B://127.0.0.1:0"), 3),
    ],
)
def test_listeners_with_different_ports_are_accepted(listen: tuple[str, ...], brokers: int) -> None:
    assert len(Settings(listen=listen, brokers=brokers).listeners) == 2


def test_unsupported_settings_are_reported() -> None:
    assert Settings().unsupported == {}
    config = {"remote.log.storage.system.enable": "False"}
    assert Settings(config=config).unsupported == {}
    unsupported = {"remote.log.storage.system.enable": "true"}
    assert Settings(config=unsupported).unsupported.keys() == unsupported.keys()


def test_the_data_directory_is_the_option_or_log_dirs() -> None:
    assert Settings().log_directory is None
    assert Settings(config={"log.dirs": "/data"}).log_directory == "/data"
    assert Settings(config={"log.dir": "/data"}).log_directory == "/data"
    assert Settings(data_directory="/own", config={"log.dirs": "/data"}).log_directory == "/own"
    two = {"log.dirs": "/a, /b"}
    assert Settings(config=two).log_directory == "/a"
    assert Settings(config=two).named_log_directories == ["/b"]
    assert Settings(config={"log.dirs": "/a,/a"}).named_log_directories == []
    assert Settings(data_directory="/own", config=two).log_directory == "/own"
    assert Settings(data_directory="/own", config=two).named_log_directories == []


def test_topics_are_parsed() -> None:
    assert parse_topics(["orders:3", "audit:1", "orders:3"]) == {"orders": 3, "audit": 1}
    assert parse_topics([]) == {}


@pytest.mark.parametrize("text", ["orders", ":3", "orders:", "orders:0", "orders:-1", "orders:٣"])
def test_invalid_topic_is_rejected(text: str) -> None:
    with pytest.raises(SettingsError, match=f"--topic '{text}': write NAME:PARTITIONS"):
        parse_topics([text])


def test_topic_with_two_partition_counts_is_rejected() -> None:
    with pytest.raises(SettingsError, match="orders has 3 already"):
        parse_topics(["orders:3", "orders:4"])


def test_configurations_are_parsed() -> None:
    texts = ["num.partitions = 3", "log.cleanup.policy=compact,delete", "a=b=c"]
    assert parse_config(texts) == {
        "num.partitions": "3",
        "log.cleanup.policy": "compact,delete",
        "a": "b=c",
    }


@pytest.mark.parametrize("text", ["num.partitions", "=3", " = 3"])
def test_invalid_configuration_is_rejected(text: str) -> None:
    with pytest.raises(SettingsError, match=f"--config '{text}': write KEY=VALUE"):
        parse_config([text])


def test_configurations_of_nodes_are_parsed() -> None:
    texts = ["1:broker.rack=a", " 2 : broker.rack = b:c ", "1:replica.selector.class="]
    assert parse_node_config(texts) == {
        1: {"broker.rack": "a", "replica.selector.class": ""},
        2: {"broker.rack": "b:c"},
    }
    assert parse_node_config([]) == {}


@pytest.mark.parametrize(
    "text", ["", "broker.rack=a", "x:broker.rack=a", "-1:a=b", "1:=b", "1:broker.rack", ":a=b"]
)
def test_invalid_configuration_of_a_node_is_rejected(text: str) -> None:
    with pytest.raises(SettingsError, match=r"write ID:KEY=VALUE$"):
        parse_node_config([text])


@pytest.mark.parametrize(("brokers", "known"), [(1, "0"), (3, "0, 1, 2"), (7, "0, 1, 2, 3, 4, …")])
def test_configuration_of_an_unknown_node_is_rejected(brokers: int, known: str) -> None:
    settings = Settings(brokers=brokers, config={"node.id": "0"}, node_config={9: {"a": "b"}})
    with pytest.raises(SettingsError) as refused:
        settings.check_node_config()
    assert str(refused.value) == f"--node-config has node 9, but the nodes are {known}"


def test_configuration_of_known_nodes_is_accepted() -> None:
    Settings(brokers=3, node_config={1: {"a": "b"}, 3: {"a": "b"}}).check_node_config()


@pytest.mark.parametrize(
    "key",
    ["ssl.keystore.location", "ssl.key.password", "listener.name.outside.ssl.keystore.key"],
)
def test_a_setting_of_a_key_store_is_found(key: str) -> None:
    assert names_key_store({"num.partitions": "1", key: "x"}) == key


def test_other_settings_are_not_of_a_key_store() -> None:
    config = {"ssl.truststore.location": "x", "listener.name.outside.ssl.client.auth": "none"}
    assert names_key_store(config) is None


def test_users_are_parsed() -> None:
    (user,) = parse_users(["alice:secret:PLAIN"])
    assert (user.name, user.password, user.mechanisms) == ("alice", "secret", ("PLAIN",))
    assert parse_users([]) == []


def test_an_invalid_user_is_rejected_without_its_password() -> None:
    with pytest.raises(SettingsError, match="--user: the mechanism of user 'alice'") as error:
        parse_users(["alice:secret:SCRAM-SHA-1"])
    assert "secret" not in str(error.value)
    assert error.value.__cause__ is None


def test_users_need_a_listener_with_sasl() -> None:
    alice = (User("alice", "secret"),)
    for config in ({}, {"listener.security.protocol.map": "A:SSL"}):
        settings = Settings(listen=("A://h:1",), users=alice, config=config)
        with pytest.raises(SettingsError, match=r"^users \(--user\) need a listener with SASL"):
            settings.check_users(settings.listeners)
    config = {"listener.security.protocol.map": "A:SASL_SSL"}
    settings = Settings(listen=("A://h:1", "B://h:2"), users=alice, config=config)
    settings.check_users(settings.listeners)
    Settings().check_users(Settings().listeners)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("num.partitions 3", "num.partitions 3"),
        ("ssl.key.password", "ssl.key.password"),
        ("ssl.key.password:abc", "ssl.key.password…"),
        ("x.sasl.jaas.config abc", "x.sasl.jaas.config…"),
        ("ssl.keystore.key abc", "ssl.keystore.key…"),
    ],
)
def test_a_text_is_shown_without_a_secret(text: str, shown: str) -> None:
    assert without_secret(text) == shown


def test_others_may_listen_for_clients_of_the_controller() -> None:
    (_, spec) = Settings(listen=("127.0.0.1:1",), controller_advertise="kafka-1:9093").listeners
    assert (spec.name, spec.is_for_controllers, spec.is_relayed) == ("CONTROLLER", True, True)
    assert str(spec.advertised_address(9093, 0)) == "kafka-1:9093"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Settings(is_in_memory=True, data_directory="d"), "use --memory or --data-dir"),
        (Settings(memory_limit=1 << 20), "--memory-limit needs --memory"),
    ],
)
def test_contradictory_storage_is_rejected(settings: Settings, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        settings.check_storage()


def test_data_in_memory_has_no_directory() -> None:
    settings = Settings(is_in_memory=True, config={"log.dirs": "/data"})
    settings.check_storage()
    assert settings.log_directory is None


@pytest.mark.parametrize(("brokers", "known"), [(1, "3000"), (3, "2999 to 3001")])
def test_the_id_of_the_controller_is_not_that_of_a_broker(brokers: int, known: str) -> None:
    first = known.partition(" ")[0]
    settings = Settings(brokers=brokers, config={"node.id": first}, controller_id=3000)
    with pytest.raises(SettingsError) as raised:
        settings.check_controller_id()
    assert str(raised.value) == (
        f"--controller-id 3000 is the id of a broker: use an id other than {known}, such as 3000"
    )


def test_a_controller_may_have_any_other_id() -> None:
    Settings(brokers=3, controller_id=3000).check_controller_id()
    Settings(brokers=3, controller_id=0).check_controller_id()


def _addresses(settings: Settings, node_id: int) -> list[tuple[str, str, str | None]]:
    return [
        (each.name, str(each.listen_address), each.advertised and str(each.advertised))
        for each in settings.listeners_of_nodes[node_id]
    ]


def test_a_node_has_its_own_addresses() -> None:
    settings = Settings(
        listen=("INSIDE://0.0.0.0:9092", "OUTSIDE://0.0.0.0:9192"),
        advertise=("OUTSIDE://all.test:9192",),
        controller_listen="127.0.0.1:9292",
        brokers=3,
        config={"listener.security.protocol.map": "OUTSIDE:SSL,CONTROLLER:PLAINTEXT"},
        node_config={
            1: {"broker.rack": "a"},
            2: {"advertised.listeners": "INSIDE://two.test:1"},
            3: {
                "listeners": "INSIDE://127.0.0.1:7, OUTSIDE://127.0.0.1:8",
                "advertised.listeners": "outside://three.test:3",
            },
        },
    )
    assert settings.listeners_of_nodes.keys() == {2, 3}
    assert _addresses(settings, 2) == [
        ("INSIDE", "0.0.0.0:9093", "two.test:1"),
        ("OUTSIDE", "0.0.0.0:9193", "all.test:9193"),
        ("CONTROLLER", "127.0.0.1:9293", None),
    ]
    assert _addresses(settings, 3) == [
        ("INSIDE", "127.0.0.1:7", None),
        ("OUTSIDE", "127.0.0.1:8", "three.test:3"),
        ("CONTROLLER", "127.0.0.1:9294", None),
    ]
    protocols = [each.protocol for each in settings.listeners_of_nodes[3]]
    assert protocols[1] is SecurityProtocol.SSL


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"listeners": "A://h:1"}, "node 1: listeners lacks B, but all nodes have the same"),
        ({"listeners": "A://h:1,C://h:2"}, "node 1: listeners has C://h:2: write each listener"),
        ({"listeners": "h:1"}, r"with its name, such as A://h:1"),
        ({"advertised.listeners": "A://h:1,A://h:2"}, "advertised.listeners has A://h:2"),
    ],
)
def test_other_listeners_of_a_node_are_refused(config: dict[str, str], message: str) -> None:
    settings = Settings(listen=("A://h:5", "B://h:6"), node_config={1: config})
    with pytest.raises(SettingsError, match=message):
        _ = settings.listeners_of_nodes
