"""ControlClient: commands to a broker of another process, and errors."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.client import ControlClient, ControlError
from kafkalite.control.commands.client_metrics import ShowClientMetrics, ShowPrometheusText
from kafkalite.control.commands.clock import ChangeClock, ShowClock
from kafkalite.control.commands.explain import Explain
from kafkalite.control.commands.faults import AddFault, ClearFaults, ListFaults, RemoveFault
from kafkalite.control.commands.leaders import MoveLeader
from kafkalite.control.commands.nodes import AddNode, ChangeNode, ListNodes, RemoveNode
from kafkalite.control.endpoint import Endpoint
from kafkalite.gateway.fault_rules import Action, Disconnect, Match, Trigger
from kafkalite.testing import Broker
from tests.unit.telemetry.pushes import counter, push_metrics, serialized

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(control=True, clock="manual") as running:
        yield running


def test_the_clock_is_controlled_and_the_history_returned(broker: Broker) -> None:
    client = ControlClient(Endpoint(broker.control_url))
    before_ms = client.send(ShowClock()).now_ms
    assert client.send(ChangeClock(advance_ms=1_000)).now_ms == before_ms + 1_000
    assert client.send(Explain("g")).entries == ()
    assert client.send(Explain(limit=5)).groups == ()


def test_faults_are_added_listed_and_removed(broker: Broker) -> None:
    client = ControlClient(Endpoint(broker.control_url))
    action = Action(disconnect=Disconnect.BEFORE)
    added = client.send(AddFault(Match(group="g"), Trigger(), action))
    client.send(AddFault(Match(), Trigger(nth=3), Action(delay_ms=5)))
    assert client.send(ListFaults()).faults[0] == added
    assert client.send(RemoveFault(added.id)) == added
    with pytest.raises(ControlError, match="there is no fault"):
        client.send(RemoveFault(added.id))
    assert len(client.send(ClearFaults()).faults) == 1
    assert client.send(ListFaults()).faults == ()


def test_client_metrics_are_returned_as_json_and_as_text(broker: Broker) -> None:
    with pytest.raises(ControlError, match=r"kafkalite\.client\.telemetry=true"):
        ControlClient(Endpoint(broker.control_url)).send(ShowClientMetrics())
    with Broker(control=True, config={"kafkalite.client.telemetry": "true"}) as receiving:
        client = ControlClient(Endpoint(receiving.control_url))
        push_metrics(receiving, serialized(counter(topic="t")))
        (found,) = client.send(ShowClientMetrics("conformance")).clients
        assert (found.address, found.metrics[0].labels) == ("127.0.0.1", {"topic": "t"})
        assert client.send(ShowClientMetrics("a&b")).clients == ()
        assert client.send(ShowClientMetrics()).problem is None
        assert 'messages_total{client_id="conformance"' in client.send(ShowPrometheusText())
        assert client.send(ShowPrometheusText("other")) == ""


def test_nodes_are_listed_and_changed_and_leaders_moved() -> None:
    with Broker(
        brokers=2, topics={"t": 1}, control=True, config={"default.replication.factor": 2}
    ) as broker:
        client = ControlClient(Endpoint(broker.control_url))
        assert [node.id for node in client.send(ListNodes()).nodes] == [1, 2]
        assert client.send(ChangeNode(2, "isolated")).state == "isolated"
        assert client.send(ChangeNode(2, "running")) == client.send(ListNodes()).nodes[1]
        assert client.send(AddNode(config={"broker.rack": "b"})).rack == "b"
        assert client.send(RemoveNode(3)).state == "removed"
        (leader,) = (node.id for node in client.send(ListNodes()).nodes if node.led_partitions)
        moved = client.send(MoveLeader("t", 0, 3 - leader))
        assert (moved.leader, moved.leader_epoch) == (3 - leader, 1)
        with pytest.raises(ControlError, match=r"^there is no node 3: the nodes are 1, 2$"):
            client.send(ChangeNode(3, "stopped"))
        with pytest.raises(ControlError, match=r"^INVALID_REPLICA_ASSIGNMENT: "):
            client.send(MoveLeader("t", 0, 3))


def test_a_refusal_has_the_message_of_the_broker(broker: Broker) -> None:
    with pytest.raises(ControlError, match="time only moves forward"):
        ControlClient(Endpoint(broker.control_url)).send(ChangeClock(now_ms=0))


def test_an_unreachable_broker_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    with pytest.raises(ControlError, match=r"no control endpoint answers at .*refused.*--control"):
        ControlClient(Endpoint(f"http://127.0.0.1:{port}")).send(ShowClock())


@pytest.mark.parametrize(
    "answer",
    [b"", b"\0\0\0\x04Kafk", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[}",
     b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
     b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno"],
)  # fmt: skip
def test_another_program_at_the_address_is_reported(answer: bytes) -> None:
    with pytest.raises(ControlError) as refusal, _program_that_answers(answer) as client:
        client.send(ShowClock())
    assert "\n" not in str(refusal.value)


def test_an_answer_that_is_no_text_is_reported() -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n\xff\xfe"
    with (
        pytest.raises(ControlError, match="no control endpoint answers at"),
        _program_that_answers(answer) as client,
    ):
        client.send(ShowPrometheusText())


@contextmanager
def _program_that_answers(answer: bytes) -> Iterator[ControlClient]:
    """Yield a client of a program that sends `answer` to any request."""

    def serve() -> None:
        with server, server.accept()[0] as peer:
            peer.recv(10_000)
            peer.sendall(answer)

    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield ControlClient(Endpoint(f"http://127.0.0.1:{port}"))
    finally:
        thread.join()
