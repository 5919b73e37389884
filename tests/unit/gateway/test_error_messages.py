"""Truncation of text: every API answers requests with the longest strings; log lines stay short."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, get_args, get_type_hints

import pytest

from kafkalite.apis.table import TABLE, find_api
from kafkalite.gateway.error_messages import (
    MAX_LOGGED_CHARACTERS,
    MAX_MESSAGE_CHARACTERS,
    MESSAGE_FIELDS,
    printable,
    truncate_message,
    truncate_messages,
)
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsResponse
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol.codec_helpers import MAX_STRING_BYTES
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.message import Message
from tests.cluster.cluster import TestCluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

LONG_TEXTS = (
    "x" * MAX_STRING_BYTES,
    "€" * (MAX_STRING_BYTES // 3),
    "😀" * (MAX_STRING_BYTES // 4),
)
"""The longest strings in a request, with one, three and four bytes per character."""

TOPIC = "t"
USUAL: Mapping[str, object] = {
    "topic": TOPIC,
    "topic_name": TOPIC,
    "topic_names": TOPIC,
    "resource_name": TOPIC,
    "resource_type": 2,
    "name": "retention.ms",
    "value": "1",
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 9,
    "acks": -1,
    "operation": 3,
    "pattern_type_filter": 3,
    "permission_type": 3,
    "resource_type_filter": 2,
}
"""The values of the other fields, so that requests pass the first checks."""


def _structs(kind: type[Message]) -> Iterator[type[Message]]:
    yield kind
    for inner in vars(kind).values():
        if isinstance(inner, type) and issubclass(inner, Message):
            yield from _structs(inner)


def _fields(kind: type[Message]) -> Iterator[tuple[str, object]]:
    """Yield the fields of a struct with their types, without `None` and `list`."""
    for name, hint in get_type_hints(kind.__init__).items():
        if name not in {"return", "unknown_tags"}:
            yield name, _item_type(hint)


def _item_type(hint: object) -> object:
    arguments = [each for each in get_args(hint) if each is not type(None)]
    return _item_type(arguments[0]) if arguments else hint


def _has_error_messages(key: int) -> bool:
    return any(
        not MESSAGE_FIELDS.isdisjoint(struct.__slots__)
        for struct in _structs(codec.response_class(key))
    )


def _strings(key: int) -> list[str]:
    """Return the names of the string fields of an API's request."""
    structs = _structs(codec.request_class(key))
    return sorted({name for each in structs for name, hint in _fields(each) if hint is str})


def _filled_request(kind: type[Message], text: str, long: set[str]) -> Message:
    """Return a request with one row in every array, and `text` in the fields of `long`."""
    request = kind()
    hints = get_type_hints(kind.__init__)
    for name, hint in _fields(kind):
        value: object = getattr(request, name)
        if hint is str:
            value = text if name in long else USUAL.get(name, "s")
        elif isinstance(hint, type) and issubclass(hint, Message):
            value = _filled_request(hint, text, long)
        elif name in USUAL and not isinstance(value, float):
            value = USUAL[name]
        is_list = str(hints[name]).startswith("list")
        is_row = hint is str or (isinstance(hint, type) and issubclass(hint, Message))
        setattr(request, name, [value] if is_list and is_row else value)
    return request


CASES = [
    (key, name)
    for key in TABLE
    if _has_error_messages(key)
    for name in [*_strings(key), "everything"]
]


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TestCluster]:
    wire = TestCluster(tmp_path)
    wire.create(TOPIC)
    yield wire
    wire.end()


@pytest.mark.parametrize(
    ("key", "name"), CASES, ids=[f"{codec.api_name(key)}-{name}" for key, name in CASES]
)
def test_a_request_with_the_longest_strings_is_answered(
    wire: TestCluster, key: int, name: str
) -> None:
    api = find_api(key)
    assert api is not None
    long = set(_strings(key)) if name == "everything" else {name}
    for text, version in product(LONG_TEXTS, {api.versions.lowest, api.versions.highest}):
        assert wire.ask(_filled_request(codec.request_class(key), text, long), version) is not None


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("text", LONG_TEXTS)
def test_a_refused_value_of_any_length_has_its_error_code(
    wire: TestCluster, version: int, text: str
) -> None:
    answer = wire.ask(_filled_request(IncrementalAlterConfigsRequest, text, {"value"}), version)
    (result,) = answer.responses
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert result.error_message.startswith(f"Invalid value {text[:1_000]}")
    assert result.error_message.endswith("…")
    assert len(result.error_message) == MAX_MESSAGE_CHARACTERS


@pytest.mark.parametrize("character", ["x", "ü", "€", "😀"])
def test_a_truncated_message_fits_into_a_string_field(character: str) -> None:
    message = truncate_message(character * 40_000)
    assert message is not None
    assert len(message.encode()) <= MAX_STRING_BYTES


@pytest.mark.parametrize("message", [None, "", "x" * MAX_MESSAGE_CHARACTERS])
def test_a_shorter_message_is_unchanged(message: str | None) -> None:
    assert truncate_message(message) == message


def test_only_messages_are_truncated() -> None:
    row = DeleteTopicsResponse.DeletableTopicResult
    long = "x" * MAX_STRING_BYTES
    response = DeleteTopicsResponse(
        responses=[row(name=long, error_message="short"), row(name="t", error_message=long)]
    )
    assert truncate_messages(response)
    first, second = response.responses
    assert (first.name, first.error_message) == (long, "short")
    assert second.error_message == truncate_message(long)
    assert not truncate_messages(response)


def test_printable_text_is_logged_unchanged() -> None:
    assert printable("größe=1 ☃") == "größe=1 ☃"
    assert printable("") == ""


def test_control_characters_are_escaped_in_the_log() -> None:
    assert printable("a\x1b[2J\nb") == "a\\x1b[2J\\nb"


def test_long_text_is_truncated_in_the_log() -> None:
    assert printable("x" * MAX_LOGGED_CHARACTERS) == "x" * MAX_LOGGED_CHARACTERS
    assert printable("x" * 30_000) == "x" * MAX_LOGGED_CHARACTERS + "…"
