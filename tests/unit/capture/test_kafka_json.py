"""Messages in Kafka's JSON: its names, its base64, and what a version has."""

from __future__ import annotations

from kafkalite.capture.kafka_json import as_json
from kafkalite.capture.model import Direction
from kafkalite.protocol import codec
from tests.captures import traffic


def test_a_version_has_the_fields_that_it_has() -> None:
    request = traffic.commit_request("g", 7, topics=1)
    old = as_json(request, 8, Direction.REQUEST, 2)
    assert old["retentionTimeMs"] == -1
    assert "groupInstanceId" not in old
    new = as_json(request, 8, Direction.REQUEST, 8)
    assert "retentionTimeMs" not in new
    assert new["groupInstanceId"] is None
    assert new["topics"][0]["partitions"][0]["committedOffset"] == 7


def test_records_are_told_by_size_unless_asked_for() -> None:
    request = traffic.produce_request(1, b"\x01\x02\x03")
    written = as_json(request, 0, Direction.REQUEST, 9)
    partition = written["topicData"][0]["partitionData"][0]
    assert partition == {"index": 0, "recordsSizeInBytes": 3}
    written = as_json(request, 0, Direction.REQUEST, 9, records=True)
    assert written["topicData"][0]["partitionData"][0] == {"index": 0, "records": "AQID"}


def test_ids_are_as_kafka_prints_them_and_a_tagged_field_is_there_if_it_says_something() -> None:
    kind = codec.request_class(1)
    topic = kind.FetchTopic(topic_id=bytes(15) + b"\x01")
    written = as_json(kind(topics=[topic]), 1, Direction.REQUEST, 13)
    assert written["topics"][0]["topicId"] == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert "clusterId" not in written
    written = as_json(kind(cluster_id="c"), 1, Direction.REQUEST, 13)
    assert written["clusterId"] == "c"


def test_every_message_of_every_version_can_be_written() -> None:
    for key in codec.api_keys():
        for kind, direction in (
            (codec.request_class(key), Direction.REQUEST),
            (codec.response_class(key), Direction.RESPONSE),
        ):
            highest = codec.api_versions(key, unstable=True).highest
            assert isinstance(as_json(kind(), key, direction, highest), dict)
