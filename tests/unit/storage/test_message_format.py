"""Messages of formats 0 and 1 are split, decoded and encoded."""

from __future__ import annotations

from zlib import crc32

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.message_format import (
    Message,
    decode_message,
    encode_message,
    split_messages,
)
from kafkalite.storage.record_format import MalformedRecordsError
from tests.conformance import message_sets

MESSAGES = (
    message_sets.Message(offset=7),
    message_sets.Message(magic=1, key=None, timestamp=5, offset=8),
    message_sets.Message(magic=1, value=None, attributes=8, offset=9),
    message_sets.Message(key=b"", value=b""),
)


@pytest.mark.parametrize("sent", MESSAGES)
def test_messages_are_those_that_were_encoded_by_hand(sent: message_sets.Message) -> None:
    ((offset, content),) = split_messages(sent.encode())
    message = decode_message(offset, content)
    timestamp = sent.timestamp if sent.magic else -1
    assert message == Message(
        sent.offset, sent.magic, sent.attributes, timestamp, sent.key, sent.value
    )
    assert encode_message(message) == sent.encode()
    assert message.is_log_append_time is bool(sent.attributes & 8)


def test_an_incomplete_last_message_is_ignored() -> None:
    data = b"".join(each.encode() for each in MESSAGES)
    for end in range(len(data)):
        whole = [offset for offset, _ in split_messages(data[:end])]
        assert whole == [each.offset for each in MESSAGES][: len(whole)]
    assert len(list(split_messages(data))) == len(MESSAGES)


def test_damaged_messages_are_refused() -> None:
    with pytest.raises(KafkaError) as refused:
        list(split_messages(bytes(12)))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    ((_, content),) = split_messages(message_sets.Message(crc_error=1).encode())
    with pytest.raises(KafkaError) as refused:
        decode_message(0, content)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [0, 1])
def test_a_key_that_does_not_fit_is_malformed(magic: int) -> None:
    whole = encode_message(Message(0, magic, 0, 0, b"k" * 50, None))
    for cut in range(30, len(whole)):
        content = memoryview(whole)[16:cut]
        data = crc32(content).to_bytes(4, "big") + content
        with pytest.raises(MalformedRecordsError):
            decode_message(0, memoryview(data))
