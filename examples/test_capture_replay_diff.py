"""Traffic is recorded, replayed at another broker, and two captures are compared."""

from confluent_kafka import Producer

from kafkalite.capture.reading.captures import exchanges, read
from kafkalite.capture.reading.messages import api_name
from kafkalite.capture.reading.problems import Problems
from kafkalite.lab.replay import replay
from kafkalite.lab.replay.diff.captures import diff
from kafkalite.lab.replay.report import FailOn
from kafkalite.testing import Broker


def record(directory, count):
    with Broker(topics={"orders": 1}, capture=directory) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for _ in range(count):
            producer.produce("orders", b"two apples")
            assert producer.flush(10) == 0


def test_capture_shows_the_requests(tmp_path):
    record(tmp_path, 1)
    problems = Problems()
    apis = [api_name(each.api_key) for each in exchanges(read([str(tmp_path)], problems), problems)]
    assert "Produce" in apis
    assert problems.by_kind() == {}


def test_replay_gets_the_recorded_responses(tmp_path):
    record(tmp_path, 3)
    with Broker(topics={"orders": 1}) as broker:
        report = replay(str(tmp_path), to=broker.bootstrap_servers)
    assert not report.failed(FailOn.DIFFERENCE), report.to_json()


def test_diff_counts_the_requests(tmp_path):
    before, after = tmp_path / "before", tmp_path / "after"
    record(before, 1)
    record(after, 3)
    report = diff(str(before), str(after))
    assert report.after.requests > report.before.requests
