"""Partitions of keys."""

from __future__ import annotations

import pytest

from kafkalite.protocol.key_partition import murmur2, partition_of_key


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hash_is_that_of_java(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected & 0xFFFFFFFF


def test_key_has_a_partition() -> None:
    assert partition_of_key(b"21", 3) == (-973932308 & 0x7FFFFFFF) % 3
