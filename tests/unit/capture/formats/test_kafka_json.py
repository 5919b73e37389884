"""Unit tests of messages in Kafka's JSON format."""

from __future__ import annotations

from kafkalite.capture.formats.kafka_json import as_json, records_as_base64
from kafkalite.capture.model import Direction
from kafkalite.protocol import codec
from tests.captures import traffic


def test_json_has_the_fields_of_the_version() -> None:
    request = traffic.commit_request("g", 7, topics=1)
    old = as_json(request, 8, Direction.REQUEST, 2)
    assert old["retentionTimeMs"] == -1
    assert "groupInstanceId" not in old
    new = as_json(request, 8, Direction.REQUEST, 8)
    assert "retentionTimeMs" not in new
    assert new["groupInstanceId"] is None
    assert new["topics"][0]["partitions"][0]["committedOffset"] == 7


def test_records_are_shown_by_size_unless_requested() -> None:
    request = traffic.produce_request(1, b"\x01\x02\x03")
    result = as_json(request, 0, Direction.REQUEST, 9)
    partition = result["topicData"][0]["partitionData"][0]
    assert partition == {"index": 0, "recordsSizeInBytes": 3}
    result = as_json(request, 0, Direction.REQUEST, 9, records=records_as_base64)
    assert result["topicData"][0]["partitionData"][0] == {"index": 0, "records": "AQID"}


def test_uuids_are_base64_and_default_tagged_fields_are_omitted() -> None:
    message_class = codec.request_class(1)
    topic = message_class.FetchTopic(topic_id=bytes(15) + b"\x01")
    result = as_json(message_class(topics=[topic]), 1, Direction.REQUEST, 13)
    assert result["topics"][0]["topicId"] == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert "clusterId" not in result
    result = as_json(message_class(cluster_id="c"), 1, Direction.REQUEST, 13)
    assert result["clusterId"] == "c"


def test_every_message_can_be_converted() -> None:
    for key in codec.api_keys():
        for message_class, direction in (
            (codec.request_class(key), Direction.REQUEST),
            (codec.response_class(key), Direction.RESPONSE),
        ):
            highest = codec.api_versions(key, unstable=True).highest
            assert isinstance(as_json(message_class(), key, direction, highest), dict)
