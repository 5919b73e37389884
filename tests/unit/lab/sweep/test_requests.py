"""The requests of a run, as a cluster records them."""

from __future__ import annotations

from confluent_kafka import Producer

from kafkalite.lab.sweep.requests import Partition, RequestRecorder, client_patterns
from kafkalite.testing import Broker
from tests.unit.lab.sweep.seen import produce


def test_requests_are_recorded_with_what_they_name() -> None:
    recorder = RequestRecorder()
    with Broker(topics={"orders": 1}, storage="memory") as broker:
        broker._call(lambda server: server.subscribe(recorder.observe))
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "shop"})
        producer.produce("orders", b"apples")
        assert producer.flush(30) == 0
    requests = recorder.requests()
    assert requests[0].api == "ApiVersions"
    (produced,) = (each for each in requests if each.api == "Produce")
    assert (produced.client_id, produced.partitions, produced.acks) == (
        "shop",
        (Partition("orders", 0),),
        -1,
    )


def test_a_client_id_of_all_runs_is_its_own_pattern() -> None:
    assert client_patterns([[produce("a-1")], [produce("a-1")]]) == {"a-1": "a-1"}


def test_an_id_that_no_other_run_has_selects_all_clients() -> None:
    assert client_patterns([[produce("a")], [produce("b")]]) == {"a": "*", "b": "*"}
