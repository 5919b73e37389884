"""Optimisations of generated builders; property tests check their output."""

import pytest

from kafkalite.protocol._generated.messages.fetch import FetchResponse
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatResponse
from kafkalite.protocol._generated.messages.metadata import MetadataResponse
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.errors import ProtocolViolation
from tests.unit.protocol.compiled import functions, source, tree


def test_fixed_response_is_one_pack() -> None:
    _, build = functions("heartbeat_response", 4)
    out: list[bytes | memoryview] = []
    build(HeartbeatResponse(throttle_time_ms=1, error_code=2), out)
    assert out == [b"\x00\x00\x00\x01\x00\x02\x00"]


def test_records_are_not_copied() -> None:
    _, build = functions("fetch_response", 12)
    records = memoryview(b"records")
    partition = FetchResponse.PartitionData(records=records)
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition])
    out: list[bytes | memoryview] = []
    build(FetchResponse(responses=[topic]), out)
    assert any(part is records for part in out)


def test_rows_with_short_arrays_are_packed_at_once() -> None:
    assert "row_packer(" in source("metadata_response", 12)


@pytest.mark.parametrize("replicas", [0, 1, 126, 127, 128])
def test_rows_with_arrays_of_any_length(replicas: int) -> None:
    partition = MetadataResponse.MetadataResponsePartition(replica_nodes=list(range(replicas)))
    topic = MetadataResponse.MetadataResponseTopic(name="t", partitions=[partition])
    response = MetadataResponse(topics=[topic])
    _, build = functions("metadata_response", 12)
    out: list[bytes | memoryview] = []
    build(response, out)
    assert b"".join(out) == tree("metadata_response", 12).build(response)


def test_too_long_string_is_not_written() -> None:
    _, build = functions("offset_fetch_request", 6)
    with pytest.raises(ProtocolViolation):
        build(OffsetFetchRequest(group_id="x" * 0x8000), [])
