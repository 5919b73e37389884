"""Descriptions of invalid frames: one line with the place and the reason."""

import pytest

from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol.invalid_frames import describe_error


@pytest.fixture(scope="module")
def body() -> bytes:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(committed_metadata="abc")
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])
    out: codec.Out = []
    codec.request_builder(8, 8)(OffsetCommitRequest(group_id="g", topics=[topic]), out)
    return b"".join(out)


def described(body: bytes) -> str:
    line = describe_error("request", 8, 8, body)
    assert line.startswith("OffsetCommit request v8: ")
    return line.removeprefix("OffsetCommit request v8: ")


def test_valid_frame_has_no_error(body: bytes) -> None:
    assert described(body) == "no error found"


def test_truncated_frame_names_its_last_field(body: bytes) -> None:
    assert described(body[:20]) == (
        "topics[0].partitions[0].committed_offset at byte 16: "
        "the frame ends after 4 bytes of this field"
    )


def test_extra_bytes_after_a_message_are_reported(body: bytes) -> None:
    assert described(body + b"xy") == f"extra bytes at byte {len(body)}: 2"


def test_null_in_a_field_that_is_not_nullable_is_named(body: bytes) -> None:
    assert described(b"\0" + body[2:]) == "group_id at byte 0: null where null is not allowed"


def test_text_that_is_not_utf_8(body: bytes) -> None:
    assert described(body.replace(b"abc", b"a\xffc")) == (
        "topics[0].partitions[0].committed_metadata at byte 28: not UTF-8: invalid start byte"
    )


def test_tag_that_exceeds_the_end(body: bytes) -> None:
    assert described(body[:-1] + b"\1\5\7") == (
        "tags[5] at byte 36: a tagged field of 7 bytes, but fewer remain"
    )


def test_count_that_exceeds_the_frame() -> None:
    body = b"\x02g" + bytes(4) + b"\x02m" + b"\x00" + b"\xff\xff\xff\x7f"
    assert described(body) == "topics at byte 9: 268435454 rows, but fewer bytes remain"


def test_responses_are_explained_too() -> None:
    assert describe_error("response", 12, 4, b"") == (
        "Heartbeat response v4: throttle_time_ms at byte 0: "
        "the frame ends after 0 bytes of this field"
    )
