"""What rows say of connections is what is known of these at the time."""

from __future__ import annotations

import numpy as np

from kafkalite.columnar.lines import Lines

CLIENT = bytes([10, 0, 0, 1, 10, 0, 0, 2, 0x10, 0, 0x23, 0x84])
BROKER = CLIENT[4:8] + CLIENT[:4] + CLIENT[10:] + CLIENT[8:10]


def told(lines: Lines, *rows: int) -> list[tuple[object, ...]]:
    columns = lines.told.columns(np.array(rows, np.int64))
    names = ("connection", "client", "broker", "node_id")
    return list(zip(*(columns[name].to_pylist() for name in names), strict=True))


def test_connections_are_told_as_they_are_known() -> None:
    lines = Lines()
    first = lines.add((CLIENT, BROKER), None, 7, 0)
    assert told(lines, 0, 0) == [(7, "10.0.0.1:4096", "10.0.0.2:9092", None)] * 2

    second = lines.add((CLIENT, BROKER), None, -9, 0)
    second.node_id = -1
    first.turn(BROKER)
    first.connection, first.node_id = 8, 3

    ends = ("10.0.0.1:4096", "10.0.0.2:9092")
    assert told(lines, 1, 0) == [(-9, *ends, -1), (8, *reversed(ends), 3)]
    assert told(lines) == []


def test_a_comment_may_say_what_is_no_number_of_a_broker() -> None:
    lines = Lines()
    line = lines.add((CLIENT, BROKER), None, 7, 0)
    for number in (10**19, -2, 1 << 31):
        line.node_id = number
        assert told(lines, 0)[0][-1] is None
