"""Calls between nodes: they pass through installed steps, and may be lost, delayed or recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.gateway.steps import DisconnectError
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.state import ShareKey
from tests.cluster.shares import FIRST, ShareCluster, acquired, errors
from tests.cluster.transactions import TransactionCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafkalite.gateway.api import Api
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.steps import Handler

Passed = tuple[str | None, int, object]
"""Client id, receiving node and request of a call between nodes."""


class InterBrokerStep:
    """A step that records calls between nodes, and loses or delays them on demand."""

    def __init__(self, key: ApiKey) -> None:
        self.key = key
        self.passed: list[Passed] = []
        self.lost = 0
        """Calls that are lost before they are handled."""
        self.silent = 0
        """Calls that are handled, but whose answers are lost."""
        self.delays = False
        self.delayed: list[Callable[[], None]] = []

    def wrap(self, api: Api, version: int, handler: Handler) -> Handler:
        del version
        if api.key != self.key:
            return handler

        def handle(call: Call, request: Any) -> Any:  # noqa: ANN401 - any API
            if call.sender is None:
                return handler(call, request)
            self.passed.append((call.client_id, call.node.id, request))
            if self.lost:
                self.lost -= 1
                raise DisconnectError("lost between nodes")
            if self.silent:
                self.silent -= 1
                handler(call, request)
                return None
            if not self.delays:
                return handler(call, request)
            answer: Waiting[Any] = Waiting()
            self.delayed.append(lambda: answer.resolve(handler(call, request)))
            return answer

        return handle

    def deliver_next(self) -> None:
        """Deliver the oldest delayed call."""
        self.delayed.pop(0)()


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TransactionCluster]:
    wire = TransactionCluster(tmp_path, nodes=3)
    yield wire
    wire.end()


PLACES = [("orders", index) for index in range(3)]


def committed(wire: TransactionCluster) -> int:
    """Commit a transaction on all partitions; returns the node that coordinates it."""
    (coordinator,) = wire.find()
    producer = wire.new_producer(node=coordinator)
    wire.add(producer, *PLACES, node=coordinator)
    answer = wire.end_transaction(producer, node=coordinator)
    assert answer.error_code == 0
    return coordinator


def state(wire: TransactionCluster, node: int) -> str:
    name: str = wire.describe(node=node).transaction_state
    return name


def test_markers_are_sent_to_the_leader_of_each_partition(wire: TransactionCluster) -> None:
    wires = InterBrokerStep(ApiKey.WRITE_TXN_MARKERS)
    wire.gateway.install(wires)
    coordinator = committed(wire)
    leaders = {each.leader for each in wire.cluster.metadata.image.topics["orders"].partitions}
    assert leaders == {1, 2, 3}
    assert sorted(node for _, node, _ in wires.passed) == [1, 2, 3]
    assert {client_id for client_id, _, _ in wires.passed} == {f"broker-{coordinator}"}
    assert [len(wire.markers(*place)) for place in PLACES] == [1, 1, 1]
    assert state(wire, coordinator) == "CompleteCommit"


def test_a_transaction_completes_although_a_marker_is_lost(wire: TransactionCluster) -> None:
    wires = InterBrokerStep(ApiKey.WRITE_TXN_MARKERS)
    wires.lost = 1
    wire.gateway.install(wires)
    coordinator = committed(wire)
    assert sorted(len(wire.markers(*place)) for place in PLACES) == [0, 1, 1]
    assert state(wire, coordinator) == "PrepareCommit"
    wire.clock.advance(500)
    assert [len(wire.markers(*place)) for place in PLACES] == [1, 1, 1]
    assert state(wire, coordinator) == "CompleteCommit"
    assert len(wires.passed) == 4
    assert len(wire.cluster.outbox) == 0


def test_a_marker_is_sent_again_when_its_answer_times_out(
    wire: TransactionCluster,
) -> None:
    wires = InterBrokerStep(ApiKey.WRITE_TXN_MARKERS)
    wires.silent = 1
    wire.gateway.install(wires)
    coordinator = committed(wire)
    wire.clock.advance(29_999)
    assert state(wire, coordinator) == "PrepareCommit"
    wire.clock.advance(501)
    assert len(wires.passed) == 4
    first, *_, again = wires.passed
    assert first[1:] == again[1:]


def test_a_transaction_completes_after_a_delayed_marker(
    wire: TransactionCluster,
) -> None:
    wires = InterBrokerStep(ApiKey.WRITE_TXN_MARKERS)
    wires.delays = True
    wire.gateway.install(wires)
    coordinator = committed(wire)
    assert len(wires.delayed) == 3
    wires.deliver_next()
    wires.deliver_next()
    assert state(wire, coordinator) == "PrepareCommit"
    wires.deliver_next()
    assert state(wire, coordinator) == "CompleteCommit"


def test_a_stop_refuses_pending_calls(wire: TransactionCluster) -> None:
    wires = InterBrokerStep(ApiKey.WRITE_TXN_MARKERS)
    wires.delays = True
    wire.gateway.install(wires)
    coordinator = committed(wire)
    wire.gateway.remove(wires)
    wire.restart()
    wires.deliver_next()
    assert state(wire, coordinator) == "CompleteCommit"


def test_a_missing_node_cannot_be_reached(wire: TransactionCluster) -> None:
    with pytest.raises(KafkaError) as refusal:
        wire.cluster.nodes[1].send(9, ApiKey.WRITE_TXN_MARKERS, object())
    assert refusal.value.code is ErrorCode.NETWORK_EXCEPTION


# Share-group state


@pytest.fixture
def share(tmp_path: Path) -> Iterator[ShareCluster]:
    wire = ShareCluster(tmp_path, nodes=3, partitions=3)
    yield wire
    wire.cluster.stop()


def remote_share_partition(share: ShareCluster) -> tuple[int, int]:
    """Return a partition whose share state is on another node, and its leader."""
    image = share.cluster.metadata.image
    for each in image.topics["t"].partitions:
        key = ShareKey("g", share.topic_id, each.index)
        state_partition = share.cluster.shares.partition_for(key.text)
        if image.topics["__share_group_state"].partitions[state_partition].leader != each.leader:
            return each.index, each.leader
    raise AssertionError("all states are where their partitions are")


def test_a_leader_reads_and_writes_state_on_another_node(share: ShareCluster) -> None:
    reads = InterBrokerStep(ApiKey.READ_SHARE_GROUP_STATE)
    writes = InterBrokerStep(ApiKey.WRITE_SHARE_GROUP_STATE)
    share.gateway.install(reads)
    share.gateway.install(writes)
    index, leader = remote_share_partition(share)
    share.produce(5, index=index)
    got = share.fetch(FIRST, index=[index], node_id=leader)
    assert acquired(got) == {index: [(0, 4, 1)]}
    (read,) = reads.passed
    assert read[0] == f"broker-{leader}"
    assert read[1] != leader
    share.fetch(1, acks={index: [(0, 4, 1)]}, node_id=leader, max_wait_ms=0)
    (write,) = writes.passed
    assert write[1] == read[1]
    summary = share.cluster.shares.summary("g", share.topic_id, index)
    assert summary.delivery_complete_count == 5


def test_a_fetch_waits_until_a_lost_state_read_is_repeated(share: ShareCluster) -> None:
    reads = InterBrokerStep(ApiKey.READ_SHARE_GROUP_STATE)
    reads.lost = 2
    share.gateway.install(reads)
    index, leader = remote_share_partition(share)
    share.produce(5, index=index)
    got = share.fetch(FIRST, index=[index], node_id=leader)
    assert isinstance(got, Waiting)
    share.clock.advance(1_000)
    assert not got.is_resolved
    share.clock.advance(2_000)
    assert acquired(got) == {index: [(0, 4, 1)]}
    assert len(reads.passed) == 3


def test_a_partition_is_refused_if_its_state_cannot_be_read(
    share: ShareCluster,
) -> None:
    reads = InterBrokerStep(ApiKey.READ_SHARE_GROUP_STATE)
    reads.lost = 5
    share.gateway.install(reads)
    index, leader = remote_share_partition(share)
    got = share.fetch(FIRST, index=[index], node_id=leader)
    share.clock.advance(15_000)
    assert errors(got) == (0, {index: (ErrorCode.UNKNOWN_SERVER_ERROR, 0)})


def test_an_acknowledgement_is_answered_after_a_delayed_write(share: ShareCluster) -> None:
    writes = InterBrokerStep(ApiKey.WRITE_SHARE_GROUP_STATE)
    writes.delays = True
    share.gateway.install(writes)
    index, leader = remote_share_partition(share)
    share.produce(5, index=index)
    share.fetch(FIRST, index=[index], node_id=leader)
    got = share.fetch(1, acks={index: [(0, 4, 1)]}, node_id=leader, max_wait_ms=0)
    assert isinstance(got, Waiting)
    assert not got.is_resolved
    writes.deliver_next()
    assert errors(got)[1] == {index: (0, 0)}
    summary = share.cluster.shares.summary("g", share.topic_id, index)
    assert summary.delivery_complete_count == 5
