"""The form that writes a record, and copies of records in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.console.forms import Query
from kafkalite.control.console.produce_form import form_record, produce_command

if TYPE_CHECKING:
    from kafkalite.storage.record_format import Headers


def query(**fields: str) -> Query:
    return Query({"topic": "orders", **fields}.items())


@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [
        (None, None, ()),
        (b"", b"", ()),
        (b"k", "é\n\n{}".encode(), (("a", b"1"), ("a", b"x: y"))),
        (b"\r\n", b"\x00\xff", (("a:b", b"1"),)),
        (b"k", b"v", (("a", None), ("b", b"\xff"), (" c", b" d "))),
        (b"k", b"v", (("[", b"1"), ("", b""), ("n\r\n", b"2"))),
    ],
)
def test_a_copied_record_is_equal(key: bytes | None, value: bytes | None, headers: Headers) -> None:
    copied = form_record(key, value, headers)
    # Browsers send line ends in this way.
    sent = {name: text.replace("\n", "\r\n") for name, text in copied._asdict().items()}
    command = produce_command(query(**sent))
    (record,) = command.records
    assert record.record(5)[:3] == (key, value, 5)
    assert record.record(5).headers == headers


def test_partition_and_time_are_optional() -> None:
    command = produce_command(query(value="v", partition="3", time="2026-03-01T12:00:00Z"))
    assert command.partition == 3
    assert command.records[0].timestamp_ms == 1_772_366_400_000
    assert produce_command(query(value="v", time="17")).records[0].timestamp_ms == 17
    command = produce_command(query())
    assert (command.partition, command.records[0].key, command.records[0].value) == (None, None, "")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"topic": ""}, "topic must be the name of a topic"),
        ({"value": "x", "value_as": "hex"}, "value must be hex, not 'x'"),
        ({"value": "x", "value_as": "base64"}, "value must be base64, not 'x'"),
        ({"key": "x", "key_as": "xml"}, "key_as must be text, hex, base64, null, not 'xml'"),
        ({"key": "x", "key_as": "null"}, "key is null, so it must have no text"),
        ({"partition": "x"}, "partition must be a whole number"),
        ({"time": "soon"}, "'soon' is not a time"),
        ({"headers": "x"}, "headers has the line 'x': write NAME: VALUE"),
        ({"headers": "[x"}, "headers must be lines or a JSON list"),
        ({"headers": "[1]"}, "a header must be a JSON object"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        produce_command(query(**fields))
