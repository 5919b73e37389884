"""Environment variables of other Kafka images, as tables.

A variable is the name of a property of brokers with a prefix, or it is in one of these tables. The
reference page of the images is generated from them.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from kafkalite.ports.named_tuples import NamedTuple

PREFIX: Final = "KAFKA_"
BITNAMI_PREFIX: Final = "KAFKA_CFG_"
"""The prefix of properties in the environment of bitnami/kafka."""

BITNAMI_MARKS: Final = (
    "ALLOW_PLAINTEXT_LISTENER",
    "KAFKA_ENABLE_KRAFT",
    "KAFKA_KRAFT_CLUSTER_ID",
)
"""Variables that only the environment of bitnami/kafka has, apart from those with its prefix."""

SECRETS_DIRECTORY: Final = "/etc/kafka/secrets"
"""The directory with the key stores of apache/kafka and confluentinc/cp-kafka."""


class Image(Enum):
    """The images whose environments are accepted."""

    APACHE = "apache/kafka"
    NATIVE = "apache/kafka-native"
    CONFLUENT = "confluentinc/cp-kafka"
    CONFLUENT_LOCAL = "confluentinc/confluent-local"
    BITNAMI = "bitnami/kafka"
    WURSTMEISTER = "wurstmeister/kafka"


ALL: Final = tuple(Image)
_WITH_SECRETS: Final = (Image.APACHE, Image.NATIVE, Image.CONFLUENT, Image.CONFLUENT_LOCAL)


class Variable(NamedTuple):
    """A variable that is not the name of a property, and its effect."""

    name: str
    images: tuple[Image, ...]
    effect: str


OPTIONS: Final = (
    Variable("CLUSTER_ID", _WITH_SECRETS, "The id of the cluster."),
    Variable("KAFKA_KRAFT_CLUSTER_ID", (Image.BITNAMI,), "The id of the cluster."),
    Variable("KAFKA_CLUSTER_ID", (Image.BITNAMI,), "The id of the cluster."),
    Variable(
        "KAFKA_OPTS",
        ALL,
        "Only `-Djava.security.auth.login.config=FILE` has an effect: the section `KafkaServer` of "
        "the file configures the listeners with SASL.",
    ),
    Variable("KAFKA_LOG4J_ROOT_LOGLEVEL", _WITH_SECRETS, "The lowest level of log lines."),
    Variable(
        "KAFKA_CREATE_TOPICS",
        (Image.WURSTMEISTER,),
        "Topics to create at startup: `NAME:PARTITIONS:REPLICAS:CLEANUP_POLICY,…`; the last two "
        "parts are optional.",
    ),
    Variable(
        "KAFKA_CREATE_TOPICS_SEPARATOR",
        (Image.WURSTMEISTER,),
        "A regular expression that divides the topics, by default a comma.",
    ),
    Variable(
        "KAFKA_ADVERTISED_HOST_NAME",
        (Image.WURSTMEISTER,),
        "The advertised host if there is no `KAFKA_ADVERTISED_LISTENERS`.",
    ),
    Variable(
        "KAFKA_ADVERTISED_PORT",
        (Image.WURSTMEISTER,),
        "The advertised port if there is no `KAFKA_ADVERTISED_LISTENERS`, by default 9092.",
    ),
    Variable(
        "KAFKA_CLIENT_USERS",
        (Image.BITNAMI,),
        "Users of the listeners with SASL, divided by commas; by default `user`.",
    ),
    Variable(
        "KAFKA_CLIENT_PASSWORDS",
        (Image.BITNAMI,),
        "Their passwords in the same order; by default `bitnami`.",
    ),
    Variable("KAFKA_INTER_BROKER_USER", (Image.BITNAMI,), "One more user, by default `user`."),
    Variable(
        "KAFKA_INTER_BROKER_PASSWORD",
        (Image.BITNAMI,),
        "The password of that user, by default `bitnami`.",
    ),
    Variable("KAFKA_TLS_TYPE", (Image.BITNAMI,), "The format of the key store: `JKS` or `PEM`."),
    Variable(
        "KAFKA_CERTIFICATE_PASSWORD",
        (Image.BITNAMI,),
        "The password of the key store, of the trust store and of the key.",
    ),
    Variable("KAFKA_TLS_CLIENT_AUTH", (Image.BITNAMI,), "The value of `ssl.client.auth`."),
)
"""Variables with an effect of their own."""

OPTION_NAMES: Final = frozenset(option.name for option in OPTIONS)

SECRET_FILES: Final = (
    "KAFKA_CLIENT_USERS",
    "KAFKA_CLIENT_PASSWORDS",
    "KAFKA_INTER_BROKER_USER",
    "KAFKA_INTER_BROKER_PASSWORD",
    "KAFKA_CERTIFICATE_PASSWORD",
    "KAFKA_KRAFT_CLUSTER_ID",
)
"""Variables that also exist with the suffix `_FILE`: the value is then the path of a file."""


class StoreFile(NamedTuple):
    """A variable with the name of a file in the directory of secrets.

    `target` is the property that gets the path of the file, or its content if `is_content`.
    """

    name: str
    target: str
    is_content: bool = False


STORE_FILES: Final = (
    StoreFile("KAFKA_SSL_KEYSTORE_FILENAME", "ssl.keystore.location"),
    StoreFile("KAFKA_SSL_KEYSTORE_CREDENTIALS", "ssl.keystore.password", is_content=True),
    StoreFile("KAFKA_SSL_KEY_CREDENTIALS", "ssl.key.password", is_content=True),
    StoreFile("KAFKA_SSL_TRUSTSTORE_FILENAME", "ssl.truststore.location"),
    StoreFile("KAFKA_SSL_TRUSTSTORE_CREDENTIALS", "ssl.truststore.password", is_content=True),
)
STORE_FILE_IMAGES: Final = _WITH_SECRETS

PROPERTY_FILES: Final = (
    "/mnt/shared/config/server.properties",
    "/bitnami/kafka/config/server.properties",
    "/opt/bitnami/kafka/config/server.properties",
)
"""Paths at which a mounted properties file is read; variables take precedence over it."""

DATA_DIRECTORIES: Final = (
    ("/var/lib/kafka/data", "/var/lib/kafka/data"),
    ("/var/lib/kafka", "/var/lib/kafka/data"),
    ("/bitnami/kafka/data", "/bitnami/kafka/data"),
    ("/bitnami/kafka", "/bitnami/kafka/data"),
    ("/bitnami", "/bitnami/kafka/data"),
    ("/kafka", "/kafka/kafka-logs"),
    ("/tmp/kafka-logs", "/tmp/kafka-logs"),  # noqa: S108 - a path of images
    ("/tmp/kraft-combined-logs", "/tmp/kraft-combined-logs"),  # noqa: S108 - a path of images
)
"""Mount points of data volumes → the data directory if a volume is mounted there."""


class IgnoredVariables(NamedTuple):
    """Variables without effect: a pattern of names with `*`, and the reason."""

    pattern: str
    reason: str


_NO_JAVA: Final = "There is no Java virtual machine."
_NO_SCRIPT: Final = "The scripts that read it do not exist."
_NO_CONFLUENT: Final = "The services of Confluent Platform do not exist."

IGNORED: Final = (
    IgnoredVariables("KAFKA_HEAP_OPTS", _NO_JAVA),
    IgnoredVariables("KAFKA_JVM_*", _NO_JAVA),
    IgnoredVariables("KAFKA_JMX_*", _NO_JAVA),
    IgnoredVariables("KAFKA_GC_LOG_OPTS", _NO_JAVA),
    IgnoredVariables("KAFKA_LOG4J_*", "There are no loggers of Log4j."),
    IgnoredVariables("KAFKA_TOOLS_LOG4J_LOGLEVEL", "The tools write no log."),
    IgnoredVariables("KAFKA_DEBUG*", _NO_JAVA),
    IgnoredVariables("KAFKA_HOME", _NO_SCRIPT),
    IgnoredVariables("KAFKA_VERSION", _NO_SCRIPT),
    IgnoredVariables("KAFKA_BASE_DIR", _NO_SCRIPT),
    IgnoredVariables("KAFKA_CONF_*", _NO_SCRIPT),
    IgnoredVariables("KAFKA_DATA_DIR", _NO_SCRIPT),
    IgnoredVariables("KAFKA_VOLUME_DIR", _NO_SCRIPT),
    IgnoredVariables("KAFKA_MOUNTED_CONF_DIR", _NO_SCRIPT),
    IgnoredVariables("KAFKA_DAEMON_*", _NO_SCRIPT),
    IgnoredVariables("KAFKA_ENABLE_KRAFT", "The broker needs no ZooKeeper in any case."),
    IgnoredVariables("KAFKA_CONTROLLER_USER*", "Nodes do not authenticate to each other."),
    IgnoredVariables("KAFKA_CONTROLLER_PASSWORD*", "Nodes do not authenticate to each other."),
    IgnoredVariables("KAFKA_CONFLUENT_*", _NO_CONFLUENT),
    IgnoredVariables("KAFKA_REST_*", _NO_CONFLUENT),
    IgnoredVariables("KAFKA_SCHEMA_REGISTRY_*", _NO_CONFLUENT),
    IgnoredVariables("KAFKA_LICENSE_*", _NO_CONFLUENT),
    IgnoredVariables("KAFKA_METRIC_REPORTERS", _NO_CONFLUENT),
    IgnoredVariables("ALLOW_PLAINTEXT_LISTENER", "A listener may always be PLAINTEXT."),
    IgnoredVariables("BITNAMI_DEBUG", _NO_SCRIPT),
    IgnoredVariables("SCHEMA_REGISTRY_*", _NO_CONFLUENT),
)  # fmt: skip
"""Variables of programs that the image does not have; they are not reported."""

ZOOKEEPER: Final = (
    "KAFKA_ZOOKEEPER_*",
    "KAFKA_CFG_ZOOKEEPER_*",
    "ZOOKEEPER_*",
    "ZOO_*",
    "ALLOW_ANONYMOUS_LOGIN",
)
"""Patterns of variables for ZooKeeper; one notice reports all that are set."""

KUBERNETES: Final = (
    "KAFKA_SERVICE_*",
    "KAFKA_*_SERVICE_HOST",
    "KAFKA_*_SERVICE_PORT",
    "KAFKA_*_SERVICE_PORT_*",
    "KAFKA_*PORT_[0-9]*_TCP",
    "KAFKA_*PORT_[0-9]*_TCP_*",
)
"""Patterns of variables that Kubernetes adds for services whose names begin with kafka."""

KUBERNETES_VALUE: Final = "tcp://"
"""The start of the value of `KAFKA_PORT` if Kubernetes added it."""

REMOVED_PROPERTIES: Final = {
    "advertised.host.name": "",
    "advertised.port": "",
    "broker.id.generation.enable": "Kafka 4 removed it with ZooKeeper.",
    "control.plane.listener.name": "Kafka 4 removed it with ZooKeeper.",
    "delegation.token.master.key": "Kafka 4 removed it: set `KAFKA_DELEGATION_TOKEN_SECRET_KEY`.",
    "host.name": "Kafka 3 removed it: set `KAFKA_LISTENERS`.",
    "inter.broker.protocol.version": "Kafka 4 removed it; the nodes have one version.",
    "log.message.format.version": "Kafka 4 removed it; records have the current format.",
    "log.message.timestamp.difference.max.ms": "Kafka 4 removed it: set "
    "`KAFKA_LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS` and `KAFKA_LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS`.",
    "max.partition.fetch.bytes": "It is a property of consumers.",
    "max.request.size": "It is a property of producers.",
    "password.encoder.secret": "Kafka 4 removed it with ZooKeeper.",
    "port": "Kafka 3 removed it: set `KAFKA_LISTENERS`.",
    "replication.factor": "It is a property of Kafka Streams: set "
    "`KAFKA_DEFAULT_REPLICATION_FACTOR`.",
    "reserved.broker.max.id": "Kafka 4 removed it with ZooKeeper.",
    "sasl.jaas.config": "A broker reads `KAFKA_LISTENER_NAME_<NAME>_<MECHANISM>_SASL_JAAS_CONFIG`.",
    "sasl.mechanism": "It is a property of clients: set `KAFKA_SASL_ENABLED_MECHANISMS`.",
    "security.protocol": "It is a property of clients: set `KAFKA_LISTENER_SECURITY_PROTOCOL_MAP`.",
    "zookeeper.connect": "",
}
"""Properties that no broker of Kafka 4 has → a text for their notice."""

OTHER_IMAGES: Final = {
    "ADVERTISED_HOST": "KAFKA_ADVERTISED_HOST_NAME",
    "ADVERTISED_HOST_NAME": "KAFKA_ADVERTISED_HOST_NAME",
    "ADVERTISED_LISTENERS": "KAFKA_ADVERTISED_LISTENERS",
    "ADVERTISED_PORT": "KAFKA_ADVERTISED_PORT",
    "ADV_HOST": "KAFKA_ADVERTISED_HOST_NAME",
    "BROKER_ID": "KAFKA_BROKER_ID",
    "CREATE_TOPICS": "KAFKA_CREATE_TOPICS",
}
"""Variables without the prefix, of images such as debezium/kafka → the variable to set here."""

ZOOKEEPER_AUTHORIZERS: Final = frozenset(
    ("kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer")
)
"""Authorizers that stored their ACLs in ZooKeeper."""

AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The authorizer that takes their place; its rules are the same."""

REPLICATION_PROPERTIES: Final = (
    "default.replication.factor",
    "min.insync.replicas",
    "offsets.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
)
"""Properties with a number of replicas, which cannot exceed the number of nodes."""

BITNAMI_DEFAULTS: Final = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
    "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
}
"""Properties that are set if a variable with the prefix of bitnami/kafka is set.

Its map has PLAINTEXT and CONTROLLER only; here it also has the names that are protocols.
"""

CONFLUENT_LOCAL_DEFAULTS: Final = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
    "PLAINTEXT_HOST:PLAINTEXT",
}
"""Properties that confluentinc/confluent-local sets; here, if there is a listener CONTROLLER."""

BITNAMI_USER: Final = ("user", "bitnami")
"""The user and the password of bitnami/kafka if none is set."""


def property_name(variable: str) -> str:
    """Return the property that a variable sets: `KAFKA_LOG_DIRS` sets `log.dirs`.

    Three underscores are a hyphen, two are an underscore, and one is a dot.
    """
    prefix = BITNAMI_PREFIX if variable.startswith(BITNAMI_PREFIX) else PREFIX
    text = variable.removeprefix(prefix).lower().replace("_", ".")
    return text.replace("...", "-").replace("..", "_")


def variable_name(name: str) -> str:
    """Return the variable that sets a property, with the prefix of apache/kafka."""
    escaped = name.replace("_", "__").replace("-", "___").replace(".", "_")
    return PREFIX + escaped.upper()
