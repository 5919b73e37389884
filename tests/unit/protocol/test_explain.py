"""A refused frame is told where and why in one line."""

import pytest

from kafkalite.protocol import codec
from kafkalite.protocol.explain import explain
from kafkalite.protocol.messages.offset_commit import OffsetCommitRequest


@pytest.fixture(scope="module")
def body() -> bytes:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(committed_metadata="abc")
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])
    out: codec.Out = []
    codec.request_builder(8, 8)(OffsetCommitRequest(group_id="g", topics=[topic]), out)
    return b"".join(out)


def told(body: bytes) -> str:
    line = explain("request", 8, 8, body)
    assert line.startswith("OffsetCommit request v8: ")
    return line.removeprefix("OffsetCommit request v8: ")


def test_a_good_frame(body: bytes) -> None:
    assert told(body) == "nothing is wrong"


def test_a_cut_frame_names_the_field_it_ends_in(body: bytes) -> None:
    assert told(body[:20]) == (
        "topics[0].partitions[0].committed_offset at byte 16: the frame ends, 4 bytes into it"
    )


def test_bytes_that_are_left_over(body: bytes) -> None:
    assert told(body + b"xy") == f"bytes left over at byte {len(body)}: 2"


def test_a_null(body: bytes) -> None:
    assert told(b"\0" + body[2:]) == "group_id at byte 0: null where null is not allowed"


def test_text_that_is_none(body: bytes) -> None:
    assert told(body.replace(b"abc", b"a\xffc")) == (
        "topics[0].partitions[0].committed_metadata at byte 28: not UTF-8: invalid start byte"
    )


def test_a_tag_that_runs_past_the_end(body: bytes) -> None:
    assert told(body[:-1] + b"\1\5\7") == (
        "tags[5] at byte 36: a tagged field of 7 bytes that are not there"
    )


def test_a_count_out_of_all_proportion() -> None:
    body = b"\x02g" + bytes(4) + b"\x02m" + b"\x00" + b"\xff\xff\xff\x7f"
    assert told(body) == "topics at byte 9: 268435454 rows, and no bytes for them"


def test_responses_are_explained_too() -> None:
    assert explain("response", 12, 4, b"") == (
        "Heartbeat response v4: throttle_time_ms at byte 0: the frame ends, 0 bytes into it"
    )
