"""Pausing codecs equal the generated ones, and long messages are freed in steps."""

from __future__ import annotations

import linecache
from math import inf
from typing import TYPE_CHECKING

import pytest

from kafkalite.ports.turns import ELEMENTS_PER_PAUSE, NeedsWorkerError, Worker
from kafkalite.protocol import codec
from kafkalite.protocol._generated.codecs.index import APIS
from kafkalite.protocol._generated.messages.delete_groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.long_messages import (
    JoinedPieces,
    bounded_variant,
    free_in_steps,
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


def test_pausing_parser_refuses_damaged_bytes() -> None:
    topics = [
        MetadataRequest.MetadataRequestTopic(name=f"t-{n}") for n in range(2 * ELEMENTS_PER_PAUSE)
    ]
    data = encoded(MetadataRequest(topics=topics), 3, 12)[:-200]
    parse = pausing_variant(codec.request_parser(3, 12))
    with pytest.raises((ProtocolViolation, *codec.PARSE_ERRORS)):
        parse(data, 0, len(data))


@pytest.mark.parametrize("key", sorted(APIS))
def test_every_codec_has_a_pausing_one(key: int) -> None:
    version = codec.api_versions(key).highest
    for function in (codec.request_parser(key, version), codec.response_builder(key, version)):
        variant = pausing_variant(function)
        assert variant is not function
        assert variant.__name__ == function.__name__


def test_function_without_source_is_unchanged() -> None:
    assert pausing_variant(len) is len


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


def test_source_of_a_codec_is_not_cached() -> None:
    linecache.clearcache()
    assert pausing_variant(codec.request_parser(42, 1)).__module__.endswith(".pausing")
    assert not [path for path in linecache.cache if "_generated" in path]


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
