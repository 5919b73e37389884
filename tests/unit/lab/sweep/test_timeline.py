"""Time lines: the requests and events of a run."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition

from kafkalite.lab.sweep.requests import RequestRecorder
from kafkalite.lab.sweep.timeline import Moment, since_first, timeline
from kafkalite.testing import Broker


def test_a_time_line_has_requests_failures_and_events() -> None:
    recorder = RequestRecorder()
    with Broker(topics={"orders": 1}, storage="memory") as broker:
        broker._call(lambda server: server.subscribe(recorder.observe))
        broker.faults.add(api="OffsetCommit", error="COORDINATOR_LOAD_IN_PROGRESS", nth=1)
        consumer = Consumer({
            "bootstrap.servers": broker.bootstrap_servers, "group.id": "shop", "client.id": "a",
        })  # fmt: skip
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        consumer.close()
        moments = timeline(broker, recorder)
    assert [each.at_ms for each in moments] == sorted(each.at_ms for each in moments)
    (failure,) = (each for each in moments if each.kind == "failure")
    assert failure.text.startswith("a OffsetCommit v")
    assert " to node 1 shop orders: COORDINATOR_LOAD_IN_PROGRESS" in failure.text
    texts = [each.text for each in moments]
    assert any(" to node 1 shop orders: ok" in each for each in texts)
    assert "refused" in {each.kind for each in moments}


def test_equal_polls_are_one_moment() -> None:
    recorder = RequestRecorder()
    with Broker(topics={"orders": 1}, storage="memory") as broker:
        broker._call(lambda server: server.subscribe(recorder.observe))
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"}
        consumer = Consumer({**settings, "fetch.wait.max.ms": 10})
        consumer.assign([TopicPartition("orders", 0, 0)])
        while len([each for each in recorder.requests() if each.api == "Fetch"]) < 8:
            consumer.poll(0.02)
        consumer.close()
        moments = timeline(broker, recorder)
    fetches = [each.text for each in moments if " Fetch v" in each.text]
    assert len(fetches) < 5
    assert any(" times in " in each for each in fetches)


def test_times_begin_with_the_first_request() -> None:
    moments = [Moment(990, "incident", "a"), Moment(1010, "request", "b")]
    assert [each.at_ms for each in since_first(moments, 1000)] == [0, 10]
