"""Environments of Kafka containers, in the forms that compose files of projects have."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.docker.variables import Image

if TYPE_CHECKING:
    from collections.abc import Mapping

HOSTNAME = "broker-host"
"""The host name of the containers."""

_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_LOGIN_FILE = "/etc/kafka/jaas.conf"


class Form(NamedTuple):
    """An environment, and the start that it describes.

    `advertised` has the address of each listener that clients receive. `login` is mechanism, user
    and password of a client. `files` are mounted files by path.
    """

    name: str
    image: Image
    environment: Mapping[str, str]
    advertised: Mapping[str, str]
    login: tuple[str, str, str] | None = None
    files: Mapping[str, str] = {}
    topics: Mapping[str, int] = {}
    cluster_id: str | None = None
    config: Mapping[str, str] = {}
    has_zookeeper: bool = False


def _kraft(listeners: str, advertised: str, protocols: str, **more: str) -> dict[str, str]:
    """Return the variables of a single node that is broker and controller."""
    return {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:29093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": f"{listeners},CONTROLLER://localhost:29093",
        "KAFKA_ADVERTISED_LISTENERS": advertised,
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": f"CONTROLLER:PLAINTEXT,{protocols}",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        **more,
    }


def _configured(**properties: str) -> dict[str, str]:
    """Return the variables of bitnami/kafka for a single node, with these properties."""
    return {
        "KAFKA_CFG_NODE_ID": "0",
        "KAFKA_CFG_PROCESS_ROLES": "controller,broker",
        "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "0@kafka:9093",
        "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        **{f"KAFKA_CFG_{name}": value for name, value in properties.items()},
    }


_TWO_SIDES = {"PLAINTEXT": "broker:19092", "PLAINTEXT_HOST": "localhost:9092"}
_TWO_PROTOCOLS = "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"
_TWO_LISTENERS = "PLAINTEXT://broker:19092,PLAINTEXT_HOST://0.0.0.0:9092"
_TWO_ADVERTISED = "PLAINTEXT://broker:19092,PLAINTEXT_HOST://localhost:9092"

APACHE = (
    Form(
        "host and network",
        Image.APACHE,
        _kraft(_TWO_LISTENERS, _TWO_ADVERTISED, _TWO_PROTOCOLS),
        _TWO_SIDES,
    ),
    Form(
        "one plain listener",
        Image.APACHE,
        _kraft("PLAINTEXT://:9092", "PLAINTEXT://localhost:9092", "PLAINTEXT:PLAINTEXT"),
        {"PLAINTEXT": "localhost:9092"},
    ),
    Form(
        "inter-broker listener and cluster id",
        Image.APACHE,
        _kraft(
            "INTERNAL://0.0.0.0:29092,EXTERNAL://0.0.0.0:9092",
            "INTERNAL://kafka:29092,EXTERNAL://localhost:9092",
            "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
            KAFKA_INTER_BROKER_LISTENER_NAME="INTERNAL",
            CLUSTER_ID="5L6g3nShT-eMCtK--X86sw",
        ),
        {"INTERNAL": "kafka:29092", "EXTERNAL": "localhost:9092"},
        cluster_id="5L6g3nShT-eMCtK--X86sw",
    ),
    Form(
        "advertised listeners only",
        Image.APACHE,
        {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092"},
        {"PLAINTEXT": "kafka:9092"},
    ),
    Form(
        "topic defaults",
        Image.APACHE,
        _kraft(
            "PLAINTEXT://:9092",
            "PLAINTEXT://kafka:9092",
            "PLAINTEXT:PLAINTEXT",
            KAFKA_NUM_PARTITIONS="3",
            KAFKA_AUTO_CREATE_TOPICS_ENABLE="true",
            KAFKA_LOG_RETENTION_HOURS="168",
            KAFKA_LOG_DIRS="",
            KAFKA_HEAP_OPTS="-Xmx512m",
        ),
        {"PLAINTEXT": "kafka:9092"},
        config={"num.partitions": "3", "log.retention.hours": "168"},
    ),
    Form(
        "SASL PLAIN for one listener",
        Image.APACHE,
        _kraft(
            "PLAINTEXT://:9092,SASL://:9094",
            "PLAINTEXT://kafka:9092,SASL://localhost:9094",
            "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
            KAFKA_INTER_BROKER_LISTENER_NAME="PLAINTEXT",
            KAFKA_SASL_ENABLED_MECHANISMS="PLAIN",
            KAFKA_LISTENER_NAME_SASL_PLAIN_SASL_JAAS_CONFIG=(
                f'{_PLAIN_MODULE} username="app" password="pw-1" user_app="pw-1";'
            ),
        ),
        {"PLAINTEXT": "kafka:9092", "SASL": "localhost:9094"},
        login=("PLAIN", "app", "pw-1"),
    ),
    Form(
        "SASL listener with an underscore",
        Image.APACHE,
        _kraft(
            "SASL_PLAINTEXT://0.0.0.0:9092",
            "SASL_PLAINTEXT://localhost:9092",
            "SASL_PLAINTEXT:SASL_PLAINTEXT",
            KAFKA_INTER_BROKER_LISTENER_NAME="SASL_PLAINTEXT",
            KAFKA_SASL_MECHANISM_INTER_BROKER_PROTOCOL="PLAIN",
            KAFKA_LISTENER_NAME_SASL__PLAINTEXT_SASL_ENABLED_MECHANISMS="PLAIN",
            KAFKA_SASL_ENABLED_MECHANISMS="PLAIN",
            KAFKA_LISTENER_NAME_SASL__PLAINTEXT_PLAIN_SASL_JAAS_CONFIG=(
                f"{_PLAIN_MODULE} username=admin password=pw-2 user_admin=pw-2;"
            ),
        ),
        {"SASL_PLAINTEXT": "localhost:9092"},
        login=("PLAIN", "admin", "pw-2"),
    ),
    Form(
        "SCRAM with hyphens and the standard authorizer",
        Image.APACHE,
        _kraft(
            "PLAINTEXT://:19092,SASL://:29092",
            "PLAINTEXT://kafka-1:19092,SASL://localhost:29092",
            "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
            KAFKA_AUTHORIZER_CLASS_NAME=("org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
            KAFKA_SUPER_USERS="User:ANONYMOUS;User:admin",
            KAFKA_ALLOW_EVERYONE_IF_NO_ACL_FOUND="false",
            KAFKA_SASL_ENABLED_MECHANISMS="SCRAM-SHA-512",
            KAFKA_LISTENER_NAME_SASL_SCRAM___SHA___512_SASL_JAAS_CONFIG=(
                f'{_SCRAM_MODULE} username="admin" password="pw-3";'
            ),
        ),
        {"PLAINTEXT": "kafka-1:19092", "SASL": "localhost:29092"},
        login=("SCRAM-SHA-512", "admin", "pw-3"),
    ),
    Form(
        "login module on several lines",
        Image.APACHE,
        _kraft(
            "PLAINTEXT://:9092,EXTERNAL://:9095",
            "PLAINTEXT://kafka:9092,EXTERNAL://localhost:9095",
            "PLAINTEXT:PLAINTEXT,EXTERNAL:SASL_PLAINTEXT",
            KAFKA_SASL_ENABLED_MECHANISMS="PLAIN",
            KAFKA_LISTENER_NAME_EXTERNAL_PLAIN_SASL_JAAS_CONFIG=(
                f'{_PLAIN_MODULE} \\\n  username=\\"app\\" \\\n  password=\\"pw-12\\" \\\n'
                '  user_app=\\"pw-12\\";\n'
            ),
        ),
        {"PLAINTEXT": "kafka:9092", "EXTERNAL": "localhost:9095"},
        login=("PLAIN", "app", "pw-12"),
    ),
    Form(
        "JAAS file",
        Image.APACHE,
        _kraft(
            "SASL_PLAINTEXT://:9093",
            "SASL_PLAINTEXT://localhost:9093",
            "SASL_PLAINTEXT:SASL_PLAINTEXT",
            KAFKA_INTER_BROKER_LISTENER_NAME="SASL_PLAINTEXT",
            KAFKA_SASL_ENABLED_MECHANISMS="PLAIN",
            KAFKA_SASL_MECHANISM_INTER_BROKER_PROTOCOL="PLAIN",
            KAFKA_OPTS=f"-Xmx1g -Djava.security.auth.login.config={_LOGIN_FILE}",
        ),
        {"SASL_PLAINTEXT": "localhost:9093"},
        login=("PLAIN", "client", "pw-4"),
        files={
            _LOGIN_FILE: f"""
// users of the broker
KafkaServer {{
    {_PLAIN_MODULE}
    username="broker" password="pw-0"
    user_broker="pw-0" user_client="pw-4";
}};
Client {{ {_PLAIN_MODULE} username="z" password="z"; }};
"""
        },
    ),
    Form(
        "properties in a mounted file",
        Image.APACHE,
        {"KAFKA_NUM_PARTITIONS": "5"},
        {"PLAINTEXT": "kafka:9092"},
        files={
            "/mnt/shared/config/server.properties": (
                "process.roles=broker,controller\nnode.id=1\nnum.partitions=2\n"
                "controller.quorum.voters=1@localhost:9093\n"
                "controller.listener.names=CONTROLLER\n"
                "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
                "advertised.listeners=PLAINTEXT://kafka:9092\nkey.of.another.program=1\n"
            )
        },
        config={"num.partitions": "5"},
    ),
    Form(
        "broker with its controller in another container",
        Image.APACHE,
        {
            "KAFKA_NODE_ID": "2",
            "KAFKA_PROCESS_ROLES": "broker",
            "KAFKA_LISTENERS": "PLAINTEXT://:19092,PLAINTEXT_HOST://:9092",
            "KAFKA_ADVERTISED_LISTENERS": _TWO_ADVERTISED,
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": f"CONTROLLER:PLAINTEXT,{_TWO_PROTOCOLS}",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@controller:9093",
            # Without it, the container joins the cluster of its controller.
            "KAFKALITE_BROKERS": "1",
        },
        _TWO_SIDES,
    ),
    Form(
        "advertised port without a host",
        Image.APACHE,
        _kraft("PLAINTEXT://:9192", "PLAINTEXT://:9192", "PLAINTEXT:PLAINTEXT"),
        {"PLAINTEXT": f"{HOSTNAME}:9192"},
    ),
    Form(
        "three names for one address",
        Image.APACHE,
        _kraft(
            "INTERNAL://:29092,DOCKER://:9093,HOST://:9092",
            "INTERNAL://kafka:29092,DOCKER://host.docker.internal:9093,HOST://127.0.0.1:9092",
            "INTERNAL:PLAINTEXT,DOCKER:PLAINTEXT,HOST:PLAINTEXT",
            KAFKA_INTER_BROKER_LISTENER_NAME="INTERNAL",
            KAFKA_LOG_RETENTION_MS="600000",
            KAFKA_MIN_INSYNC_REPLICAS="1",
            KAFKA_DEFAULT_REPLICATION_FACTOR="1",
        ),
        {
            "INTERNAL": "kafka:29092",
            "DOCKER": "host.docker.internal:9093",
            "HOST": "127.0.0.1:9092",
        },
        config={"log.retention.ms": "600000"},
    ),
)

NATIVE = (
    Form(
        "start script of a test library",
        Image.NATIVE,
        _kraft(
            "PLAINTEXT://:9092,BROKER://:9093",
            "PLAINTEXT://localhost:9092,BROKER://broker-host:9093",
            "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            KAFKA_INTER_BROKER_LISTENER_NAME="BROKER",
            KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS="1",
            KAFKA_LOG_FLUSH_INTERVAL_MESSAGES=str(2**63 - 1),
            CLUSTER_ID="4L6g3nShT-eMCtK--X86sw",
        ),
        {"PLAINTEXT": "localhost:9092", "BROKER": "broker-host:9093"},
        cluster_id="4L6g3nShT-eMCtK--X86sw",
    ),
    Form(
        "listener names with hyphens",
        Image.NATIVE,
        _kraft(
            "PLAINTEXT://:9092,BROKER://:9093,TC-0://kafka:19092",
            "PLAINTEXT://localhost:9092,BROKER://broker-host:9093,TC-0://kafka:19092",
            "TC-0:PLAINTEXT,BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            KAFKA_INTER_BROKER_LISTENER_NAME="BROKER",
        ),
        {"PLAINTEXT": "localhost:9092", "TC-0": "kafka:19092"},
    ),
    Form(
        "share groups and transactions",
        Image.NATIVE,
        _kraft(
            "PLAINTEXT://0.0.0.0:9092",
            "PLAINTEXT://127.0.0.1:9092",
            "PLAINTEXT:PLAINTEXT",
            KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR="1",
            KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR="1",
            KAFKA_GROUP_COORDINATOR_REBALANCE_PROTOCOLS="classic,consumer,share",
        ),
        {"PLAINTEXT": "127.0.0.1:9092"},
    ),
    Form(
        "variables of Kubernetes",
        Image.NATIVE,
        {
            "KAFKA_PORT": "tcp://10.0.0.9:9092",
            "KAFKA_PORT_9092_TCP": "tcp://10.0.0.9:9092",
            "KAFKA_PORT_9092_TCP_ADDR": "10.0.0.9",
            "KAFKA_SERVICE_HOST": "10.0.0.9",
            "KAFKA_SERVICE_PORT_CLIENT": "9092",
            "KAFKA_UI_SERVICE_HOST": "10.0.0.8",
            "KAFKA_UI_PORT_8080_TCP_PROTO": "tcp",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092",
        },
        {"PLAINTEXT": "kafka:9092"},
    ),
)

_ZOOKEEPER = {"KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181", "KAFKA_BROKER_ID": "1"}

CONFLUENT = (
    Form(
        "quick start with ZooKeeper",
        Image.CONFLUENT,
        {
            **_ZOOKEEPER,
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": _TWO_PROTOCOLS,
            "KAFKA_ADVERTISED_LISTENERS": (
                "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092"
            ),
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false",
        },
        {"PLAINTEXT": "broker:29092", "PLAINTEXT_HOST": "localhost:9092"},
        has_zookeeper=True,
    ),
    Form(
        "internal and external names",
        Image.CONFLUENT,
        {
            **_ZOOKEEPER,
            "KAFKA_LISTENERS": "INTERNAL://:9092,EXTERNAL://:29092",
            "KAFKA_ADVERTISED_LISTENERS": "INTERNAL://kafka:9092,EXTERNAL://localhost:29092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "INTERNAL",
            "KAFKA_DELETE_TOPIC_ENABLE": "true",
            "KAFKA_INTER_BROKER_PROTOCOL_VERSION": "2.8",
        },
        {"INTERNAL": "kafka:9092", "EXTERNAL": "localhost:29092"},
        has_zookeeper=True,
    ),
    Form(
        "KRaft with metrics of the platform",
        Image.CONFLUENT,
        _kraft(
            "PLAINTEXT://broker:29092,PLAINTEXT_HOST://0.0.0.0:9092",
            "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
            _TWO_PROTOCOLS,
            KAFKA_INTER_BROKER_LISTENER_NAME="PLAINTEXT",
            KAFKA_LOG_DIRS="",
            KAFKA_JMX_PORT="9101",
            KAFKA_JMX_HOSTNAME="localhost",
            KAFKA_METRIC_REPORTERS="io.confluent.metrics.reporter.ConfluentMetricsReporter",
            KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR="1",
            KAFKA_CONFLUENT_BALANCER_TOPIC_REPLICATION_FACTOR="1",
            CLUSTER_ID="MkU3OEVBNTcwNTJENDM2Qk",
        ),
        {"PLAINTEXT": "broker:29092", "PLAINTEXT_HOST": "localhost:9092"},
        cluster_id="MkU3OEVBNTcwNTJENDM2Qk",
    ),
    Form(
        "test library with ZooKeeper",
        Image.CONFLUENT,
        {
            **_ZOOKEEPER,
            "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9093,BROKER://172.17.0.3:9092",
            "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "10000000",
        },
        {"PLAINTEXT": "localhost:9093", "BROKER": "172.17.0.3:9092"},
        has_zookeeper=True,
    ),
    Form(
        "test library with a padded cluster id",
        Image.CONFLUENT,
        _kraft(
            "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092",
            "PLAINTEXT://localhost:9093,BROKER://localhost:9092",
            "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            KAFKA_INTER_BROKER_LISTENER_NAME="BROKER",
            KAFKA_BROKER_ID="1",
            CLUSTER_ID="3q2+7wAAQIGBAgMEBQYHCA==",
        ),
        {"PLAINTEXT": "localhost:9093", "BROKER": "localhost:9092"},
        cluster_id="3q2-7wAAQIGBAgMEBQYHCA",
    ),
    Form(
        "large messages",
        Image.CONFLUENT,
        {
            **_ZOOKEEPER,
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092",
            "KAFKA_MESSAGE_MAX_BYTES": "20000000",
            "KAFKA_REPLICA_FETCH_MAX_BYTES": "20000000",
            "KAFKA_MAX_REQUEST_SIZE": "20000000",
            "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN",
            "KAFKA_LOG4J_LOGGERS": "kafka=WARN",
            "KAFKA_TOOLS_LOG4J_LOGLEVEL": "ERROR",
        },
        {"PLAINTEXT": "kafka:9092"},
        config={"message.max.bytes": "20000000"},
        has_zookeeper=True,
    ),
    Form(
        "ACLs of ZooKeeper's time",
        Image.CONFLUENT,
        {
            **_ZOOKEEPER,
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092",
            "KAFKA_AUTHORIZER_CLASS_NAME": "kafka.security.authorizer.AclAuthorizer",
            "KAFKA_ALLOW_EVERYONE_IF_NO_ACL_FOUND": "true",
            "ZOOKEEPER_SASL_ENABLED": "false",
        },
        {"PLAINTEXT": "kafka:9092"},
        config={"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"},
        has_zookeeper=True,
    ),
    Form(
        "SASL for the inter-broker listener",
        Image.CONFLUENT,
        {
            **_ZOOKEEPER,
            "KAFKA_LISTENERS": "SASL_PLAINTEXT://0.0.0.0:9092",
            "KAFKA_ADVERTISED_LISTENERS": "SASL_PLAINTEXT://kafka:9092",
            "KAFKA_SECURITY_INTER_BROKER_PROTOCOL": "SASL_PLAINTEXT",
            "KAFKA_SASL_MECHANISM_INTER_BROKER_PROTOCOL": "PLAIN",
            "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
            "KAFKA_OPTS": f"-Djava.security.auth.login.config={_LOGIN_FILE}",
        },
        {"SASL_PLAINTEXT": "kafka:9092"},
        login=("PLAIN", "admin", "pw-5"),
        files={
            _LOGIN_FILE: f"KafkaServer {{ {_PLAIN_MODULE} username=admin password=pw-5 "
            "user_admin=pw-5; };"
        },
        has_zookeeper=True,
    ),
    Form(
        "KRaft with an id of ZooKeeper's time",
        Image.CONFLUENT,
        {
            "KAFKA_BROKER_ID": "1",
            "KAFKA_NODE_ID": "1",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@kafka:29093",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_LISTENERS": "INTERNAL://:9093,CONTROLLER://kafka:29093,EXTERNAL://0.0.0.0:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
                "INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT"
            ),
            "KAFKA_ADVERTISED_LISTENERS": "INTERNAL://kafka:9093,EXTERNAL://127.0.0.1:9092",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "INTERNAL",
            "KAFKA_LOG_DIRS": "",
            "KAFKA_JMX_PORT": "9101",
            "CLUSTER_ID": "TyCtSFEgSDewVyzlcNNt8A",
        },
        {"INTERNAL": "kafka:9093", "EXTERNAL": "127.0.0.1:9092"},
        cluster_id="TyCtSFEgSDewVyzlcNNt8A",
    ),
    Form(
        "SASL on both sides",
        Image.CONFLUENT,
        _kraft(
            "INSIDE://0.0.0.0:9092,OUTSIDE://0.0.0.0:19092",
            "INSIDE://localhost:9092,OUTSIDE://kafka_sasl:19092",
            "INSIDE:SASL_PLAINTEXT,OUTSIDE:SASL_PLAINTEXT",
            KAFKA_INTER_BROKER_LISTENER_NAME="INSIDE",
            KAFKA_SASL_MECHANISM_INTER_BROKER_PROTOCOL="PLAIN",
            KAFKA_SASL_ENABLED_MECHANISMS="PLAIN",
            **{
                f"KAFKA_LISTENER_NAME_{name}_PLAIN_SASL_JAAS_CONFIG": (
                    f'{_PLAIN_MODULE} username="admin" password="pw-21" user_admin="pw-21" '
                    'user_tester="pw-22";'
                )
                for name in ("INSIDE", "OUTSIDE")
            },
        ),
        {"INSIDE": "localhost:9092", "OUTSIDE": "kafka_sasl:19092"},
        login=("PLAIN", "tester", "pw-22"),
    ),
    Form(
        "listeners without a map",
        Image.CONFLUENT,
        {
            **_ZOOKEEPER,
            "KAFKA_ZOOKEEPER_TLS_CLIENT_ENABLE": "false",
            "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:19091",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:19091",
            "KAFKA_NUM_PARTITIONS": "12",
            "KAFKA_LOG4J_LOGGERS": "kafka.controller=INFO,state.change.logger=INFO",
            "KAFKA_AUTHORIZER_CLASS_NAME": "",
        },
        {"PLAINTEXT": "localhost:19091"},
        config={"num.partitions": "12"},
        has_zookeeper=True,
    ),
)

CONFLUENT_LOCAL = (
    Form(
        "names of the image",
        Image.CONFLUENT_LOCAL,
        {
            "KAFKA_LISTENERS": (
                "PLAINTEXT://broker:29092,CONTROLLER://broker:29093,PLAINTEXT_HOST://0.0.0.0:9092"
            ),
            "KAFKA_ADVERTISED_LISTENERS": (
                "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092"
            ),
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
        },
        {"PLAINTEXT": "broker:29092", "PLAINTEXT_HOST": "localhost:9092"},
    ),
    Form(
        "test library",
        Image.CONFLUENT_LOCAL,
        _kraft(
            "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092",
            "PLAINTEXT://localhost:9093,BROKER://broker-host:9092",
            "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            KAFKA_INTER_BROKER_LISTENER_NAME="BROKER",
            KAFKA_REST_BOOTSTRAP_SERVERS="PLAINTEXT://0.0.0.0:9093",
            KAFKA_BROKER_ID="1",
        ),
        {"PLAINTEXT": "localhost:9093", "BROKER": "broker-host:9092"},
    ),
    Form(
        "application host",
        Image.CONFLUENT_LOCAL,
        {
            "KAFKA_LISTENERS": (
                "PLAINTEXT://localhost:29092,CONTROLLER://localhost:29093,"
                "PLAINTEXT_HOST://0.0.0.0:9092,PLAINTEXT_INTERNAL://0.0.0.0:9093"
            ),
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT,"
                "PLAINTEXT_INTERNAL:PLAINTEXT"
            ),
            "KAFKA_ADVERTISED_LISTENERS": (
                "PLAINTEXT://localhost:29092,PLAINTEXT_HOST://localhost:9092,"
                "PLAINTEXT_INTERNAL://messaging:9093"
            ),
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        },
        {"PLAINTEXT_HOST": "localhost:9092", "PLAINTEXT_INTERNAL": "messaging:9093"},
    ),
    Form(
        "REST proxy",
        Image.CONFLUENT_LOCAL,
        {
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:29092,PLAINTEXT_HOST://localhost:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": _TWO_PROTOCOLS,
            "KAFKA_REST_HOST_NAME": "rest-proxy",
            "KAFKA_REST_LISTENERS": "http://0.0.0.0:8082",
        },
        {"PLAINTEXT": "kafka:29092", "PLAINTEXT_HOST": "localhost:9092"},
    ),
    Form(
        "defaults of the image",
        Image.CONFLUENT_LOCAL,
        {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://host.docker.internal:9092"},
        {"PLAINTEXT": "host.docker.internal:9092"},
    ),
)

BITNAMI = (
    *(
        Form(
            f"smallest environment: {', '.join(variables)}",
            Image.BITNAMI,
            variables,
            {"PLAINTEXT": f"{HOSTNAME}:9092"},
            has_zookeeper=any("ZOOKEEPER" in name for name in variables),
        )
        for variables in (
            {"ALLOW_PLAINTEXT_LISTENER": "yes", "KAFKA_CFG_ZOOKEEPER_CONNECT": "zookeeper:2181"},
            {"ALLOW_PLAINTEXT_LISTENER": "yes", "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181"},
            {"ALLOW_PLAINTEXT_LISTENER": "yes", "KAFKA_ENABLE_KRAFT": "yes"},
            {"KAFKA_KRAFT_CLUSTER_ID": "abcdefghijklmnopqrstug"},
        )
    ),
    Form(
        "KRaft without advertised listeners",
        Image.BITNAMI,
        _configured(
            LISTENERS="PLAINTEXT://:9092,CONTROLLER://:9093",
            LISTENER_SECURITY_PROTOCOL_MAP="CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        ),
        {"PLAINTEXT": f"{HOSTNAME}:9092"},
    ),
    Form(
        "ZooKeeper and an advertised address",
        Image.BITNAMI,
        {
            "KAFKA_CFG_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "ALLOW_PLAINTEXT_LISTENER": "yes",
            "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092",
        },
        {"PLAINTEXT": "kafka:9092"},
        has_zookeeper=True,
    ),
    Form(
        "external listener",
        Image.BITNAMI,
        _configured(
            LISTENERS="PLAINTEXT://:9092,CONTROLLER://:9093,EXTERNAL://0.0.0.0:9094",
            ADVERTISED_LISTENERS="PLAINTEXT://kafka:9092,EXTERNAL://localhost:9094",
            LISTENER_SECURITY_PROTOCOL_MAP=(
                "CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT"
            ),
        ),
        {"PLAINTEXT": "kafka:9092", "EXTERNAL": "localhost:9094"},
    ),
    Form(
        "client and external names with an id of ZooKeeper's time",
        Image.BITNAMI,
        {
            "KAFKA_BROKER_ID": "1",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "ALLOW_ANONYMOUS_LOGIN": "yes",
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CLIENT:PLAINTEXT,EXTERNAL:PLAINTEXT",
            "KAFKA_CFG_LISTENERS": "CLIENT://:9092,EXTERNAL://:9093",
            "KAFKA_CFG_ADVERTISED_LISTENERS": "CLIENT://kafka:9092,EXTERNAL://192.168.2.15:9093",
            "KAFKA_CFG_INTER_BROKER_LISTENER_NAME": "CLIENT",
        },
        {"CLIENT": "kafka:9092", "EXTERNAL": "192.168.2.15:9093"},
        has_zookeeper=True,
    ),
    Form(
        "KRaft switch and a voter without a host",
        Image.BITNAMI,
        {
            "KAFKA_ENABLE_KRAFT": "yes",
            "KAFKA_KRAFT_CLUSTER_ID": "abcdefghijklmnopqrstug",
            **_configured(
                LISTENERS="PLAINTEXT://:9092,CONTROLLER://:9093",
                ADVERTISED_LISTENERS="PLAINTEXT://127.0.0.1:9092",
                CONTROLLER_QUORUM_VOTERS="0@127.0.0.1:9093",
            ),
        },
        {"PLAINTEXT": "127.0.0.1:9092"},
        cluster_id="abcdefghijklmnopqrstug",
    ),
    Form(
        "defaults of topics",
        Image.BITNAMI,
        _configured(
            LISTENERS="PLAINTEXT://:9092,CONTROLLER://:9093",
            ADVERTISED_LISTENERS="PLAINTEXT://kafka:9092",
            AUTO_CREATE_TOPICS_ENABLE="true",
            NUM_PARTITIONS="4",
            DEFAULT_REPLICATION_FACTOR="1",
            MAX_REQUEST_SIZE="1048576",
            MAX_PARTITION_FETCH_BYTES="1048576",
        ),
        {"PLAINTEXT": "kafka:9092"},
        config={"num.partitions": "4"},
    ),
    Form(
        "users for SASL",
        Image.BITNAMI,
        {
            **_configured(
                LISTENERS="SASL_PLAINTEXT://:9092,CONTROLLER://:9093",
                ADVERTISED_LISTENERS="SASL_PLAINTEXT://kafka:9092",
                LISTENER_SECURITY_PROTOCOL_MAP=(
                    "CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
                ),
                SASL_MECHANISM_INTER_BROKER_PROTOCOL="PLAIN",
                INTER_BROKER_LISTENER_NAME="SASL_PLAINTEXT",
            ),
            "KAFKA_CLIENT_USERS": "alice,bob",
            "KAFKA_CLIENT_PASSWORDS": "pw-6,pw-7",
            "KAFKA_INTER_BROKER_USER": "admin",
            "KAFKA_INTER_BROKER_PASSWORD": "pw-8",
            "KAFKA_CONTROLLER_USER": "controller",
            "KAFKA_CONTROLLER_PASSWORD": "pw-9",
        },
        {"SASL_PLAINTEXT": "kafka:9092"},
        login=("SCRAM-SHA-256", "bob", "pw-7"),
    ),
    Form(
        "passwords in a secret file",
        Image.BITNAMI,
        {
            **_configured(
                LISTENERS="CLIENT://:9092,CONTROLLER://:9093",
                ADVERTISED_LISTENERS="CLIENT://kafka:9092",
                LISTENER_SECURITY_PROTOCOL_MAP="CONTROLLER:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
                SASL_ENABLED_MECHANISMS="PLAIN",
                SASL_MECHANISM_INTER_BROKER_PROTOCOL="PLAIN",
                INTER_BROKER_LISTENER_NAME="CLIENT",
            ),
            "KAFKA_CLIENT_USERS": "alice",
            "KAFKA_CLIENT_PASSWORDS_FILE": "/run/secrets/passwords",
        },
        {"CLIENT": "kafka:9092"},
        login=("PLAIN", "alice", "pw-10"),
        files={"/run/secrets/passwords": "pw-10\n"},
    ),
    Form(
        "default user",
        Image.BITNAMI,
        _configured(
            LISTENERS="EXTERNAL://:9094,CONTROLLER://:9093",
            ADVERTISED_LISTENERS="EXTERNAL://localhost:9094",
            LISTENER_SECURITY_PROTOCOL_MAP="CONTROLLER:PLAINTEXT,EXTERNAL:SASL_PLAINTEXT",
            INTER_BROKER_LISTENER_NAME="EXTERNAL",
        ),
        {"EXTERNAL": "localhost:9094"},
        login=("PLAIN", "user", "bitnami"),
    ),
    Form(
        "quick start without a map",
        Image.BITNAMI,
        {
            "KAFKA_CFG_NODE_ID": "1",
            "KAFKA_CFG_PROCESS_ROLES": "broker,controller",
            "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
        },
        {"PLAINTEXT": "localhost:9092"},
    ),
    Form(
        "advertised ports without hosts",
        Image.BITNAMI,
        {
            "BITNAMI_DEBUG": "true",
            **_configured(
                LISTENERS="PLAINTEXT://:9092,CONTROLLER://:9093,EXTERNAL://:9094",
                ADVERTISED_LISTENERS="PLAINTEXT://:9092,EXTERNAL://:9094",
                LISTENER_SECURITY_PROTOCOL_MAP=(
                    "CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT"
                ),
                INTER_BROKER_LISTENER_NAME="PLAINTEXT",
            ),
        },
        {"PLAINTEXT": f"{HOSTNAME}:9092", "EXTERNAL": f"{HOSTNAME}:9094"},
    ),
    Form(
        "variables with both prefixes",
        Image.BITNAMI,
        {
            "KAFKA_ADVERTISED_HOST_NAME": "kafka",
            "KAFKA_CFG_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092,INTERNAL://kafka:9093",
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
            "KAFKA_CFG_LISTENERS": "PLAINTEXT://0.0.0.0:9092,INTERNAL://0.0.0.0:9093",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "INTERNAL",
            "ALLOW_PLAINTEXT_LISTENER": "yes",
            "KAFKA_LOG_RETENTION_HOURS": "1",
            "KAFKA_CLEANUP_POLICY": "delete",
        },
        {"PLAINTEXT": "localhost:9092", "INTERNAL": "kafka:9093"},
        config={"log.retention.hours": "1"},
        has_zookeeper=True,
    ),
    Form(
        "properties without the prefix of the image",
        Image.BITNAMI,
        {
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:19092",
            "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:19092",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
        },
        {"PLAINTEXT": "localhost:19092"},
        has_zookeeper=True,
    ),
    Form(
        "password between brokers without a user",
        Image.BITNAMI,
        {
            **_configured(
                LISTENERS="BROKER://:9092,CONTROLLER://:9093",
                ADVERTISED_LISTENERS="BROKER://127.0.0.1:9092",
                LISTENER_SECURITY_PROTOCOL_MAP="CONTROLLER:SASL_PLAINTEXT,BROKER:SASL_PLAINTEXT",
                INTER_BROKER_LISTENER_NAME="BROKER",
                SASL_MECHANISM_CONTROLLER_PROTOCOL="PLAIN",
                SASL_MECHANISM_INTER_BROKER_PROTOCOL="PLAIN",
            ),
            "KAFKA_CLIENT_USERS": "user",
            "KAFKA_CLIENT_PASSWORDS": "pw-23",
            "KAFKA_INTER_BROKER_PASSWORD": "pw-23",
            "KAFKA_CONTROLLER_PASSWORD": "pw-23",
        },
        {"BROKER": "127.0.0.1:9092"},
        login=("PLAIN", "user", "pw-23"),
    ),
    Form(
        "listener with the name of a mechanism",
        Image.BITNAMI,
        {
            **_configured(
                LISTENERS="SASL_SCRAM://:9092,CONTROLLER://:9093",
                ADVERTISED_LISTENERS="SASL_SCRAM://localhost:9092",
                LISTENER_SECURITY_PROTOCOL_MAP=(
                    "CONTROLLER:SASL_PLAINTEXT,SASL_SCRAM:SASL_PLAINTEXT"
                ),
                INTER_BROKER_LISTENER_NAME="SASL_SCRAM",
                SASL_ENABLED_MECHANISMS="SCRAM-SHA-256,SCRAM-SHA-512",
                SASL_MECHANISM_INTER_BROKER_PROTOCOL="SCRAM-SHA-512",
                SASL_MECHANISM_CONTROLLER_PROTOCOL="PLAIN",
            ),
            "KAFKA_CONTROLLER_USER": "controller",
            "KAFKA_CONTROLLER_PASSWORD": "pw-24",
            "KAFKA_INTER_BROKER_USER": "broker",
            "KAFKA_INTER_BROKER_PASSWORD": "pw-25",
            "KAFKA_CLIENT_USERS": "user256,user512",
            "KAFKA_CLIENT_PASSWORDS": "pw-26,pw-27",
        },
        {"SASL_SCRAM": "localhost:9092"},
        login=("SCRAM-SHA-512", "user512", "pw-27"),
    ),
    Form(
        "plain and secured listeners with old names",
        Image.BITNAMI,
        {
            **_configured(
                BROKER_ID="0",
                ADVERTISED_HOST_NAME="localhost",
                LISTENER_SECURITY_PROTOCOL_MAP=(
                    "CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT,SASL:SASL_PLAINTEXT"
                ),
                LISTENERS="CONTROLLER://:9094,PLAIN://:9092,SASL://:9093",
                ADVERTISED_LISTENERS="PLAIN://localhost:9092,SASL://localhost:9093",
                INTER_BROKER_LISTENER_NAME="PLAIN",
                SASL_ENABLED_MECHANISMS="PLAIN",
            ),
            "KAFKA_CLIENT_USERS": "adminplain",
            "KAFKA_CLIENT_PASSWORDS": "pw-28",
        },
        {"PLAIN": "localhost:9092", "SASL": "localhost:9093"},
        login=("PLAIN", "adminplain", "pw-28"),
    ),
    Form(
        "SASL with ZooKeeper, and a map without the prefix of the image",
        Image.BITNAMI,
        {
            "KAFKA_CFG_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_ZOOKEEPER_PROTOCOL": "SASL",
            "KAFKA_CFG_LISTENERS": "SASL_PLAINTEXT://:9092,PLAINTEXT://:9094",
            "KAFKA_CFG_ADVERTISED_LISTENERS": "SASL_PLAINTEXT://localhost:9092,PLAINTEXT://:9094",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
                "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
            ),
            "KAFKA_CFG_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_CLIENT_USERS": "user",
            "KAFKA_CLIENT_PASSWORDS": "pw-29",
        },
        {"SASL_PLAINTEXT": "localhost:9092", "PLAINTEXT": f"{HOSTNAME}:9094"},
        login=("SCRAM-SHA-512", "user", "pw-29"),
        has_zookeeper=True,
    ),
)

WURSTMEISTER = (
    Form(
        "host name and topics",
        Image.WURSTMEISTER,
        {
            "KAFKA_ADVERTISED_HOST_NAME": "localhost",
            "KAFKA_CREATE_TOPICS": "orders:3:1,prices:1:1:compact",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
        },
        {"PLAINTEXT": "localhost:9092"},
        topics={"orders": 3, "prices": 1},
        has_zookeeper=True,
    ),
    Form(
        "advertised port",
        Image.WURSTMEISTER,
        {
            "KAFKA_BROKER_ID": "-1",
            "KAFKA_ADVERTISED_HOST_NAME": "192.168.99.100",
            "KAFKA_ADVERTISED_PORT": "9092",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
        },
        {"PLAINTEXT": "192.168.99.100:9092"},
        has_zookeeper=True,
    ),
    Form(
        "two listeners and topics on lines",
        Image.WURSTMEISTER,
        {
            "KAFKA_ADVERTISED_LISTENERS": "INSIDE://kafka:9092,OUTSIDE://localhost:9093",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "KAFKA_LISTENERS": "INSIDE://0.0.0.0:9092,OUTSIDE://0.0.0.0:9093",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "INSIDE",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_CREATE_TOPICS": "in:2:1\nout:1:1\n",
            "KAFKA_CREATE_TOPICS_SEPARATOR": "$'\\n'",
        },
        {"INSIDE": "kafka:9092", "OUTSIDE": "localhost:9093"},
        topics={"in": 2, "out": 1},
        has_zookeeper=True,
    ),
    Form(
        "port without a host name",
        Image.WURSTMEISTER,
        {
            "KAFKA_ADVERTISED_PORT": "9092",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_CREATE_TOPICS": "ping:3:1,pong:3:1,events:3:1",
            "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        },
        {"PLAINTEXT": f"{HOSTNAME}:9092"},
        topics={"ping": 3, "pong": 3, "events": 3},
        config={"auto.create.topics.enable": "false"},
        has_zookeeper=True,
    ),
    Form(
        "host name with listeners, and a path of ZooKeeper",
        Image.WURSTMEISTER,
        {
            "KAFKA_ADVERTISED_HOST_NAME": "kafka",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181/kafka",
            "KAFKA_LISTENERS": "PLAINTEXT://:9092",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://192.168.0.5:9092",
            "KAFKA_BROKER_ID": "1",
        },
        {"PLAINTEXT": "192.168.0.5:9092"},
        has_zookeeper=True,
    ),
)

FORMS = (*APACHE, *NATIVE, *CONFLUENT, *CONFLUENT_LOCAL, *BITNAMI, *WURSTMEISTER)
