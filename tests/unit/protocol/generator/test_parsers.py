"""Optimisations of generated parsers; property tests check their output."""

from time import process_time

import pytest

from kafkalite.protocol._generated.messages.fetch import FetchResponse
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol.codec import PARSE_ERRORS
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.generator.parsers import length_code, min_size
from kafkalite.protocol.primitives import KafkaArray, KafkaBytes, KafkaString
from tests.unit.protocol.compiled import functions, source, tree


def test_smallest_size_of_a_message_and_a_string_is_computed() -> None:
    assert min_size(tree("heartbeat_response", 4)) == 7
    assert min_size(tree("heartbeat_response", 0)) == 2
    assert min_size(KafkaString(compact=True, nullable=False)) == 1
    assert min_size(KafkaString(compact=False, nullable=False)) == 2
    assert min_size(tree("describe_topic_partitions_request", 0)) == 7


def test_length_fields_have_format_characters() -> None:
    string = KafkaString(compact=False, nullable=False)
    assert length_code(string) == "h"
    assert length_code(KafkaBytes(compact=False, nullable=False)) == "i"
    assert length_code(KafkaArray(string, compact=False, nullable=False)) == "i"
    assert length_code(KafkaString(compact=True, nullable=False)) == "B"


def test_adjacent_fields_are_unpacked_with_the_next_length() -> None:
    text = source("offset_commit_request", 8)
    row = "o2.partition_index, o2.committed_offset, o2.committed_leader_epoch, n = U_iqiB(buf, pos)"
    assert row in text


def commit(metadata: list[str | None]) -> OffsetCommitRequest:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(
        name="t",
        partitions=[
            partition(partition_index=index, committed_metadata=text)
            for index, text in enumerate(metadata)
        ],
    )
    return OffsetCommitRequest(topics=[topic])


@pytest.mark.parametrize(
    "metadata", [["", "", ""], ["", "x", ""], ["", None, ""], [None], [], ["", "", "\x00"]]
)
def test_rows_of_equal_size_are_unpacked_at_once(metadata: list[str | None]) -> None:
    parse, build = functions("offset_commit_request", 8)
    out: list[bytes | memoryview] = []
    build(commit(metadata), out)
    frame = b"".join(out)
    assert parse(frame, 0, len(frame)) == (commit(metadata), len(frame))


def test_records_are_a_view_and_all_else_is_a_copy() -> None:
    parse, build = functions("produce_request", 9)
    data = ProduceRequest.PartitionProduceData(records=b"batch")
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    out: list[bytes | memoryview] = []
    build(ProduceRequest(topic_data=[topic]), out)
    buffer = bytearray(b"".join(out))
    request, _ = parse(buffer, 0, len(buffer))
    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    buffer[buffer.index(b"batch")] = ord("B")
    assert bytes(records) == b"Batch"


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\x00\x10\x00\x00"])
def test_a_hostile_count_is_refused_before_a_row_is_read(count: bytes) -> None:
    """Otherwise rows could be read from bytes after the frame in the receive buffer."""
    parse, _ = functions("offset_commit_request", 7)
    frame = b"\x00\x01g" + bytes(4) + b"\x00\x01m" + b"\xff\xff" + count
    buffer = frame + bytes(1 << 20)
    started = process_time()
    with pytest.raises(ProtocolViolation, match="past the end"):
        parse(buffer, 0, len(frame) + 60)
    assert process_time() - started < 0.05


def test_parser_stops_at_the_end_of_the_frame() -> None:
    parse, build = functions("fetch_response", 12)
    partition = FetchResponse.PartitionData(records=b"records")
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition])
    out: list[bytes | memoryview] = []
    build(FetchResponse(responses=[topic]), out)
    frame = b"".join(out)
    for end in range(len(frame)):
        with pytest.raises(PARSE_ERRORS):
            parse(frame + bytes(64), 0, end)


def test_bytes_after_the_message_are_ignored() -> None:
    parse, _ = functions("heartbeat_response", 4)
    _, position = parse(bytes(20), 5, 20)
    assert position == 12
