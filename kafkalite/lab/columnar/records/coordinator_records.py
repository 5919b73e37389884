"""Records of the group, transaction and share coordinators as typed tables.

There is one table per record type. Its columns are made from the specs: the key, and the value,
which is null for a tombstone.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from kafkalite.capture.model import ProblemKind
from kafkalite.lab.columnar.arrays import unaligned_view
from kafkalite.lab.columnar.decoding.arrow_assembly import binary_parts
from kafkalite.lab.columnar.decoding.decode import Decoded, RowError, decode_plan
from kafkalite.lab.columnar.decoding.decode_plan import spec_plan
from kafkalite.lab.columnar.decoding.schema import spec_type
from kafkalite.lab.columnar.tables import TIME
from kafkalite.metadata.internal_topics import RECORD_LOGS
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.codecs.index import RECORD_TYPES
from kafkalite.protocol.spec import load_spec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.lab.columnar.arrays import Ints
    from kafkalite.lab.columnar.decoding.decode_plan import Plan
    from kafkalite.protocol.codec import RecordLog
    from kafkalite.protocol.spec import MessageSpec

ENVELOPE: Final = (
    pa.field("file", pa.string(), nullable=False),
    pa.field("topic", pa.string(), nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", TIME),
    pa.field("producer_id", pa.int64(), nullable=False),  # of a transaction's commits
    pa.field("producer_epoch", pa.int16(), nullable=False),
    pa.field("is_transactional", pa.bool_(), nullable=False),
)
"""Columns of every record: its position, and fields of its batch."""

_VERSION_BYTES: Final = 2
_NO_VERSION: Final = -1


class TypedRecords(NamedTuple):
    """Records of one type."""

    table: str
    rows: pa.RecordBatch
    """With the schema `table_schema(table)`."""


class RejectedRecords(NamedTuple):
    """Records that could not be decoded, all for the same reason."""

    kind: ProblemKind
    reason: str
    rows: list[int]


@cache
def tables() -> Mapping[str, RecordLog]:
    """Return the names of all tables, and their logs."""
    return {row[0]: log for log in RECORD_LOGS.values() for row in RECORD_TYPES[log].values()}


def _record_type(log: RecordLog, table: str) -> int:
    return next(type_number for type_number, row in RECORD_TYPES[log].items() if row[0] == table)


@cache
def _spec(name: str) -> MessageSpec:
    return load_spec("records", name)


@cache
def table_schema(table: str) -> pa.Schema:
    """Return the schema of a record type's table; raises KeyError for an unknown table."""
    log = tables()[table]
    _, key, value, _ = RECORD_TYPES[log][_record_type(log, table)]
    typed = (pa.field("key", _type(key), nullable=False), pa.field("value", _type(value)))
    return pa.schema([*ENVELOPE, *typed])


def _type(name: str) -> pa.StructType:
    return spec_type(_spec(name))


@lru_cache(512)
def _plan(name: str, version: int) -> Plan | None:
    spec = _spec(name)
    if version not in spec.versions:
        return None
    return spec_plan(spec, version, spec_type(spec))


def split_records(
    log: RecordLog, records: pa.RecordBatch, requested: frozenset[str] | None = None
) -> tuple[list[TypedRecords], list[RejectedRecords]]:
    """Split a coordinator's records by type, and decode them.

    The records have `key`, `value` and the columns of `ENVELOPE`; control records are skipped. Only
    requested tables are decoded; malformed records of other tables are not reported.
    """
    if len(control_rows := np.flatnonzero(np.asarray(records.column("is_control")))):
        data_rows = np.setdiff1d(np.arange(records.num_rows), control_rows)
        records = records.take(pa.array(data_rows))
        originals: Ints = data_rows
    else:
        originals = np.arange(records.num_rows)
    types = _leading_numbers(records.column("key"))
    decoded: list[TypedRecords] = []
    rejected: list[RejectedRecords] = []
    for type_number in np.unique(types).tolist():
        rows = np.flatnonzero(types == type_number)
        record_type = RECORD_TYPES[log].get(type_number)
        if record_type is None:
            if requested is None:
                reason = (
                    f"unknown {log} record type {type_number}"
                    if type_number >= 0
                    else "key without a type"
                )
                kind = ProblemKind.UNKNOWN_VERSION if type_number >= 0 else ProblemKind.MALFORMED
                rejected.append(RejectedRecords(kind, reason, originals[rows].tolist()))
            continue
        if requested is not None and record_type[0] not in requested:
            continue
        typed_records = records.take(pa.array(rows))
        table, errors = _decode_records(record_type, typed_records)
        decoded.append(TypedRecords(record_type[0], table))
        rejected += _group_by_reason(record_type[0], errors, originals[rows])
    return decoded, rejected


def _decode_records(
    record_type: tuple[str, str, str, int], records: pa.RecordBatch
) -> tuple[pa.RecordBatch, list[RowError]]:
    name, key_name, value_name, key_version = record_type
    plan = _plan(key_name, key_version)
    assert plan is not None
    keys = decode_plan(plan, records.column("key"), _VERSION_BYTES)
    values = decode_versioned(value_name, records.column("value"))
    errors = sorted([*keys.errors, *values.errors])
    columns = [records.column(each.name) for each in ENVELOPE]
    schema = table_schema(name)
    typed_rows = pa.RecordBatch.from_arrays([*columns, keys.values, values.values], schema=schema)
    if errors:
        invalid_rows = np.array([error.row for error in errors])
        typed_rows = typed_rows.take(
            pa.array(np.setdiff1d(np.arange(typed_rows.num_rows), invalid_rows))
        )
    return typed_rows, errors


def decode_versioned(name: str, column: pa.Array) -> Decoded:
    """Decode record values of one type; each begins with its version, and null stays null.

    This also decodes the subscriptions and assignments of classic groups.
    """
    versions = _leading_numbers(column)
    is_valid = np.asarray(column.is_valid())
    parts: list[pa.Array] = []
    row_groups: list[Ints] = []
    errors: list[RowError] = []
    for version in np.unique(versions).tolist():
        rows = np.flatnonzero(versions == version)
        row_groups.append(rows)
        plan = _plan(name, version)
        if plan is None:
            parts.append(pa.nulls(len(rows), _type(name)))
            kind = ProblemKind.MALFORMED if version < 0 else ProblemKind.UNKNOWN_VERSION
            reason = "value without a version" if version < 0 else f"unknown version {version}"
            errors += [RowError(row, reason, kind) for row in rows[is_valid[rows]].tolist()]
            continue
        part = decode_plan(plan, column.take(pa.array(rows)), _VERSION_BYTES)
        parts.append(part.values)
        errors += [each._replace(row=int(rows[each.row])) for each in part.errors]
    if not parts:
        return Decoded(pa.nulls(0, _type(name)), ())
    order = pa.array(np.argsort(np.concatenate(row_groups), kind="stable"))
    return Decoded(pa.concat_arrays(parts).take(order), tuple(errors))


def _leading_numbers(column: pa.Array) -> Ints:
    """Read the first 16-bit number of each value; -1 if there is none."""
    data, offsets = binary_parts(column)
    at = offsets[:-1]
    has_number = (offsets[1:] - at >= _VERSION_BYTES) & np.asarray(column.is_valid())
    numbers: Ints = np.full(len(column), _NO_VERSION)
    found = unaligned_view(data, ">i2")[at[has_number]]
    numbers[has_number] = np.maximum(found, _NO_VERSION)
    return numbers


def _group_by_reason(
    table: str, errors: Sequence[RowError], rows: Ints
) -> Iterator[RejectedRecords]:
    """Group errors by reason."""
    rows_by_reason: dict[tuple[ProblemKind, str], list[int]] = {}
    for error in errors:
        rows_by_reason.setdefault((error.kind, error.reason), []).append(int(rows[error.row]))
    for (kind, reason), error_rows in rows_by_reason.items():
        yield RejectedRecords(kind, f"{table} record: {reason}", error_rows)
