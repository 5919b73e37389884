"""The requests of a run, as a cluster records them."""

from __future__ import annotations

from itertools import pairwise

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


def test_the_request_after_the_end_of_a_transaction_is_marked() -> None:
    recorder = RequestRecorder()
    with Broker(topics={"orders": 1}, storage="memory") as broker:
        broker._call(lambda server: server.subscribe(recorder.observe))
        settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "pay"}
        producer = Producer(settings)
        producer.init_transactions(30)
        for _ in range(2):
            producer.begin_transaction()
            producer.produce("orders", b"apples")
            producer.commit_transaction(30)
    named = [each for each in recorder.requests() if each.transactional_ids]
    after_end = [later for earlier, later in pairwise(named) if earlier.api == "EndTxn"]
    assert [each for each in named if each.follows_end] == after_end
    assert len(after_end) == 1


def test_a_client_id_of_all_runs_is_its_own_pattern() -> None:
    assert client_patterns([[produce("a-1")], [produce("a-1")]]) == {"a-1": "a-1"}


def test_an_id_that_no_other_run_has_selects_all_clients() -> None:
    assert client_patterns([[produce("a")], [produce("b")]]) == {"a": "*", "b": "*"}
