"""Unit tests of flow numbers and their hash table."""

from __future__ import annotations

import numpy as np
import pytest

from kafkalite.lab.columnar.arrays import byte_array
from kafkalite.lab.columnar.segments import flows as module
from kafkalite.lab.columnar.segments.flows import Flows
from kafkalite.lab.columnar.segments.packets import Segments


def segments(addresses: list[bytes], ports: list[int]) -> tuple[np.ndarray, Segments]:
    """Return segments with addresses and ports only; 8 address bytes are IPv4, 32 are IPv6."""
    sizes = [len(each) for each in addresses]
    at = np.cumsum([0, *sizes[:-1]], dtype=np.int64)
    is_v6 = np.array([size > 8 for size in sizes], np.int64)
    return byte_array(b"".join(addresses)), Segments(
        packet=np.arange(len(at)), addresses_start=at, is_v6=is_v6, ports=np.array(ports, np.int64)
    )


@pytest.mark.parametrize("salt", [0, 1, -1 << 63])
def test_flows_differ_in_every_address_byte(monkeypatch: pytest.MonkeyPatch, salt: int) -> None:
    monkeypatch.setattr(module, "_SALT", salt)
    addresses = [bytes(8), bytes(32), bytes(7) + b"\1", bytes(31) + b"\1", bytes(8), bytes(32)]
    data, found_segments = segments([*addresses, bytes(8)], [5, 5, 5, 5, 5, 5, 6])
    table = Flows(2)
    numbers, firsts = table.find_or_add_all(data, found_segments)
    assert numbers.tolist() == [0, 1, 2, 3, 0, 1, 4]
    assert firsts.tolist() == [0, 1, 2, 3, 6]
    names = [*(each + b"\0\0\0\5" for each in addresses[:4]), bytes(8) + b"\0\0\0\6"]
    assert [table.flow(number) for number in range(5)] == names
    assert [table.find_or_add(name) for name in [*names, b"new flow1234"]] == [0, 1, 2, 3, 4, 5]


def test_flow_number_is_unchanged_when_the_table_grows() -> None:
    addresses = [number.to_bytes(8) for number in range(5000)]
    data, found_segments = segments(addresses, [1] * 5000)
    table = Flows(4)
    for _ in range(2):
        numbers, firsts = table.find_or_add_all(data, found_segments)
        assert numbers.tolist() == list(range(5000))
        assert len(firsts) == 5000
    assert table.count == 5000


@pytest.mark.parametrize("shape", ["IPv4", "IPv6"])
def test_crafted_flows_do_not_collide(shape: str) -> None:
    """The highest bits of the addresses must affect the slot, for any salt."""
    count, slots = 1 << 12, np.full(1 << 15, -1, np.int64)
    keys = np.empty((count, 5), np.int64)
    distance = 0
    for number in range(count):
        high = (number << 52) - (1 << 63)
        words = (high, 0, 0, 0, 2) if shape == "IPv4" else (0, 0, 0, high, 3)
        module.find_or_insert(77, keys, slots, number, *words)
        slot = int(np.flatnonzero(slots == number)[0])
        # Length of the run of occupied slots before this one.
        while slot and slots[slot - 1] >= 0:
            slot, distance = slot - 1, distance + 1
    assert distance < count
