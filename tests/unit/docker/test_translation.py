"""The start that an environment describes, and environments that are refused."""

from __future__ import annotations

import pytest

from kafkalite.docker.credentials import Credential
from kafkalite.docker.properties import VariableError
from kafkalite.docker.start import plan_from
from kafkalite.docker.translation import Container, Translation, translate
from kafkalite.server.addresses import Address


def no_file(path: str) -> None:
    """Return no content for any path."""


def no_mount(path: str) -> bool:
    return not path


def translated(*mounts: str, **environment: str) -> Translation:
    return translate(Container(environment, "box", no_file, lambda path: path in mounts))


def test_empty_environment_describes_nothing() -> None:
    assert translated() == Translation({}, {})
    assert not translated().has_listeners


def test_node_id_is_that_of_either_variable() -> None:
    assert translated(KAFKA_BROKER_ID="7").config == {"node.id": "7"}
    assert translated(KAFKA_BROKER_ID="7", KAFKA_NODE_ID="7").config == {"node.id": "7"}
    assert translated(KAFKA_BROKER_ID="-1").config == {}


def test_controller_without_broker_has_no_listeners() -> None:
    translation = translated(KAFKA_PROCESS_ROLES="controller", KAFKA_LISTENERS="CONTROLLER://:9093")
    assert translation.is_controller_only
    assert translation.config == {}


def test_container_with_several_nodes_has_their_number() -> None:
    environment = {
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:9093,2@b:9093,3@c:9093",
        "KAFKA_DEFAULT_REPLICATION_FACTOR": "3",
        "KAFKALITE_BROKERS": "3",
    }
    assert translated(**environment).config["default.replication.factor"] == "3"
    environment["KAFKALITE_BROKERS"] = "2"
    with pytest.raises(VariableError, match=r"KAFKA_DEFAULT_REPLICATION_FACTOR=3 needs 3 nodes, "
                       "but there are 2: set it to 2, or set KAFKALITE_BROKERS"):  # fmt: skip
        translated(**environment)


def test_cluster_id_has_padding_or_the_standard_alphabet() -> None:
    assert translated(CLUSTER_ID="3q2+7wAAQIGBAgMEBQYHCA==").cluster_id == "3q2-7wAAQIGBAgMEBQYHCA"
    assert translated(KAFKA_KRAFT_CLUSTER_ID="MkU3OEVBNTcwNTJENDM2Qk").cluster_id is not None


def test_cluster_id_that_is_no_uuid_has_a_notice() -> None:
    translation = translated(CLUSTER_ID="test-cluster")
    assert translation.cluster_id is None
    assert translation.notices == (
        (
            "CLUSTER_ID has no effect: 'test-cluster' is not a UUID in base64, such as "
            "5L6g3nShT-eMCtK--X86sw"
        ),
    )


def test_own_cluster_id_takes_precedence() -> None:
    own = "5L6g3nShT-eMCtK--X86sw"
    assert translated(CLUSTER_ID="test-cluster", KAFKALITE_CLUSTER_ID=own).notices == ()


def test_mounted_volume_has_the_data() -> None:
    assert translated("/var/lib/kafka/data").data_directory == "/var/lib/kafka/data"
    assert translated("/bitnami/kafka").data_directory == "/bitnami/kafka/data"
    for mount in ("/bitnami", "/bitnami/kafka/data"):
        assert translated(mount).data_directory == "/bitnami/kafka/data"
    assert translated("/var/lib/kafka").data_directory == "/var/lib/kafka/data"
    assert translated("/kafka").data_directory == "/kafka/kafka-logs"
    default = "/tmp/kraft-combined-logs"  # noqa: S108 - a path of images
    assert translated(default).data_directory == default
    assert translated().data_directory is None
    assert translated("/bitnami/kafka", KAFKA_LOG_DIRS="/d").data_directory is None
    two = translated("/bitnami/kafka", KAFKA_LOG_DIRS="/d,/e")
    assert (two.data_directory, two.config["log.dirs"]) == (None, "/d,/e")
    assert translated("/bitnami/kafka", KAFKALITE_DATA_DIR="/d").data_directory is None
    assert translated("/bitnami/kafka", KAFKALITE_SNAPSHOT="/s.zip").data_directory is None


def test_level_of_the_log() -> None:
    assert translated(KAFKA_LOG4J_ROOT_LOGLEVEL="WARN").log_level == "warning"
    with pytest.raises(VariableError, match="KAFKA_LOG4J_ROOT_LOGLEVEL is one of TRACE"):
        translated(KAFKA_LOG4J_ROOT_LOGLEVEL="LOUD")


def test_authorizer_of_zookeeper_is_replaced() -> None:
    translation = translated(KAFKA_AUTHORIZER_CLASS_NAME="kafka.security.authorizer.AclAuthorizer")
    assert translation.config == {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    }


def test_formatted_users_can_log_in() -> None:
    users = (Credential("alice", "a", "SCRAM-SHA-256"),)
    container = Container({}, "box", no_file, no_mount, formatted=users)
    assert translate(container).users == users
    environment = {"KAFKA_LISTENERS": "SASL_PLAINTEXT://:9092"}
    assert translate(container._replace(environment=environment)).users == users


def test_user_for_all_mechanisms_includes_a_user_for_one() -> None:
    users = (Credential("alice", "a", "SCRAM-SHA-256"), Credential("bob", "b", "SCRAM-SHA-256"))
    environment = {
        "KAFKA_CFG_LISTENERS": "SASL_PLAINTEXT://:9092",
        "KAFKA_CLIENT_USERS": "alice",
        "KAFKA_CLIENT_PASSWORDS": "a",
    }
    container = Container(environment, "box", no_file, no_mount, formatted=users)
    assert translate(container).users == (Credential("alice", "a"), users[1])


def test_formatted_users_have_a_notice_without_sasl() -> None:
    users = (Credential("alice", "a", "SCRAM-SHA-256"),)
    environment = {"KAFKA_LISTENERS": "PLAINTEXT://:9092"}
    container = Container(environment, "box", no_file, no_mount, formatted=users)
    translation = translate(container)
    assert translation.users == ()
    assert translation.notices == (
        "the users of kafka-storage format have no effect: no listener has SASL",
    )


@pytest.mark.parametrize(
    ("environment", "error"),
    [
        ({"KAFKA_BROKER_ID": "1", "KAFKA_NODE_ID": "2"},
         "KAFKA_BROKER_ID is 1, but KAFKA_NODE_ID is 2: give both the same value"),
        ({"KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "3"},
         "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=3 needs 3 nodes, but there is 1: set it to 1"),
        ({"CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw",
          "KAFKA_KRAFT_CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw"},
         "CLUSTER_ID and KAFKA_KRAFT_CLUSTER_ID are different"),
        ({"KAFKALITE_LISTEN": "A://:1", "KAFKA_LISTENERS": "PLAINTEXT://:9092"},
         "KAFKALITE_LISTEN and KAFKA_LISTENERS both set the listeners: remove one"),
    ],
)  # fmt: skip
def test_variables_that_contradict_each_other_are_refused(
    environment: dict[str, str], error: str
) -> None:
    with pytest.raises(VariableError, match=error):
        translated(**environment)


def test_container_of_a_cluster_has_the_addresses_of_its_controllers() -> None:
    environment = {
        "KAFKA_NODE_ID": "2",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:9093,2@box:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
    }
    for roles in ("broker,controller", "controller"):
        environment["KAFKA_PROCESS_ROLES"] = roles
        assert translated(**environment).controllers == (Address("", 9093, "CONTROLLER"),)
    assert translated(**environment, KAFKALITE_BROKERS="2").controllers == ()
    environment["KAFKA_LISTENERS"] = "CONTROLLER://:port"
    with pytest.raises(VariableError, match="KAFKA_LISTENERS: 'CONTROLLER://:port' is not"):
        translated(**environment)


def test_controller_of_a_cluster_has_the_users_of_its_own_listener() -> None:
    module = 'org.example.PlainLoginModule required user_alice="pw";'
    key = "listener.name.controller.plain.sasl.jaas.config"
    environment = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@controller:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": "CONTROLLER://:9093",
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
        "KAFKA_LISTENER_NAME_CONTROLLER_PLAIN_SASL_JAAS_CONFIG": module,
    }
    assert plan_from(environment, "controller").translation.config == {key: module}
