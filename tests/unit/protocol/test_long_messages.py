"""Pausing codecs equal the generated ones, and long messages are freed in steps."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import pytest

from kafkalite.ports.turns import ELEMENTS_PER_PAUSE, NeedsWorkerError, PausingList
from kafkalite.ports.workers import Worker
from kafkalite.protocol import codec, codec_helpers
from kafkalite.protocol._generated.codecs.index import APIS
from kafkalite.protocol._generated.messages.delete_groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kafkalite.protocol._generated.messages.fetch import FetchResponse
from kafkalite.protocol._generated.messages.list_transactions import ListTransactionsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.long_messages import (
    JoinedPieces,
    bounded_variant,
    free_in_steps,
    long_message_parser,
    pausing_variant,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Result = DeleteGroupsResponse.DeletableGroupResult


def turns_taken(task: Callable[[], None]) -> int:
    worker = Worker()
    worker.task = task
    count = 1
    while worker.take_turn(-inf) is not None:
        count += 1
    worker.end()
    return count


def encoded(request: object, key: int, version: int) -> bytes:
    out: list[bytes | memoryview] = []
    codec.request_builder(key, version)(request, out)
    return b"".join(out)


def test_pausing_parser_equals_the_generated_one() -> None:
    names = [f"group-{number}" for number in range(4 * ELEMENTS_PER_PAUSE)]
    data = encoded(DeleteGroupsRequest(groups_names=names), 42, 2)
    parse = codec.request_parser(42, 2)
    parsed: list[tuple[object, int]] = []
    assert turns_taken(lambda: parsed.append(pausing_variant(parse)(data, 0, len(data)))) == 5
    assert parsed == [parse(data, 0, len(data))]


def test_pausing_builder_equals_the_generated_one() -> None:
    results = [
        Result(group_id=f"group-{n}", error_code=n % 7) for n in range(4 * ELEMENTS_PER_PAUSE)
    ]
    response = DeleteGroupsResponse(results=results)
    build = codec.response_builder(42, 2)
    at_once: list[bytes | memoryview] = []
    build(response, at_once)
    pieces = JoinedPieces()
    assert turns_taken(lambda: pausing_variant(build)(response, pieces)) == 5
    assert b"".join(pieces) == b"".join(at_once)


def test_a_long_list_of_rows_that_are_packed_together_is_built_with_pauses() -> None:
    transactions = [
        FetchResponse.AbortedTransaction(producer_id=n) for n in range(4 * ELEMENTS_PER_PAUSE)
    ]
    partition = FetchResponse.PartitionData(aborted_transactions=transactions, records=b"")
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition])
    build = codec.response_builder(1, 4)
    at_once: list[bytes | memoryview] = []
    build(FetchResponse(responses=[topic]), at_once)
    pieces = JoinedPieces()
    assert (
        turns_taken(lambda: pausing_variant(build)(FetchResponse(responses=[topic]), pieces)) == 5
    )
    assert b"".join(pieces) == b"".join(at_once)


def test_pausing_parser_refuses_damaged_bytes() -> None:
    topics = [
        MetadataRequest.MetadataRequestTopic(name=f"t-{n}") for n in range(2 * ELEMENTS_PER_PAUSE)
    ]
    data = encoded(MetadataRequest(topics=topics), 3, 12)[:-200]
    parse = pausing_variant(codec.request_parser(3, 12))
    with pytest.raises((ProtocolViolation, *codec.PARSE_ERRORS)):
        parse(data, 0, len(data))


def parse_in_worker(key: int, version: int, body: bytes) -> object:
    """Parse a long request; return it, or the exception."""
    parse = long_message_parser(codec.request_parser(key, version))
    outcome: list[object] = []

    def task() -> None:
        try:
            outcome.append(parse(body, 0, len(body))[0])
        except ProtocolViolation as violation:
            outcome.append(violation)

    turns_taken(task)
    return outcome[0]


def test_a_list_of_more_than_a_million_elements_is_refused() -> None:
    """Kafka refuses it as well. No element is created, so the bytes are not valid names."""
    body = (1_000_001).to_bytes(4) + bytes(2_000_002)
    assert str(parse_in_worker(42, 0, body)) == (
        "a list of 1000001 elements, above the maximum of 1000000"
    )


def test_several_lists_of_more_than_a_million_elements_are_refused() -> None:
    rows = (500_000).to_bytes(4) + bytes(4 * 500_000)
    topic = b"\0\1t" + rows
    body = b"\0\1g" + (2).to_bytes(4) + topic * 2
    refusal = parse_in_worker(9, 1, body)
    assert isinstance(refusal, ProtocolViolation)
    assert str(refusal) == (
        "the lists have 1000002 elements or more, above the maximum of 1000000 for this API"
    )


@pytest.mark.parametrize(("key", "version"), [(1, 12), (45, 0)], ids=["known tags", "no tags"])
def test_tagged_fields_count_as_elements(key: int, version: int) -> None:
    """A request with an element of each list, whose structs have 10,000 tagged fields each."""
    tags = codec_helpers.encode_varint(10_000) + b"".join(
        codec_helpers.encode_varint(tag) + b"\0" for tag in range(100, 10_100)
    )
    rows = 120
    if key == 1:
        partition = bytes(4 + 4 + 8 + 4 + 8 + 4) + tags
        body = bytes(4 + 4 + 4 + 4 + 1 + 4 + 4) + b"\2" + b"\2t"
        body += codec_helpers.encode_varint(rows + 1) + partition * rows
    else:
        topic = b"\2t\1" + tags
        body = bytes(4) + codec_helpers.encode_varint(rows + 1) + topic * rows
    refusal = parse_in_worker(key, version, body)
    assert "above the maximum of 1000000 for this API" in str(refusal)


def test_the_elements_of_each_message_are_counted() -> None:
    body = b"\0\1g" + (1).to_bytes(4) + b"\0\1t" + (600_000).to_bytes(4) + bytes(2_400_000)
    for _ in range(2):
        assert not isinstance(parse_in_worker(9, 1, body), Exception)


def test_a_long_list_of_numbers_is_read_with_pauses() -> None:
    numbers = list(range(20_000))
    request = ListTransactionsRequest(producer_id_filters=numbers)
    body = encoded(request, 66, 2)
    parse = pausing_variant(codec.request_parser(66, 2))
    parsed: list[tuple[object, int]] = []
    assert turns_taken(lambda: parsed.append(parse(body, 0, len(body)))) > 4
    assert parsed == [(request, len(body))]


def test_long_lists_in_the_given_fields_pause() -> None:
    topics = [
        OffsetFetchRequest.OffsetFetchRequestTopic(
            name="t", partition_indexes=[0] * (ELEMENTS_PER_PAUSE + 1)
        )
    ] * (ELEMENTS_PER_PAUSE + 1)
    topics[0] = OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    body = encoded(OffsetFetchRequest(group_id="g", topics=topics), 9, 5)

    def parsed(*fields: str) -> OffsetFetchRequest:
        request: OffsetFetchRequest
        parse = long_message_parser(codec.request_parser(9, 5), pausing_lists=frozenset(fields))
        request, _ = parse(body, 0, len(body))
        return request

    topics_of_one = parsed("topics").topics
    assert isinstance(topics_of_one, PausingList)
    assert not isinstance(topics_of_one[1].partition_indexes, PausingList)
    both = parsed("topics", "partition_indexes").topics
    assert both is not None
    assert not isinstance(both[0].partition_indexes, PausingList)
    assert isinstance(both[1].partition_indexes, PausingList)


@pytest.mark.parametrize("key", sorted(APIS))
def test_every_codec_has_a_pausing_one(key: int) -> None:
    version = codec.api_versions(key).highest
    for function in (codec.request_parser(key, version), codec.response_builder(key, version)):
        variant = pausing_variant(function)
        assert variant is not function
        assert variant.__name__ == function.__name__


def test_another_function_is_unchanged() -> None:
    assert pausing_variant(len) is len
    assert pausing_variant(encoded) is encoded


def test_enough_pieces_are_joined() -> None:
    pieces = JoinedPieces()
    pieces += [b"a", b"b"]
    pieces.join(3)
    assert pieces == [b"a", b"b"]
    pieces.append(b"c")
    pieces.join(3)
    assert pieces == [b"abc"]
    pieces += [b"d", b"e"]
    pieces.join()
    assert pieces == [b"abc", b"de"]
    pieces.join()
    assert pieces == [b"abc", b"de"]


def test_a_message_is_freed_in_steps() -> None:
    response = DeleteGroupsResponse(results=[Result() for _ in range(3 * ELEMENTS_PER_PAUSE)])
    assert turns_taken(lambda: free_in_steps(response)) == 4
    assert response.results == []


def test_a_long_list_of_names_is_freed_in_steps() -> None:
    request = DeleteGroupsRequest(groups_names=[f"g{n}" for n in range(3 * ELEMENTS_PER_PAUSE)])
    assert turns_taken(lambda: free_in_steps(request)) == 4
    assert request.groups_names == []


def test_a_short_list_of_names_is_not_changed() -> None:
    request = DeleteGroupsRequest(groups_names=["g"] * ELEMENTS_PER_PAUSE)
    free_in_steps(request)
    assert len(request.groups_names) == ELEMENTS_PER_PAUSE


def test_shared_list_is_not_freed() -> None:
    results = [Result() for _ in range(3 * ELEMENTS_PER_PAUSE)]
    free_in_steps(DeleteGroupsResponse(results=results))
    assert len(results) == 3 * ELEMENTS_PER_PAUSE


def test_bounded_parser_refuses_a_long_list() -> None:
    parse = bounded_variant(codec.request_parser(42, 2))
    few = encoded(DeleteGroupsRequest(groups_names=["g"] * ELEMENTS_PER_PAUSE), 42, 2)
    many = encoded(DeleteGroupsRequest(groups_names=["g"] * (ELEMENTS_PER_PAUSE + 1)), 42, 2)
    assert len(parse(few, 0, len(few))[0].groups_names) == ELEMENTS_PER_PAUSE
    with pytest.raises(NeedsWorkerError):
        parse(many, 0, len(many))
