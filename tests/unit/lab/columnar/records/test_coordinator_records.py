"""Coordinator records decoded by column equal those of the scalar codec."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kafkalite.lab.columnar.decoding.decode_plan import to_arrow_value
from kafkalite.lab.columnar.records.coordinator_records import (
    ENVELOPE,
    split_records,
    table_schema,
    tables,
)
from kafkalite.protocol import codec
from kafkalite.protocol._generated.codecs.index import RECORD_TYPES
from kafkalite.protocol.schema import message_tree
from kafkalite.protocol.spec import load_spec
from tests.properties.codec_samples import Samples

if TYPE_CHECKING:
    from kafkalite.protocol.codec import RecordLog

SCHEMA = pa.schema(
    [
        *ENVELOPE,
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("is_control", pa.bool_()),
    ]
)
Pair = tuple[bytes | None, bytes | None]


def rows(pairs: list[Pair], control: frozenset[int] = frozenset()) -> pa.RecordBatch:
    place = {"file": "f", "topic": "t", "partition": 1, "timestamp": None}
    place |= {"producer_id": -1, "producer_epoch": -1, "is_transactional": False}
    return pa.RecordBatch.from_pylist(
        [
            {**place, "offset": number, "key": key, "value": value, "is_control": number in control}
            for number, (key, value) in enumerate(pairs)
        ],
        SCHEMA,
    )


def encode_sample(name: str, version: int, number: int, samples: Samples) -> tuple[bytes, Any]:
    tree = message_tree(load_spec("records", name), version)
    message = samples.draw(tree)
    stream = io.BytesIO(number.to_bytes(2, "big"))
    stream.seek(2)
    tree.build_stream(message, stream)
    return stream.getvalue(), to_arrow_value(message, tree)


@pytest.mark.parametrize("table", sorted(tables()))
def test_decoded_records_equal_scalar_codec(table: str) -> None:
    log = tables()[table]
    number, (_, key_name, value_name, version) = next(
        (number, row) for number, row in RECORD_TYPES[log].items() if row[0] == table
    )
    samples = Samples(table)
    versions = load_spec("records", value_name).versions
    pairs: list[Pair] = []
    for each in versions.within(versions):
        key, _ = encode_sample(key_name, version, number, samples)
        value, _ = encode_sample(value_name, each, each, samples)
        pairs += [(key, value), (key, None), (key, samples.mutate(value))]
    expected = [scalar(log, number, *pair) for pair in pairs]

    decoded, rejected = split_records(log, rows(pairs))

    (found,) = decoded
    assert found.table == table
    assert found.rows.schema.equals(table_schema(table))
    expected_rows = pa.RecordBatch.from_pylist(
        [each for each in expected if each is not None],
        pa.schema([table_schema(table).field("key"), table_schema(table).field("value")]),
    )
    assert str(found.rows.select(["key", "value"]).to_pylist()) == str(expected_rows.to_pylist())
    assert sorted(row for each in rejected for row in each.rows) == [
        row for row, each in enumerate(expected) if each is None
    ]


def scalar(
    log: RecordLog, number: int, key: bytes | None, value: bytes | None
) -> dict[str, object] | None:
    _, key_name, value_name, version = RECORD_TYPES[log][number]
    assert key is not None
    key_tree = message_tree(load_spec("records", key_name), version)
    try:
        read = {"key": to_arrow_value(codec.decode_key(key, log), key_tree), "value": None}
        if value is not None:
            message = codec.decode_value(number, value, log)
            value_version = int.from_bytes(value[:2], "big")
            tree = message_tree(load_spec("records", value_name), value_version)
            read["value"] = to_arrow_value(message, tree)
    except codec.PARSE_ERRORS:
        return None
    return read


def test_unknown_record_types_and_keys_without_type_are_rejected() -> None:
    pairs: list[Pair] = [(b"\x00\x63", b"?"), (None, b"?"), (b"\x00", None), (b"marker", b"")]

    decoded, rejected = split_records("group", rows(pairs, control=frozenset({3})))

    assert decoded == []
    assert [(each.reason, each.rows) for each in rejected] == [
        ("key without a type", [1, 2]),
        ("unknown group record type 99", [0]),
    ]


def test_only_requested_tables_are_decoded() -> None:
    samples = Samples("target")
    key, _ = encode_sample("offset_commit_key", 0, 1, samples)
    other, _ = encode_sample("group_metadata_key", 0, 2, samples)

    decoded, rejected = split_records(
        "group", rows([(other, None), (key, None), (b"", None)]), frozenset({"offset_commit"})
    )

    assert [(each.table, each.rows.num_rows) for each in decoded] == [("offset_commit", 1)]
    assert decoded[0].rows.column("offset").to_pylist() == [1]
    assert rejected == []
