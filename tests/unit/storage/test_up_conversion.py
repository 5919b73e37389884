"""Message sets of formats 0 and 1 become batches of format 2."""

from __future__ import annotations

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage import up_conversion
from kafkalite.storage.compression import CODEC_NUMBERS, compress
from kafkalite.storage.message_format import Message, encode_message
from kafkalite.storage.old_lz4 import to_old_lz4
from kafkalite.storage.up_conversion import MessageSet, is_message_set, takes_long
from tests.conformance import message_sets
from tests.conformance.batches import BASE_TIMESTAMP, batch

CODECS = ("gzip", "snappy", "lz4")
LOG_APPEND_TIME = 8


def wrapped(codec: str, magic: int, *inner: Message, offset: int = 0, attributes: int = 0) -> bytes:
    content = compress(CODEC_NUMBERS[codec], b"".join(map(encode_message, inner)))
    if codec == "lz4" and not magic:
        content = to_old_lz4(content)
    attributes |= CODEC_NUMBERS[codec]
    return encode_message(Message(offset, magic, attributes, BASE_TIMESTAMP, None, content))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_compression_remains(codec: str, magic: int) -> None:
    inner = [Message(index, magic, 0, 5 + index, None, b"v%d" % index) for index in range(3)]
    converted = MessageSet(wrapped(codec, magic, *inner, offset=2)).to_batch()
    assert converted is not None
    assert converted.compression == CODEC_NUMBERS[codec]
    timestamps = [5, 6, 7] if magic else [-1, -1, -1]
    assert [(each.offset, each.timestamp, each.value) for each in converted.records()] == [
        (index, timestamps[index], b"v%d" % index) for index in range(3)
    ]


def test_the_append_time_of_the_wrapper_is_that_of_the_inner_messages() -> None:
    data = wrapped("gzip", 1, Message(0, 1, 0, 5, None, b""), attributes=LOG_APPEND_TIME)
    converted = MessageSet(data).to_batch()
    assert converted is not None
    assert converted.is_log_append_time
    assert converted.records()[0].timestamp == BASE_TIMESTAMP


def test_too_many_messages_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up_conversion, "MAX_DECOMPRESSED_RECORDS", 2)
    messages = [Message(index, 0, 0, -1, None, b"") for index in range(3)]
    for data in (b"".join(map(encode_message, messages)), wrapped("gzip", 0, *messages)):
        with pytest.raises(KafkaError, match="more than 2 messages in one set") as raised:
            MessageSet(data).to_batch()
        assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert MessageSet(wrapped("gzip", 0, *messages[:2])).to_batch() is not None


def test_no_messages_have_no_batch() -> None:
    assert MessageSet(b"").to_batch() is None
    assert MessageSet(message_sets.Message().encode()[:-1]).to_batch() is None


def test_records_begin_with_a_message_or_a_batch() -> None:
    assert is_message_set(message_sets.Message(magic=1).encode())
    assert is_message_set(b"")
    assert not is_message_set(batch(b"v"))
    with pytest.raises(KafkaError) as refused:
        is_message_set(None)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_first_message_that_is_too_short_refuses_the_request() -> None:
    with pytest.raises(KafkaError) as refused:
        MessageSet(bytes(20))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_compressed_and_large_sets_take_long() -> None:
    assert not takes_long(b"")
    assert not takes_long(message_sets.Message().encode())
    assert takes_long(message_sets.Message(value=bytes(20_000)).encode())
    assert takes_long(wrapped("lz4", 1, Message(0, 1, 0, 0, None, b"")))
