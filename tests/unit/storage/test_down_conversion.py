"""Batches of format 2 become messages of formats 0 and 1."""

from __future__ import annotations

import pytest

from kafkalite.ports.turns import ELEMENTS_PER_PAUSE
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import (
    LOG_APPEND_TIME,
    BatchView,
    ControlKind,
    ControlMarker,
    build_batch,
    build_control_batch,
)
from kafkalite.storage.compression import CODEC_NUMBERS, decompress
from kafkalite.storage.down_conversion import to_messages
from kafkalite.storage.message_format import Message, decode_message, split_messages
from kafkalite.storage.old_lz4 import to_standard_lz4
from kafkalite.storage.record_format import NewRecord
from tests.unit.ports.worker_tasks import OVER, worker_with

RECORDS = [
    NewRecord(b"k", b"v" * 60, 5, (("h", b"x"),)),
    NewRecord(None, b"w" * 60, 7),
    NewRecord(b"k", None, -1),
]
CHUNK = 128 * 1024


def stored(base_offset: int, records: list[NewRecord] = RECORDS, attributes: int = 0) -> bytes:
    return build_batch(records, base_offset=base_offset, attributes=attributes)


def messages(data: bytes) -> list[Message]:
    return [decode_message(*each) for each in split_messages(data)]


@pytest.mark.parametrize("magic", [0, 1])
def test_records_from_the_offset_are_messages(magic: int) -> None:
    converted = messages(to_messages(stored(4) + stored(7, RECORDS * 9), magic, 5))
    timestamps = (5, 7, -1) if magic else (-1, -1, -1)
    assert converted[:2] == [
        Message(5, magic, 0, timestamps[1], None, b"w" * 60),
        Message(6, magic, 0, timestamps[2], b"k", None),
    ]
    assert [each.offset for each in converted] == list(range(5, 5 + len(converted)))


def test_the_answer_is_as_long_as_the_batches() -> None:
    """A message that does not fit is cut, as by Kafka, which sends so many bytes."""
    long, short = stored(0, [NewRecord(None, b"v" * 500, 5, (("h", b"x" * 90),))]), stored(1)
    for magic in (0, 1):
        assert len(to_messages(long + short, magic, 0)) == len(long) + len(short)
        assert len(to_messages(long, magic, 0)) == len(long)
    expanded = stored(0, [NewRecord(None, b"", 0)] * 100)
    assert len(to_messages(expanded, 1, 0)) > len(expanded)
    assert len(messages(to_messages(expanded, 1, 0))) == 100


def test_the_filling_is_a_message_that_never_ends() -> None:
    data = stored(0, [NewRecord(None, b"v", 5, (("h", b"x" * CHUNK * 2),))])
    converted = to_messages(data, 0, 0)
    (message,) = messages(converted)
    assert message.value == b"v"
    filling = converted[27:]
    assert int.from_bytes(filling[8:12], "big") == len(filling) + 1
    assert int.from_bytes(filling[:8], "big", signed=True) == -1


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_compressed_batches_are_converted_as_a_whole(codec: str, magic: int) -> None:
    data = stored(4, RECORDS, CODEC_NUMBERS[codec] | LOG_APPEND_TIME)
    wrapper = messages(to_messages(data, magic, 6))[0]
    assert (wrapper.offset, wrapper.compression) == (6, CODEC_NUMBERS[codec])
    assert wrapper.is_log_append_time is bool(magic)
    assert wrapper.timestamp == (7 if magic else -1)
    assert wrapper.value is not None
    content = to_standard_lz4(wrapper.value) if (codec, magic) == ("lz4", 0) else wrapper.value
    if codec == "lz4":
        assert (content == wrapper.value) is bool(magic)
    inner = messages(decompress(CODEC_NUMBERS[codec], content))
    assert [each.offset for each in inner] == ([0, 1, 2] if magic else [4, 5, 6])
    assert [each.value for each in inner] == [record.value for record in RECORDS]


def test_zstd_is_refused_or_ends_the_answer() -> None:
    zstd = stored(3, RECORDS, CODEC_NUMBERS["zstd"])
    with pytest.raises(KafkaError) as refused:
        to_messages(zstd, 1, 3)
    assert refused.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert [each.offset for each in messages(to_messages(stored(0) + zstd, 1, 0))] == [0, 1, 2]


def test_markers_have_no_messages() -> None:
    marker = build_control_batch(
        ControlMarker(ControlKind.COMMIT, 0), producer_id=1, producer_epoch=0, now_ms=5
    )
    prefix = BatchView(marker).prefix(3, 0)
    marker = prefix + marker[len(prefix) :]
    assert messages(to_messages(marker, 0, 3)) == []
    assert len(to_messages(marker, 0, 3)) == len(marker)
    converted = messages(to_messages(stored(0) + marker + stored(4), 1, 0))
    assert [each.offset for each in converted] == [0, 1, 2, 4, 5, 6][: len(converted)]
    assert to_messages(b"", 0, 0) == b""


def test_other_work_runs_while_many_records_are_decoded_and_encoded() -> None:
    data = stored(0, [NewRecord(None, b"", 5)] * (2 * ELEMENTS_PER_PAUSE))
    results: list[bytes] = []
    worker = worker_with(lambda: results.append(to_messages(data, 0, 0)))
    turns = 1
    while worker.take_turn(OVER) is not None:
        turns += 1
    worker.end()
    assert len(messages(results[0])) > ELEMENTS_PER_PAUSE
    assert turns == 5
