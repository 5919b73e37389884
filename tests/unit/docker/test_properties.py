"""Properties from variables, and notices about variables without effect."""

from __future__ import annotations

import pytest

from kafkalite.docker.properties import VariableError, read_properties, similar_variables


def notices(**environment: str) -> tuple[str, ...]:
    return read_properties(environment, {}).notices


def test_variables_set_properties_and_take_precedence_over_a_file() -> None:
    properties = read_properties(
        {"KAFKA_NUM_PARTITIONS": " 3 ", "PATH": "/bin"},
        {"num.partitions": "2", "log.retention.ms": "5"},
    )
    assert properties.values == {"num.partitions": "3", "log.retention.ms": "5"}
    assert properties.variables == {"num.partitions": "KAFKA_NUM_PARTITIONS"}
    assert properties.notices == ()
    assert properties.variable_of("log.dirs") == "KAFKA_LOG_DIRS"


def test_empty_variable_has_no_effect() -> None:
    assert read_properties({"KAFKA_LOG_DIRS": " "}, {}).values == {}


def test_both_prefixes_may_set_the_same_value() -> None:
    both = {"KAFKA_NODE_ID": "1", "KAFKA_CFG_NODE_ID": "1"}
    assert read_properties(both, {}).values == {"node.id": "1"}


def test_different_values_of_both_prefixes_are_an_error() -> None:
    with pytest.raises(
        VariableError, match=r"KAFKA_CFG_NODE_ID and KAFKA_NODE_ID both set node\.id"
    ):
        read_properties({"KAFKA_NODE_ID": "1", "KAFKA_CFG_NODE_ID": "2"}, {})


def test_variables_of_zookeeper_have_one_notice() -> None:
    assert notices(
        KAFKA_ZOOKEEPER_CONNECT="z:2181",
        KAFKA_CFG_ZOOKEEPER_CONNECT="z:2181",
        ZOOKEEPER_CLIENT_PORT="2181",
        ALLOW_ANONYMOUS_LOGIN="yes",
    ) == (
        (
            "ALLOW_ANONYMOUS_LOGIN, KAFKA_CFG_ZOOKEEPER_CONNECT, KAFKA_ZOOKEEPER_CONNECT, "
            "ZOOKEEPER_CLIENT_PORT: there is no ZooKeeper; this container is a cluster of its own"
        ),
    )


def test_variables_of_java_of_the_platform_and_of_kubernetes_are_not_reported() -> None:
    assert notices(
        KAFKA_HEAP_OPTS="-Xmx1g",
        KAFKA_JMX_PORT="9101",
        KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE="false",
        KAFKA_REST_HOST_NAME="rest",
        KAFKA_PORT="tcp://10.0.0.1:9092",
        KAFKA_PORT_9092_TCP="tcp://10.0.0.1:9092",
        KAFKA_SERVICE_PORT="9092",
        KAFKA_OPTS="-Da=b",
        KAFKA_SSL_KEYSTORE_FILENAME="x",
    ) == ()  # fmt: skip


def test_unknown_variable_is_named_with_valid_names() -> None:
    (notice,) = notices(KAFKA_NUM_PARTITION="3")
    assert notice == (
        "KAFKA_NUM_PARTITION has no effect: num.partition is not a property of brokers; valid "
        "names that resemble it: KAFKA_NUM_PARTITIONS"
    )
    (notice,) = notices(KAFKA_FOO="3")
    assert notice.endswith("the name of a property of brokers is valid, such as "
                           "KAFKA_NUM_PARTITIONS")  # fmt: skip


def test_removed_property_has_a_notice_with_the_reason() -> None:
    (notice,) = notices(KAFKA_INTER_BROKER_PROTOCOL_VERSION="2.8")
    assert notice == (
        "KAFKA_INTER_BROKER_PROTOCOL_VERSION has no effect: Kafka 4 removed it; the nodes have "
        "one version."
    )


def test_variables_of_other_images_are_reported_unless_the_right_one_is_set() -> None:
    assert notices(ADV_HOST="localhost", CREATE_TOPICS="orders:1:1", BROKER_ID=" ") == (
        "ADV_HOST has no effect: set KAFKA_ADVERTISED_HOST_NAME",
        "CREATE_TOPICS has no effect: set KAFKA_CREATE_TOPICS",
    )
    assert notices(ADVERTISED_HOST_NAME="kafka", KAFKA_ADVERTISED_HOST_NAME="kafka") == ()


def test_similar_names_have_the_prefix_of_the_variable() -> None:
    assert similar_variables("KAFKA_CFG_NODE_IDS") == ["KAFKA_CFG_NODE_ID"]
    assert "KAFKA_CLIENT_USERS" in similar_variables("KAFKA_CLIENT_USER")


def test_backslashes_are_those_of_a_properties_file() -> None:
    key = "listener.name.a.plain.sasl.jaas.config"
    variable = "KAFKA_LISTENER_NAME_A_PLAIN_SASL_JAAS_CONFIG"
    text = 'a.Module required \\\n    username=\\"admin\\" \\\n password="x\\\\y";\n'
    assert read_properties({variable: text}, {}).values == {
        key: 'a.Module required username="admin" password="x\\y";'
    }
    with pytest.raises(VariableError, match=f"{variable}: "):
        read_properties({variable: "\\u12"}, {})


def test_long_name_without_effect_is_shortened() -> None:
    (notice,) = read_properties({f"KAFKA_{'A' * 100_000}": "x"}, {}).notices
    assert notice.startswith("KAFKA_AAA")
    assert len(notice) < 600
