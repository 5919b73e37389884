"""BrokerIncidents: what happens to members, producers and coordinators in a test."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.testing import Broker
from tests.conformance.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    config = {"group.consumer.assignment.interval.ms": 0}
    with Broker(topics={"orders": 2}, clock="manual", config=config) as running:
        yield running


@pytest.fixture(scope="module")
def client(broker: Broker) -> Iterator[RawClient]:
    with closing(RawClient(int(broker.bootstrap_servers.rpartition(":")[2]))) as client:
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["shop"]), 4)
        client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["payments"]), 4)
        yield client


def beat(
    client: RawClient, member: str, epoch: int = 0, *, group: str = "shop"
) -> tuple[ErrorCode, int]:
    """Send a heartbeat of a member; return its error and the member epoch."""
    request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch)
    if not epoch:
        request.rebalance_timeout_ms = 60_000
        request.subscribed_topic_names, request.topic_partitions = ["orders"], []
    answer = client.call(request, 1)
    return ErrorCode(answer.error_code), answer.member_epoch


def test_an_expelled_member_is_unknown(broker: Broker, client: RawClient) -> None:
    _, epoch = beat(client, "alice")
    expelled = broker.expel("alice")
    assert (expelled.group_id, expelled.member_id) == ("shop", "alice")
    assert beat(client, "alice", epoch)[0] is ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.group("shop").members == ()
    (event,) = [each for each in broker.explain("shop") if each.kind == "expelled"]
    assert event.text == "member alice removed: expelled by a command"
    with pytest.raises(ValueError, match=r"^there is no member 'alice' in any group$"):
        broker.expel("alice")
    with pytest.raises(ValueError, match=r"^there is no group 'shap'; similar names are shop$"):
        broker.expel("alice", group="shap")


def test_a_rebalance_raises_the_epoch_of_a_group(broker: Broker, client: RawClient) -> None:
    _, epoch = beat(client, "bob", group="bakery")
    assert broker.rebalance("bakery").members == 1
    assert beat(client, "bob", epoch, group="bakery") == (ErrorCode.NONE, epoch + 1)
    broker.expel("bob", "bakery")
    with pytest.raises(ValueError, match=r"^group 'bakery' has no members$"):
        broker.rebalance("bakery")


def test_a_fenced_id_has_a_later_epoch(broker: Broker, client: RawClient) -> None:
    request = InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=60_000)
    producer = client.call(request, 4)
    fenced = broker.fence("payments")
    assert fenced.producer_epoch == producer.producer_epoch + 1
    again = InitProducerIdRequest(
        transactional_id="payments",
        transaction_timeout_ms=60_000,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
    )
    assert client.call(again, 4).error_code == ErrorCode.PRODUCER_FENCED
    with pytest.raises(ValueError, match="'other' cannot be fenced: TRANSACTIONAL_ID_NOT_FOUND"):
        broker.fence("other")


def test_a_coordinator_is_loaded_again(broker: Broker, client: RawClient) -> None:
    _, epoch = beat(client, "carol", group="cafe")
    assert len(broker.reload("group").partitions) > 1
    assert len(broker.reload("group", "cafe").partitions) == 1
    assert len(broker.reload("transaction", "payments").partitions) == 1
    assert beat(client, "carol", epoch, group="cafe")[0] is ErrorCode.NONE


def test_arguments_beyond_their_limits_are_refused() -> None:
    with Broker() as broker:
        fault = broker.faults.add(api="Produce", hold=True)
        with pytest.raises(ValueError, match=r"^count must be a whole number from 1, not -1$"):
            fault.release(-1)
        with pytest.raises(ValueError, match=r"^coordinator must be group, transaction or share, "):
            broker.reload("grop")
