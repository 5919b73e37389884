"""Environments of the containers of one cluster, in the forms that compose files have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
_PROTOCOLS: Final = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"


class ClusterForm(NamedTuple):
    """A cluster, with the environment of each container by its host name."""

    name: str
    containers: Mapping[str, Mapping[str, str]]
    primary: str
    """The host name of the container that runs all nodes."""
    named_by: str
    """The variable that names the primary."""
    brokers: frozenset[int]
    """The ids of the nodes that clients see."""


def apache_combined(hosts: Mapping[int, str]) -> dict[str, dict[str, str]]:
    """Return containers of `apache/kafka` that are brokers and controllers, by host name."""
    voters = ",".join(f"{node_id}@{host}:9093" for node_id, host in hosts.items())
    return {
        host: {
            "CLUSTER_ID": CLUSTER_ID,
            "KAFKA_NODE_ID": f"{node_id}",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": voters,
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": _PROTOCOLS,
            "KAFKA_LISTENERS": "PLAINTEXT://:19092,CONTROLLER://:9093,PLAINTEXT_HOST://:9092",
            "KAFKA_ADVERTISED_LISTENERS": (
                f"PLAINTEXT://{host}:19092,PLAINTEXT_HOST://localhost:{19092 + 10000 * node_id}"
            ),
            "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            "KAFKA_LOG_DIRS": "/tmp/kraft-combined-logs",  # noqa: S108 - a path of the image
        }
        for node_id, host in hosts.items()
    }


def _apache_isolated() -> dict[str, dict[str, str]]:
    controllers = {node_id: f"controller-{node_id}" for node_id in (1, 2, 3)}
    voters = ",".join(f"{node_id}@{host}:9093" for node_id, host in controllers.items())
    shared = {
        "KAFKA_CONTROLLER_QUORUM_VOTERS": voters,
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    }
    containers = {
        host: {
            **shared,
            "KAFKA_NODE_ID": f"{node_id}",
            "KAFKA_PROCESS_ROLES": "controller",
            "KAFKA_LISTENERS": "CONTROLLER://:9093",
        }
        for node_id, host in controllers.items()
    }
    for node_id in (4, 5, 6):
        containers[f"broker-{node_id}"] = {
            **shared,
            "KAFKA_NODE_ID": f"{node_id}",
            "KAFKA_PROCESS_ROLES": "broker",
            "KAFKA_LISTENERS": "PLAINTEXT://:19092,PLAINTEXT_HOST://:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": _PROTOCOLS,
            "KAFKA_ADVERTISED_LISTENERS": (
                f"PLAINTEXT://broker-{node_id}:19092,PLAINTEXT_HOST://localhost:2900{node_id}"
            ),
        }
    return containers


def _bitnami() -> dict[str, dict[str, str]]:
    return {
        f"kafka-{node_id}": {
            "KAFKA_ENABLE_KRAFT": "yes",
            "KAFKA_KRAFT_CLUSTER_ID": CLUSTER_ID,
            "KAFKA_CFG_NODE_ID": f"{node_id}",
            "KAFKA_CFG_PROCESS_ROLES": "controller,broker",
            "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": ("0@kafka-0:9093,1@kafka-1:9093,2@kafka-2:9093"),
            "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_CFG_OFFSETS_TOPIC_REPLICATION_FACTOR": "3",
            "KAFKA_CFG_TRANSACTION_STATE_LOG_MIN_ISR": "2",
        }
        for node_id in range(3)
    }


def _confluent() -> dict[str, dict[str, str]]:
    return {
        f"kafka{node_id}": {
            "CLUSTER_ID": CLUSTER_ID,
            "KAFKA_NODE_ID": f"{node_id}",
            "KAFKA_BROKER_ID": f"{node_id}",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": ",".join(
                f"{each}@kafka{each}:29093" for each in range(1, 5)
            ),
            "KAFKA_LISTENERS": (
                f"PLAINTEXT://kafka{node_id}:29092,CONTROLLER://kafka{node_id}:29093,"
                "PLAINTEXT_HOST://0.0.0.0:9092"
            ),
            "KAFKA_ADVERTISED_LISTENERS": (
                f"PLAINTEXT://kafka{node_id}:29092,PLAINTEXT_HOST://localhost:909{node_id}"
            ),
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": _PROTOCOLS,
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "3",
            "KAFKA_JMX_PORT": "9101",
        }
        for node_id in range(1, 5)
    }


def _dynamic_quorum() -> dict[str, dict[str, str]]:
    return {
        f"node-{node_id}": {
            "KAFKA_NODE_ID": f"{node_id}",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": "node-1:9093,node-2:9093,node-3:9093",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://node-{node_id}:9092",
        }
        for node_id in (1, 2, 3)
    }


def _one_controller() -> dict[str, dict[str, str]]:
    shared = {"KAFKA_CONTROLLER_QUORUM_VOTERS": "1@controller:9093", "CLUSTER_ID": CLUSTER_ID}
    return {
        "controller": {
            **shared,
            "KAFKA_NODE_ID": "1",
            "KAFKA_PROCESS_ROLES": "controller",
            "KAFKA_LISTENERS": "CONTROLLER://:9093",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        },
        **{
            f"broker-{node_id}": {
                **shared,
                "KAFKA_NODE_ID": f"{node_id}",
                "KAFKA_PROCESS_ROLES": "broker",
                "KAFKA_LISTENERS": "PLAINTEXT://:9092",
                "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://broker-{node_id}:9092",
                "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            }
            for node_id in (2, 3)
        },
    }


def _zookeeper() -> dict[str, dict[str, str]]:
    return {
        f"broker{node_id}": {
            "KAFKALITE_PRIMARY": "broker1",
            "KAFKA_BROKER_ID": f"{node_id}",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_ADVERTISED_LISTENERS": (
                f"PLAINTEXT://broker{node_id}:29092,PLAINTEXT_HOST://localhost:909{node_id}"
            ),
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "3",
        }
        for node_id in (1, 2, 3)
    }


CLUSTER_FORMS: Final = (
    ClusterForm(
        "apache, brokers that are controllers",
        apache_combined({1: "kafka-1", 2: "kafka-2", 3: "kafka-3"}),
        "kafka-1",
        "KAFKA_CONTROLLER_QUORUM_VOTERS",
        frozenset((1, 2, 3)),
    ),
    ClusterForm(
        "apache, separate controllers",
        _apache_isolated(),
        "controller-1",
        "KAFKA_CONTROLLER_QUORUM_VOTERS",
        frozenset((4, 5, 6)),
    ),
    ClusterForm(
        "bitnami",
        _bitnami(),
        "kafka-0",
        "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS",
        frozenset((0, 1, 2)),
    ),
    ClusterForm(
        "confluent, four nodes",
        _confluent(),
        "kafka1",
        "KAFKA_CONTROLLER_QUORUM_VOTERS",
        frozenset((1, 2, 3, 4)),
    ),
    ClusterForm(
        "addresses of controllers without ids",
        _dynamic_quorum(),
        "node-1",
        "KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS",
        frozenset((1, 2, 3)),
    ),
    ClusterForm(
        "one controller and two brokers",
        _one_controller(),
        "controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS",
        frozenset((2, 3)),
    ),
    ClusterForm(
        "confluent with ZooKeeper",
        _zookeeper(),
        "broker1",
        "KAFKALITE_PRIMARY",
        frozenset((1, 2, 3)),
    ),
)
