"""Three emulated nodes: clients find partition leaders and group coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.client_libraries import client_named
from tests.clients.client_scenario import (
    PARTITIONS,
    Group,
    group_reads_while_members_come_and_go,
    group_resumes_after_a_restart,
)
from tests.clients.process import running_driver
from tests.oracle.served_kafkalite import ServedKafkalite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.client_libraries import Client
    from tests.clients.process import DriverProcess

pytestmark = pytest.mark.client

_NODES = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedKafkalite]:
    """Start three nodes in one process."""
    target = ServedKafkalite(tmp_path_factory.mktemp("cluster"), brokers=_NODES)
    target.start()
    yield target
    target.kill()


@pytest.fixture(params=["confluent-kafka", "java"])
def connected_driver(
    request: pytest.FixtureRequest,
    cluster: ServedKafkalite,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Client, DriverProcess]]:
    """Start one client's driver at the cluster."""
    client = client_named(request.param)
    with running_driver(client, cluster.bootstrap, tmp_path_factory.mktemp(client.name)) as driver:
        yield client, driver


def test_leaders_are_spread_over_the_nodes(cluster: ServedKafkalite) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    driver_topic = admin.list_topics("spread", timeout=20).topics["spread"]
    leaders = [partition.leader for partition in driver_topic.partitions.values()]
    assert len(leaders) == PARTITIONS
    assert len(set(leaders)) == _NODES
    nodes = admin.list_topics(timeout=20).brokers
    assert len({node.port for node in nodes.values()}) == _NODES


@pytest.mark.endurance
def test_client_scenario_on_three_nodes(
    connected_driver: tuple[Client, DriverProcess], cluster: ServedKafkalite, attempt: int
) -> None:
    client, driver = connected_driver
    for protocol in client.protocols:
        names = f"{client.name}-{protocol}-{attempt}"
        group = Group(driver, cluster, f"{names}-group", f"{names}-moving", protocol)
        group_reads_while_members_come_and_go(group)
        restarted_group = Group(driver, cluster, f"{names}-again", f"{names}-resumed", protocol)
        group_resumes_after_a_restart(restarted_group)
