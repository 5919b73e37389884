"""Records of coordinators by the column are those that the scalar codec reads."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kafkalite.columnar.coordinator_records import (
    ENVELOPE,
    split_records,
    table_schema,
    tables,
)
from kafkalite.columnar.plan import plain
from kafkalite.protocol import codec
from kafkalite.protocol.codecs.index import RECORD_TYPES
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


def written(name: str, version: int, number: int, samples: Samples) -> tuple[bytes, Any]:
    tree = message_tree(load_spec("records", name), version)
    message = samples.draw(tree)
    stream = io.BytesIO(number.to_bytes(2, "big"))
    stream.seek(2)
    tree.build_stream(message, stream)
    return stream.getvalue(), plain(message, tree)


@pytest.mark.parametrize("table", sorted(tables()))
def test_every_type_of_record_is_what_the_scalar_codec_reads(table: str) -> None:
    log = tables()[table]
    number, (_, key_name, value_name, version) = next(
        (number, row) for number, row in RECORD_TYPES[log].items() if row[0] == table
    )
    samples = Samples(table)
    versions = load_spec("records", value_name).versions
    pairs: list[Pair] = []
    for each in versions.within(versions):
        key, _ = written(key_name, version, number, samples)
        value, _ = written(value_name, each, each, samples)
        pairs += [(key, value), (key, None), (key, samples.mutated(value))]
    expected = [scalar(log, number, *pair) for pair in pairs]

    kept, refused = split_records(log, rows(pairs))

    (found,) = kept
    assert found.table == table
    assert found.rows.schema.equals(table_schema(table))
    typed = pa.RecordBatch.from_pylist(
        [each for each in expected if each is not None],
        pa.schema([table_schema(table).field("key"), table_schema(table).field("value")]),
    )
    assert str(found.rows.select(["key", "value"]).to_pylist()) == str(typed.to_pylist())
    assert sorted(row for each in refused for row in each.rows) == [
        row for row, each in enumerate(expected) if each is None
    ]


def scalar(
    log: RecordLog, number: int, key: bytes | None, value: bytes | None
) -> dict[str, object] | None:
    _, key_name, value_name, version = RECORD_TYPES[log][number]
    assert key is not None
    key_tree = message_tree(load_spec("records", key_name), version)
    try:
        read = {"key": plain(codec.decode_key(key, log), key_tree), "value": None}
        if value is not None:
            message = codec.decode_value(number, value, log)
            spoken = int.from_bytes(value[:2], "big")
            tree = message_tree(load_spec("records", value_name), spoken)
            read["value"] = plain(message, tree)
    except codec.PARSE_ERRORS:
        return None
    return read


def test_what_is_no_record_of_the_log_is_told() -> None:
    pairs: list[Pair] = [(b"\x00\x63", b"?"), (None, b"?"), (b"\x00", None), (b"marker", b"")]

    kept, refused = split_records("group", rows(pairs, control=frozenset({3})))

    assert kept == []
    assert [(each.reason, each.rows) for each in refused] == [
        ("a key of no type", [1, 2]),
        ("a group record of type 99", [0]),
    ]


def test_only_wanted_tables_are_made() -> None:
    samples = Samples("wanted")
    key, _ = written("offset_commit_key", 0, 1, samples)
    other, _ = written("group_metadata_key", 0, 2, samples)

    kept, refused = split_records(
        "group", rows([(other, None), (key, None), (b"", None)]), frozenset({"offset_commit"})
    )

    assert [(each.table, each.rows.num_rows) for each in kept] == [("offset_commit", 1)]
    assert kept[0].rows.column("offset").to_pylist() == [1]
    assert refused == []
