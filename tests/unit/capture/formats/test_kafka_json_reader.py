"""Messages are read from the JSON that `as_json` returns; other JSON is refused with its place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkalite.capture.formats.kafka_json import as_json, records_as_base64
from kafkalite.capture.formats.kafka_json_reader import MessageJsonError, message_of
from kafkalite.capture.model import Direction
from kafkalite.protocol import codec
from kafkalite.protocol.api_keys import ApiKey
from tests.unit.protocol.test_catalogue import filled_message, spec_of

TOO_LONG = "groupId must be text of at most 32767 bytes, not 'éééééééééééé...ééééééééééééé'"
NO_FIELD = (
    "there is no field 'retentionTimeMs'; the fields are groupId, generationIdOrMemberEpoch, "
    "memberId, groupInstanceId, topics"
)
WRONG_EPOCH = (
    "generationIdOrMemberEpoch must be a whole number from -2147483648 to 2147483647, not "
    "2147483648"
)


@pytest.mark.parametrize("direction", Direction)
def test_every_message_is_read_from_its_json(direction: Direction) -> None:
    for key in ApiKey:
        message = filled_message(spec_of(key, direction.name.lower()))
        versions = codec.api_versions(key, unstable=True)
        for version in range(versions.lowest, versions.highest + 1):
            given = as_json(message, key, direction, version, records=records_as_base64)
            read = message_of(json.loads(json.dumps(given)), key, direction, version)
            assert as_json(read, key, direction, version, records=records_as_base64) == given


def test_missing_fields_have_their_defaults_and_bytes_need_no_text() -> None:
    assert message_of({}, ApiKey.HEARTBEAT, Direction.REQUEST, 4) == codec.request_class(12)()
    given = {"topicData": [{"partitionData": [{"records": b"\1"}]}]}
    produce = message_of(given, ApiKey.PRODUCE, Direction.REQUEST, 9)
    assert produce.topic_data[0].partition_data[0].records == b"\1"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([], "the message must be an object, not []"),
        ({"group": "g"}, "there is no field 'group'; similar names are groupId"),
        ({"groupId": None}, "groupId must be text, not None"),
        ({"topics": {}}, "topics must be a list, not {}"),
        ({"topics": [{"partitions": [7]}]}, "topics[0].partitions[0] must be an object, not 7"),
        ({"generationIdOrMemberEpoch": 2**31}, WRONG_EPOCH),
        (
            {"topics": [{"partition": []}]},
            "there is no field 'partition' of topics[0]; similar names are partitions",
        ),
        ({"topics": [{"topicId": "x"}]}, "topics[0].topicId must be a uuid in base64, not 'x'"),
        (
            {"retentionTimeMs": 1},
            NO_FIELD,
        ),
        ({"groupId": "é" * 16_384}, TOO_LONG),
    ],
)
def test_other_json_is_refused_with_its_place(given: Any, text: str) -> None:  # noqa: ANN401
    with pytest.raises(MessageJsonError) as refused:
        message_of(given, ApiKey.OFFSET_COMMIT, Direction.REQUEST, 10)
    assert str(refused.value) == text


@pytest.mark.parametrize(
    ("key", "given", "text"),
    [
        (ApiKey.METADATA, {"allowAutoTopicCreation": 1}, "must be true or false, not 1"),
        (ApiKey.SASL_AUTHENTICATE, {"authBytes": "?"}, "authBytes must be bytes in base64, not"),
        (ApiKey.END_TXN, {"producerEpoch": True}, "producerEpoch must be a whole number from -32"),
    ],
)
def test_other_types_are_refused(key: ApiKey, given: Any, text: str) -> None:  # noqa: ANN401
    version = codec.api_versions(key).highest
    with pytest.raises(MessageJsonError, match=text.replace("?", r"\?")):
        message_of(given, key, Direction.REQUEST, version)
