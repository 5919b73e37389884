"""Messages of formats 0 and 1 have the offsets and timestamps that Kafka's own reader gives them.

The bytes are those of `MemoryRecords.builder` in Kafka 3.9.1, from offset 70 on: key `k` with value
`v` at 1700000000000, and a message without key and value 7 ms later. The append time is
1700000000999.
"""

from __future__ import annotations

import numpy as np
import pytest

from kafkalite.capture.model import ProblemKind
from kafkalite.lab.columnar.records.old_messages import DecodedMessages, decode_messages
from kafkalite.lab.columnar.records.record_batches import BatchError, find_batches
from kafkalite.storage.message_format import Message, encode_message

CREATED = (1_700_000_000_000, 1_700_000_000_007)
APPENDED = (1_700_000_000_999, 1_700_000_000_999)
NO_TIME = (-1, -1)
OF_KAFKA = {
    "0": (
        """
0000000000000046000000101fecd70a0000000000016b000000017600000000000000470000000ea7ec68030000ffff
ffffffffffff
""",
        NO_TIME,
    ),
    "0 gzip": (
        """
00000000000000470000004337648cab0001ffffffff000000351f8b08000000000000ff63600003372016907f739d0b
cc63cc0611651029067720e65bfe26839981e13f140000353e2a7536000000
""",
        NO_TIME,
    ),
    "0 snappy": (
        """
00000000000000470000005500da808d0002ffffffff0000004782534e41505059000000000100000001000000333600
0009012446000000101fecd70a00010118016b0000000176010b54000000470000000ea7ec68030000ffffffffffffff
ff
""",
        NO_TIME,
    ),
    "0 lz4": (
        """
00000000000000470000004e086959c40003ffffffff0000004004224d1860401a31000000120001009146000000101f
ecd70a0f0071016b00000001760c00f0060000470000000ea7ec68030000ffffffffffffffff00000000
""",
        NO_TIME,
    ),
    "1": (
        """
00000000000000460000001839268c3301000000018bcfe56800000000016b0000000176000000000000004700000016
c48063d201000000018bcfe56807ffffffffffffffff
""",
        CREATED,
    ),
    "1 gzip": (
        """
00000000000000470000004f8012c84301010000018bcfe56807ffffffff000000391f8b08000000000000ff63608003
094bb51e63462083b1fbfcd30c90086336882883ca83a4c48e34245f82ab61ff0f0500a7e99aac46000000
""",
        CREATED,
    ),
    "1 snappy": (
        """
000000000000004700000065f39bef8601020000018bcfe56807ffffffff0000004f82534e4150505900000000010000
00010000003b4600001901341839268c3301000000018bcfe568011804016b010e0076010b01091c00000016c48063d2
010934018bcfe56807ffffffffffffffff
""",
        CREATED,
    ),
    "1 lz4": (
        """
00000000000000470000005b39e727e301030000018bcfe56807ffffffff0000004504224d1860408236000000160001
00e01839268c3301000000018bcfe568180020016b0e0010760b000009008500000016c48063d224009007ffffffffff
ffffff00000000
""",
        CREATED,
    ),
    "1 with the append time": (
        """
0000000000000046000000184917f56201080000018bcfe56be7000000016b0000000176000000000000004700000016
f39116a401080000018bcfe56be7ffffffffffffffff
""",
        APPENDED,
    ),
    "1 gzip with the append time": (
        """
000000000000004700000052937c3fce01090000018bcfe56be7ffffffff0000003c1f8b08000000000000ff63608003
094ff1af498c1c0c0c8cdde79f663f078a3066838832a83c23108b7d9e28b604a1e63f140000ed94249f46000000
""",
        APPENDED,
    ),
}


def decoded(data: bytes) -> list[DecodedMessages | BatchError]:
    array = np.frombuffer(data, np.uint8)
    found = find_batches(array, np.array([0]), np.array([len(data)]))
    assert not len(found.headers)
    assert not found.errors
    return [decode_messages(array, each) for each in found.old_messages]


@pytest.mark.parametrize("title", OF_KAFKA)
def test_messages_are_read_as_kafka_reads_them(title: str) -> None:
    encoded, times = OF_KAFKA[title]

    messages: list[Message] = []
    for each in decoded(bytes.fromhex(encoded)):
        assert isinstance(each, DecodedMessages)
        assert each.is_log_append_time is (times is APPENDED)
        messages += each.messages

    assert [(each.offset, each.timestamp, each.key, each.value) for each in messages] == [
        (70, times[0], b"k", b"v"),
        (71, times[1], None, None),
    ]


def test_offsets_of_librdkafka_are_those_of_the_inner_messages() -> None:
    data = bytearray(bytes.fromhex(OF_KAFKA["1 gzip"][0]))
    data[:8] = bytes(8)

    (found,) = decoded(bytes(data))

    assert isinstance(found, DecodedMessages)
    assert [each.offset for each in found.messages] == [0, 1]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (bytes.fromhex(OF_KAFKA["0"][0])[:27] + b"\0", "a message fails its CRC"),
        (encode_message(Message(0, 1, 1, 5, None, b"no gzip")), "gzip"),
        (encode_message(Message(0, 1, 1, 5, None, None)), "no message set"),
        (encode_message(Message(0, 0, 5, 5, None, b"")), "no compression has the number 5"),
    ],
)
def test_a_damaged_message_is_an_error(data: bytes, reason: str) -> None:
    (found,) = decoded(data)

    assert isinstance(found, BatchError)
    assert (found.range_index, found.position, found.kind) == (0, 0, ProblemKind.CORRUPT_BLOCK)
    assert reason in found.reason
