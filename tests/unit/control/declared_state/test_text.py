"""States as text, which is read again."""

from __future__ import annotations

import pytest

from kafkalite.control.declared_state.shape import State, StateTopic, state_of
from kafkalite.control.declared_state.source import parse_state
from kafkalite.control.declared_state.text import record_of, state_text
from tests.unit.control.declared_state.test_shape import STATE

HEADERS = [
    (),
    (("a", b"x"), ("b", None)),
    (("a", b"x"), ("a", b"y")),
    (("a", b"\xff"), ("b", None)),
]
BYTES = [
    None,
    b"",
    b"\xff\0",
    b"null",
    b"12",
    b"a: b\n# c\t",
    "\U0001f600\x85\u2028\ufeff".encode(),
]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_text_is_read_again(as_json: bool) -> None:  # noqa: FBT001 - a parameter
    source = "s.json" if as_json else "s.yaml"
    for state in (State(), state_of(STATE)):
        assert parse_state(state_text(state, as_json=as_json), source).state == state


@pytest.mark.parametrize("as_json", [False, True])
def test_records_have_any_bytes_times_and_headers(as_json: bool) -> None:  # noqa: FBT001
    records = [
        record_of(partition=1, offset=offset, timestamp_ms=time, key=key, value=value, headers=each)
        for offset, time in ((None, 0), (5, -1), (None, 2**62), (9, 1_772_366_400_123))
        for key, value in zip(BYTES, reversed(BYTES), strict=True)
        for each in HEADERS
    ]
    text = state_text(State(topics={"t": StateTopic(records=tuple(records))}), as_json=as_json)
    found = parse_state(text, "s.json" if as_json else "s.yaml").contents["t"]
    expected = [
        (key, value, each, time, 1, offset)
        for offset, time in ((None, 0), (5, -1), (None, 2**62), (9, 1_772_366_400_123))
        for key, value in zip(BYTES, reversed(BYTES), strict=True)
        for each in HEADERS
    ]
    assert [each[1:] for each in found] == expected


def test_partitions_need_no_quotes() -> None:
    text = state_text(state_of(STATE))
    assert "orders: {0: 1}" in text
    assert "end_offsets: {0: 5}" in text
