"""Recognition of clusters of several containers by their environments."""

from __future__ import annotations

import pytest

from kafkalite.docker.membership import PRIMARY_PORT
from kafkalite.docker.properties import VariableError
from kafkalite.docker.start import plan_from
from tests.unit.docker.cluster_environments import CLUSTER_FORMS, ClusterForm, apache_combined


@pytest.mark.parametrize("form", CLUSTER_FORMS, ids=lambda form: form.name)
def test_containers_of_a_cluster_agree_on_the_primary(form: ClusterForm) -> None:
    primaries, brokers = [], set()
    for host, environment in form.containers.items():
        translation = plan_from(environment, host).translation
        own = translation.membership
        assert own is not None
        assert (own.host, own.port) == (form.primary, PRIMARY_PORT)
        assert own.named_by == form.named_by
        if own.is_primary:
            primaries.append(host)
        if not translation.is_controller_only:
            brokers.add(own.node_id)
    assert primaries == [form.primary]
    assert brokers == form.brokers


def test_container_with_a_generated_name_finds_out_by_the_addresses_of_the_primary() -> None:
    environment = {
        "KAFKALITE_PRIMARY": "broker1:7000",
        "KAFKA_BROKER_ID": "1",
        "KAFKALITE_CLUSTER_SECRET": "s1",
    }
    own = plan_from(environment, "0123456789ab").translation.membership
    assert own is not None
    assert (own.host, own.port, own.is_primary, own.secret) == ("broker1", 7000, None, "s1")


def test_expected_nodes_are_those_of_the_list_if_all_controllers_are_brokers() -> None:
    hosts = {node_id: f"k{node_id}" for node_id in (1, 2, 3, 4, 5)}
    own = plan_from(apache_combined(hosts)["k2"], "k2").translation.membership
    assert own is not None
    assert (own.is_primary, own.expected_nodes) == (False, 5)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181", "KAFKA_BROKER_ID": "1"},
        {"KAFKA_BROKER_ID": "3"},
        {
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_NODE_ID": "1",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@kafka:9093",
        },
        {
            "KAFKA_PROCESS_ROLES": "broker",
            "KAFKA_NODE_ID": "1",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@box:9093",
        },
        {"KAFKA_PROCESS_ROLES": "controller", "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093"},
        {
            "KAFKA_PROCESS_ROLES": "broker",
            "KAFKA_NODE_ID": "2",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@controller:9093",
            "KAFKALITE_BROKERS": "1",
        },
    ],
    ids=["empty", "zookeeper", "id", "combined", "broker", "controller", "size"],
)
def test_container_that_is_the_whole_cluster_has_no_membership(
    environment: dict[str, str],
) -> None:
    assert plan_from(environment, "box").translation.membership is None


@pytest.mark.parametrize(
    ("environment", "error"),
    [
        ({"KAFKA_ZOOKEEPER_CONNECT": "z:2181", "KAFKA_BROKER_ID": "2"},
         ("KAFKA_BROKER_ID=2 is rarely the id of the only broker of a ZooKeeper: if other "
         "containers are brokers of the same cluster, set KAFKALITE_PRIMARY in all of them to the "
         "host name of one; if this container is the whole cluster, set KAFKALITE_BROKERS=1")),
        ({"KAFKA_ZOOKEEPER_CONNECT": "z:2181", "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "3"},
         ("KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=3 needs 3 nodes, but there is 1: .* set "
         "KAFKALITE_PRIMARY in all .* set KAFKALITE_BROKERS=3")),
        ({"KAFKALITE_PRIMARY": "a"},
         "KAFKA_BROKER_ID is not set to a number: each container of a cluster needs an id"),
        ({"KAFKALITE_PRIMARY": "a:0", "KAFKA_BROKER_ID": "1"},
         "KAFKALITE_PRIMARY: 'a:0' is not the host name of a container"),
        ({"KAFKALITE_PRIMARY": "a", "KAFKALITE_BROKERS": "3"},
         "KAFKALITE_BROKERS and KAFKALITE_PRIMARY are both set"),
        ({"KAFKA_PROCESS_ROLES": "broker,controller", "KAFKA_NODE_ID": "1",
          "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093,2@localhost:9193"},
         ("KAFKA_CONTROLLER_QUORUM_VOTERS has 2 nodes, but other containers cannot connect to the "
         "host localhost .* set KAFKALITE_BROKERS=2")),
        ({"KAFKA_PROCESS_ROLES": "broker", "KAFKA_NODE_ID": "1",
          "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a,2@b:9093"},
         "KAFKA_CONTROLLER_QUORUM_VOTERS: '1@a' is not the address of a node: write ID@HOST:PORT"),
    ],
)  # fmt: skip
def test_environment_without_a_primary_is_refused(environment: dict[str, str], error: str) -> None:
    with pytest.raises(VariableError, match=error):
        plan_from(environment, "box")
