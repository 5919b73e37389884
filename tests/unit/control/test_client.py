"""ControlClient: commands to a broker of another process, and errors."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.client import ControlClient, ControlError
from kafkalite.control.endpoint import Endpoint
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
    before_ms = client.clock()["now_ms"]
    assert client.change_clock({"advance": "1s"})["now_ms"] == before_ms + 1_000
    assert client.explain("g", None)["entries"] == []
    assert client.explain(None, 5)["groups"] == []


def test_faults_are_added_listed_and_removed(broker: Broker) -> None:
    client = ControlClient(Endpoint(broker.control_url))
    added = client.add_fault({"match": {"group": "g"}, "action": {"disconnect": True}})
    client.add_fault({"action": {"delay_ms": 5}})
    assert client.faults()["faults"][0] == added
    assert client.remove_fault(added["id"]) == added
    with pytest.raises(ControlError, match="there is no fault"):
        client.remove_fault(added["id"])
    assert len(client.clear_faults()["faults"]) == 1
    assert client.faults()["faults"] == []


def test_client_metrics_are_returned_as_json_and_as_text(broker: Broker) -> None:
    with pytest.raises(ControlError, match=r"kafkalite\.client\.telemetry=true"):
        ControlClient(Endpoint(broker.control_url)).client_metrics()
    with Broker(control=True, config={"kafkalite.client.telemetry": "true"}) as receiving:
        client = ControlClient(Endpoint(receiving.control_url))
        push_metrics(receiving, serialized(counter(topic="t")))
        (found,) = client.client_metrics("conformance")["clients"]
        assert (found["address"], found["metrics"][0]["labels"]) == ("127.0.0.1", {"topic": "t"})
        assert client.client_metrics("a&b")["clients"] == []
        assert client.client_metrics()["problem"] is None
        assert 'messages_total{client_id="conformance"' in client.prometheus_text()
        assert client.prometheus_text("other") == ""


def test_nodes_are_listed_and_changed_and_leaders_moved() -> None:
    with Broker(
        brokers=2, topics={"t": 1}, control=True, config={"default.replication.factor": 2}
    ) as broker:
        client = ControlClient(Endpoint(broker.control_url))
        assert [node["id"] for node in client.nodes()["nodes"]] == [1, 2]
        assert client.change_node(2, {"state": "isolated"})["state"] == "isolated"
        assert client.change_node(2, {"state": "running"}) == client.nodes()["nodes"][1]
        assert client.add_node({"config": {"broker.rack": "b"}})["rack"] == "b"
        assert client.remove_node(3)["state"] == "removed"
        (leader,) = (node["id"] for node in client.nodes()["nodes"] if node["led_partitions"])
        moved = client.move_leader({"topic": "t", "partition": 0, "leader": 3 - leader})
        assert (moved["leader"], moved["leader_epoch"]) == (3 - leader, 1)
        with pytest.raises(ControlError, match=r"^there is no node 3: the nodes are 1, 2$"):
            client.change_node(3, {"state": "stopped"})
        with pytest.raises(ControlError, match=r"^INVALID_REPLICA_ASSIGNMENT: "):
            client.move_leader({"topic": "t", "partition": 0, "leader": 3})


def test_a_refusal_has_the_message_of_the_broker(broker: Broker) -> None:
    with pytest.raises(ControlError, match="is not a duration"):
        ControlClient(Endpoint(broker.control_url)).change_clock({"advance": "soon"})


def test_an_unreachable_broker_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    with pytest.raises(ControlError, match=r"no control endpoint answers at .*refused.*--control"):
        ControlClient(Endpoint(f"http://127.0.0.1:{port}")).clock()


@pytest.mark.parametrize(
    "answer",
    [b"", b"\0\0\0\x04Kafk", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[}",
     b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno"],
)  # fmt: skip
def test_another_program_at_the_address_is_reported(answer: bytes) -> None:
    with pytest.raises(ControlError) as refusal, _program_that_answers(answer) as client:
        client.clock()
    assert "\n" not in str(refusal.value)


def test_an_answer_that_is_no_text_is_reported() -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n\xff\xfe"
    with (
        pytest.raises(ControlError, match="no control endpoint answers at"),
        _program_that_answers(answer) as client,
    ):
        client.prometheus_text()


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
