"""Unit tests of the endpoint columns of connections."""

from __future__ import annotations

import numpy as np

from kafkalite.lab.columnar.segments.connection_state import ConnectionStates

CLIENT = bytes([10, 0, 0, 1, 10, 0, 0, 2, 0x10, 0, 0x23, 0x84])
BROKER = CLIENT[4:8] + CLIENT[:4] + CLIENT[10:] + CLIENT[8:10]


def endpoints_of(states: ConnectionStates, *rows: int) -> list[tuple[object, ...]]:
    columns = states.endpoints.columns(np.array(rows, np.int64))
    names = ("connection", "client", "broker", "node_id")
    return list(zip(*(columns[name].to_pylist() for name in names), strict=True))


def test_columns_are_rebuilt_when_a_connection_changes() -> None:
    states = ConnectionStates()
    first = states.add((CLIENT, BROKER), None, 7, 0)
    assert endpoints_of(states, 0, 0) == [(7, "10.0.0.1:4096", "10.0.0.2:9092", None)] * 2

    second = states.add((CLIENT, BROKER), None, -9, 0)
    second.node_id = -1
    first.set_client(BROKER)
    first.connection_id, first.node_id = 8, 3

    ends = ("10.0.0.1:4096", "10.0.0.2:9092")
    assert endpoints_of(states, 1, 0) == [(-9, *ends, -1), (8, *reversed(ends), 3)]
    assert endpoints_of(states) == []


def test_invalid_node_id_in_a_comment_is_ignored() -> None:
    states = ConnectionStates()
    state = states.add((CLIENT, BROKER), None, 7, 0)
    for number in (10**19, -2, 1 << 31):
        state.node_id = number
        assert endpoints_of(states, 0)[0][-1] is None
