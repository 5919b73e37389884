"""Errors in encoded answers, for every API and every field with an error code."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.apis.table import TABLE
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitResponse
from kafkalite.protocol._generated.messages.produce import ProduceResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.message import Message
from kafkalite.protocol.schema import message_tree
from kafkalite.server.answer_errors import error_names
from tests.properties.codec_samples import Samples, all_specs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.wire.session import Pieces

CODE = ErrorCode.NOT_CONTROLLER
SAMPLE_COUNT = 8
OFFSET_COMMIT, PRODUCE, API_VERSIONS = 8, 0, 18


def answer(response: Message, key: int, version: int) -> Pieces:
    """Return the pieces of an answer's frame."""
    out: Pieces = [b""]
    codec.response_builder(key, version)(response, out)
    has_tags = codec.response_header_version(key, version)
    body_bytes = sum(map(len, out))
    out[0] = pack(">ii", 4 + has_tags + body_bytes, 7) + b"\0" * has_tags
    return out


def error_names_of(out: Pieces, key: int, version: int) -> str | None:
    return error_names(key, version, [b"before", *out], sum(map(len, out)))


def error_fields(message: Any) -> Iterator[tuple[Any, str]]:  # noqa: ANN401 - any struct
    """Yield each field with an error code, and its struct."""
    for name in message.__slots__:
        value = getattr(message, name)
        if "error" in name and isinstance(value, int):
            yield message, name
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, Message):
                yield from error_fields(each)


@pytest.mark.parametrize("key", TABLE)
def test_every_error_code_of_a_response_is_found(key: int) -> None:
    row = TABLE[key]
    spec = all_specs()[f"{row.name}Response"]
    version = row.highest
    samples = Samples(row.name, with_unknown_tags=False)
    found = 0
    for _ in range(SAMPLE_COUNT):
        response = samples.draw(message_tree(spec, version))
        fields = list(error_fields(response))
        for struct, name in fields:
            setattr(struct, name, 0)
        plain = answer(response, key, version)
        assert error_names_of(plain, key, version) == "NONE"
        for struct, name in fields:
            setattr(struct, name, int(CODE))
            changed = answer(response, key, version)
            setattr(struct, name, 0)
            if changed != plain:  # or else this version does not have the field
                assert error_names_of(changed, key, version) == CODE.name
                found += 1
    assert found


def test_distinct_errors_are_listed_once_and_at_most_three() -> None:
    codes = [0, 16, 16, 22, 25, 15, 14]
    partition = OffsetCommitResponse.OffsetCommitResponsePartition
    response = OffsetCommitResponse(
        topics=[
            OffsetCommitResponse.OffsetCommitResponseTopic(
                name="t", partitions=[partition(error_code=code) for code in codes]
            )
        ]
    )
    assert error_names_of(answer(response, OFFSET_COMMIT, 9), OFFSET_COMMIT, 9) == (
        "NOT_COORDINATOR, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, +2"
    )


def test_an_unknown_api_versions_request_is_answered_in_version_0() -> None:
    response = codec.response_class(API_VERSIONS)(error_code=35)
    assert (
        error_names_of(answer(response, API_VERSIONS, 0), API_VERSIONS, 99) == "UNSUPPORTED_VERSION"
    )


def test_no_answer_has_no_error() -> None:
    assert error_names(PRODUCE, 9, [b"an earlier answer"], 0) is None


def test_malformed_answers_are_unreadable() -> None:
    encoded = b"".join(answer(ProduceResponse(), PRODUCE, 9))
    for size in range(1, len(encoded)):
        assert error_names(PRODUCE, 9, [encoded[:size]], size) == "unreadable"
    assert error_names(999, 0, [encoded], len(encoded)) == "unreadable"


def test_an_answer_with_a_long_list_is_not_read() -> None:
    partitions = [
        OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=n, error_code=CODE)
        for n in range(10_000)
    ]
    topic = OffsetCommitResponse.OffsetCommitResponseTopic(name="t", partitions=partitions)
    out = answer(OffsetCommitResponse(topics=[topic]), OFFSET_COMMIT, 8)
    assert error_names_of(out, OFFSET_COMMIT, 8) == "not searched in a long answer"
