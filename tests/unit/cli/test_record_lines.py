"""Records as lines are read as they were written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.cli.argument_types import RECORD_FORMATS
from kafkalite.cli.record_lines import (
    DECODERS,
    LineError,
    json_line,
    record_of_json,
    record_of_text,
    text_line,
)
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.records import ConsumerRecord

ORDERS = TopicPartition("orders", 3)
CONTENTS = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)
HEADERS = st.lists(st.tuples(st.text(max_size=5), CONTENTS), max_size=3).map(tuple)


@given(CONTENTS, CONTENTS, HEADERS, st.integers(0, 2**62))
def test_json_is_read_as_it_was_written(
    key: bytes | None,
    value: bytes | None,
    headers: tuple[tuple[str, bytes | None], ...],
    timestamp_ms: int,
) -> None:
    line = json_line(ConsumerRecord(ORDERS, 7, value, key, headers, timestamp_ms, 0))
    assert line.count(b"\n") == 1
    read = record_of_json(1, line)
    assert read.record == (value, key, headers, timestamp_ms)
    assert read.partition == 3


@given(st.binary(max_size=20), st.binary(max_size=20), st.sampled_from(["hex", "base64"]))
def test_encoded_text_is_read_as_it_was_written(key: bytes, value: bytes, encoding: str) -> None:
    line = text_line(ConsumerRecord(ORDERS, 7, value, key, (), 0, 0), encoding, b":")
    assert record_of_text(1, line.rstrip(b"\n"), encoding, b":", ()).record == (
        value,
        key,
        (),
        None,
    )


def test_null_is_a_word_in_text() -> None:
    record = ConsumerRecord(ORDERS, 7, None, None, (), 0, 0)
    assert text_line(record, "text", b":") == b"null:null\n"
    assert text_line(record, "hex", None) == b"null\n"


def test_time_after_all_years_is_left_out() -> None:
    line = json_line(ConsumerRecord(ORDERS, 7, None, None, (), 2**62, 0))
    assert "timestamp_iso" not in json.loads(line)


def test_each_format_of_the_options_has_a_decoder() -> None:
    assert {*RECORD_FORMATS} == {"json", *DECODERS}


@pytest.mark.parametrize("encoding", DECODERS)
def test_error_has_the_number_of_the_line(encoding: str) -> None:
    with pytest.raises(LineError, match=r"^line 5 has no key: ':' "):
        record_of_text(5, b"?", encoding, b":", ())
    with pytest.raises(LineError, match=r"^line 5: value must be "):
        record_of_json(5, b'{"value": 1}')
