"""Gateways: the steps of clients of nodes and of clients of the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.authorization.step import AuthorizationStep
from kafkalite.gateway.fault_rules import parse_rule
from kafkalite.gateway.inter_broker import InterBrokerCalls
from kafkalite.metadata.client_quotas import QuotaAlteration
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.describe_quorum import DescribeQuorumRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from kafkalite.testing.clock import ManualClock
from tests.unit.server.client import METADATA_VERSION, Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kafkalite.gateway.gateway import Gateway


ANY_PORT = ("127.0.0.1:0",)
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker(Settings(listen=ANY_PORT, topics={"t": 3}))
    await broker.start()
    yield broker
    await broker.stop(grace_s=0.1)


async def test_clients_of_the_controller_have_a_listener() -> None:
    settings = Settings(listen=ANY_PORT, controller_listen="127.0.0.1:0", brokers=2)
    broker = Broker(settings)
    await broker.start()
    addresses = broker.bootstrap_by_listener()
    assert list(addresses) == ["PLAINTEXT", "CONTROLLER"]
    first, second = addresses["CONTROLLER"].split(",")
    for address in (first, second):
        client = await Client.to(address)
        answer = await client.ask(DescribeClusterRequest(endpoint_type=2), 2)
        assert [(each.broker_id, f"{each.host}:{each.port}") for each in answer.brokers] == [
            (1, first)
        ]
        client.send(MetadataRequest(topics=None), METADATA_VERSION)
        assert await client.is_closed()
        await client.close()
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=4, resource_name="1", configuration_keys=["advertised.listeners"]
    )
    client = await Client.to(broker.bootstrap_servers.partition(",")[0])
    answer = await client.ask(DescribeConfigsRequest(resources=[resource]), 4)
    (advertised,) = answer.results[0].configs
    assert "CONTROLLER" not in advertised.value
    await client.close()
    await broker.stop(grace_s=0.1)


async def test_an_authorizer_checks_clients_of_the_controller() -> None:
    broker = Broker(
        Settings(
            listen=ANY_PORT,
            controller_listen="127.0.0.1:0",
            config={"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"},
        )
    )
    await broker.start()
    client = await Client.to(broker.bootstrap_by_listener()["CONTROLLER"])
    answer = await client.ask(DescribeQuorumRequest(), 2)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    await client.close()
    await broker.stop(grace_s=0.1)


async def test_faults_apply_to_clients_of_the_controller() -> None:
    broker = Broker(Settings(listen=ANY_PORT, controller_listen="127.0.0.1:0"))
    await broker.start()
    addresses = broker.bootstrap_by_listener()
    match = {"api": "DescribeQuorum", "listener": "controller", "node": 1}
    rule = parse_rule({"match": match, "action": {"error": "REQUEST_TIMED_OUT"}})
    fault = broker.faults.add(rule)
    codes = {}
    for name in ("PLAINTEXT", "CONTROLLER"):
        client = await Client.to(addresses[name])
        codes[name] = (await client.ask(DescribeQuorumRequest(), 2)).error_code
        await client.close()
    assert codes == {"PLAINTEXT": ErrorCode.NONE, "CONTROLLER": ErrorCode.REQUEST_TIMED_OUT}
    broker.faults.remove(fault.id)
    client = await Client.to(addresses["CONTROLLER"])
    assert (await client.ask(DescribeQuorumRequest(), 2)).error_code == ErrorCode.NONE
    await client.close()
    await broker.stop(grace_s=0.1)


async def test_quotas_apply_to_clients_of_the_controller() -> None:
    clock = ManualClock()
    broker = Broker(Settings(listen=ANY_PORT, controller_listen="127.0.0.1:0"), clock=clock)
    await broker.start()
    assert broker.cluster is not None
    alteration = QuotaAlteration((("client-id", None),), (("controller_mutation_rate", 1.0),))
    broker.cluster.metadata.alter_client_quotas([alteration])
    found = []
    for number, address in enumerate(broker.bootstrap_by_listener().values()):
        topic = CreateTopicsRequest.CreatableTopic(
            name=f"t{number}", num_partitions=12, replication_factor=1
        )
        client = await Client.to(address)
        answer = await client.ask(CreateTopicsRequest(topics=[topic]), 7)
        found.append((answer.topics[0].error_code, answer.throttle_time_ms))
        await client.close()
    assert found == [(ErrorCode.NONE, 0), (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 1000)]
    entries = broker.history.about("t1", of=Entity.TOPIC)
    assert [each.kind for each in entries] == ["throttled"]
    await broker.stop(grace_s=0.1)


async def test_a_delayed_call_between_nodes_is_dropped_at_the_end() -> None:
    clock = ManualClock()
    broker = Broker(Settings(listen=ANY_PORT), clock=clock)
    await broker.start()
    assert broker.cluster is not None
    broker.faults.add(parse_rule({"action": {"delay_ms": 500}}))
    (node,) = broker.cluster.nodes.values()
    call = InterBrokerCalls(broker.gateway)
    answer = call(node, node, ApiKey.FIND_COORDINATOR, FindCoordinatorRequest())
    await broker.stop()
    clock.advance(500)
    assert not answer.is_resolved
    await broker.start()
    assert broker.faults.states() == []
    await broker.stop()


async def test_a_removed_node_is_forgotten_by_the_authorizer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forgotten: list[int] = []
    forget_node = AuthorizationStep.forget_node

    def forget(self: AuthorizationStep, node_id: int) -> None:
        forgotten.append(node_id)
        forget_node(self, node_id)

    monkeypatch.setattr(AuthorizationStep, "forget_node", forget)
    name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    broker = Broker(Settings(listen=ANY_PORT, brokers=2, config={"authorizer.class.name": name}))
    await broker.start()
    await broker.nodes.remove(2)
    assert forgotten == [2]
    await broker.stop(grace_s=0.1)


async def test_all_steps_are_installed_in_their_order_when_they_are_needed() -> None:
    settings = Settings(
        listen=ANY_PORT,
        controller_listen="127.0.0.1:0",
        brokers=2,
        as_version="redpanda",
        config={"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"},
    )
    broker = Broker(settings)
    await broker.start()
    assert broker.cluster is not None
    gateways = broker._gateways
    assert gateways is not None

    def names(gateway: Gateway) -> list[str]:
        return [type(step).__name__ for step in gateway.steps]

    assert names(gateways.of_nodes) == ["AuthorizationStep", "ProfileStep"]
    fault = broker.faults.add(parse_rule({"action": {"disconnect": True}}))
    broker.nodes.isolate(2)
    quota = (("producer_byte_rate", 1.0),)
    broker.cluster.metadata.alter_client_quotas([QuotaAlteration((("user", "u"),), quota)])
    for_all = ["Throttling", "AuthorizationStep", "ProfileStep"]
    assert names(gateways.of_nodes) == ["FaultStep", "ForwardingStep", *for_all]
    assert names(gateways.of_controllers) == ["FaultStep", *for_all]
    broker.faults.remove(fault.id)
    removal = (("producer_byte_rate", None),)
    broker.cluster.metadata.alter_client_quotas([QuotaAlteration((("user", "u"),), removal)])
    assert names(gateways.of_controllers) == ["AuthorizationStep", "ProfileStep"]
    await broker.stop(grace_s=0.1)
