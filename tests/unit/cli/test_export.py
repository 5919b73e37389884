"""`kafkalite export`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.control.declared_state.source import parse_state
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.cli.command import Shell

STATE = {
    "topics": {
        "orders": {
            "partitions": 2,
            "config": {"cleanup.policy": "compact"},
            "records": [
                {"key": "a", "value_json": {"card": 1, "n": 2}, "timestamp": 5},
                {"key": "b", "value": "{}", "timestamp": 6, "offset": 9, "partition": 0},
                {"key": "b", "value": "{}", "timestamp": 7, "partition": 0, "headers": {"h": "x"}},
            ],
            "end_offsets": {"1": 4},
        }
    },
    "groups": {"shop": {"offsets": {"orders": {"1": 3}}, "metadata": {"orders": {"1": "m"}}}},
    "users": {"alice": {"password": "secret", "mechanisms": {"SCRAM-SHA-256": 4096}}},
    "quotas": [{"client_id": "<default>", "quotas": {"producer_byte_rate": 5}}],
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Broker]:
    with Broker(state=STATE, storage="memory") as running:
        yield running


def test_the_shape_is_printed_by_default(shell: Shell) -> None:
    found = shell.run("export")
    assert (found.status, found.error) == (0, "")
    assert "secret" not in found.output
    _, _, text = found.output.partition("topics:\n")
    assert (
        text
        == """\
  orders:
    partitions: 2
    replication_factor: 1
    config: {cleanup.policy: compact}
    end_offsets: {0: 11, 1: 4}
groups:
  shop:
    offsets:
      orders: {1: 3}
    metadata:
      orders: {1: m}
users:
  alice:
    mechanisms: {SCRAM-SHA-256: 4096}
quotas:
- client_id: <default>
  quotas: {producer_byte_rate: 5.0}
"""
    )


def test_records_are_those_among_the_last_offsets(shell: Shell) -> None:
    (topic,) = shell.run("export", "--records", "2", "--json").json["topics"].values()
    assert topic["records"] == [
        {
            "partition": 0,
            "offset": 9,
            "timestamp": "1970-01-01T00:00:00.006Z",
            "key": "b",
            "value": "{}",
        },
        {
            "partition": 0,
            "timestamp": "1970-01-01T00:00:00.007Z",
            "key": "b",
            "value": "{}",
            "headers": {"h": "x"},
        },
    ]
    assert topic["end_offsets"] == {"1": 4}
    everything = parse_state(shell.run("export", "--records", "99").output)
    assert len(everything.contents["orders"]) == 3


def test_records_are_masked(shell: Shell) -> None:
    masks = ("--mask", "value.card=fixed:x", "--mask", "headers.h=drop", "--mask", "key=hash:s")
    found = parse_state(shell.run("export", "--records", "99", *masks).output)
    values = [each.value for each in found.contents["orders"]]
    assert values == [b'{"card":"x","n":2}', b"{}", b"{}"]
    keys = [each.key for each in found.contents["orders"]]
    assert keys[1] == keys[2] != b"b"
    assert not any(each.headers for each in found.contents["orders"])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--mask", "key"), "--mask 'key' must be [TOPIC:]FIELD=drop"),
        (("--records", "-1"), "--records must be at least 0, not -1"),
        (("--records", "9", "--mask", "key.a=drop"), "the key of orders-"),
        (("--mask", "oders:key=drop"), "there is no topic 'oders'; the topics are orders"),
        (("--mask", "oders*:key=drop"), "there is no topic 'oders*'"),
    ],
)
def test_invalid_arguments_are_one_line(
    shell: Shell, arguments: tuple[str, ...], text: str
) -> None:
    found = shell.run("export", *arguments)
    assert (found.status, found.output) == (2, "")
    assert text in found.error
    assert found.error.count("\n") == 1
