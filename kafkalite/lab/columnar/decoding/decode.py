"""Decoding of a column of frames into a column of structs, with the values of the scalar codec.

A frame that the scalar codec rejects becomes null, with an error; malformed bytes raise no
exception. Bytes after a message are ignored, as in the scalar codec, in kafkalite and in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from kafkalite.capture.model import Direction, ProblemKind
from kafkalite.lab.columnar.decoding.arrow_assembly import Assembly, binary_parts
from kafkalite.lab.columnar.decoding.decode_plan import message_plan
from kafkalite.lab.columnar.decoding.interpreter import REASONS, walk_messages
from kafkalite.lab.columnar.decoding.schema import message_type, prune
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike

    from kafkalite.lab.columnar.arrays import Ints
    from kafkalite.lab.columnar.decoding.decode_plan import Plan

_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_MAX_SLICE_ROWS: Final = 1 << 17
_MAX_SLICE_BYTES: Final = 16 << 20
"""Maximum number of rows, and of bytes, that are decoded at once, so that memory is bounded."""


class RowError(NamedTuple):
    """The reason why a row is null although it has a frame."""

    row: int
    reason: str
    kind: ProblemKind = ProblemKind.MALFORMED


class Decoded(NamedTuple):
    """A column of messages, one per frame, with the errors."""

    values: pa.StructArray
    """Null if the frame is null or malformed."""
    errors: tuple[RowError, ...]
    unknown_tags: int = 0
    """Number of skipped tagged fields, for example of future versions."""


def decode(
    api_key: int,
    version: int,
    direction: Direction,
    payload: pa.Array,
    starts: ArrayLike | pa.Array = 0,
    *,
    fields: Sequence[str] | None = None,
) -> Decoded:
    """Decode frames of one API, version and direction; the bodies begin at `starts`.

    With `fields` only these are decoded, and only their text is checked for UTF-8. Raises KeyError
    for an unknown API or version.
    """
    plan = message_plan(api_key, version, direction, _paths(fields))
    return decode_plan(plan, payload, starts)


def decode_table(
    api_key: int,
    direction: Direction,
    versions: ArrayLike | pa.Array,
    payload: pa.Array,
    starts: ArrayLike | pa.Array = 0,
    *,
    fields: Sequence[str] | None = None,
) -> Decoded:
    """Decode frames of one API in any versions; raises KeyError for an unknown API.

    An unknown version is an error of its row. A broker that does not support a client's ApiVersions
    version answers in version 0 (KIP-511); such responses are decoded as version 0.
    """
    row_versions = _row_numbers(versions, len(payload))
    row_starts = _row_numbers(starts, len(payload))
    if api_key == _API_VERSIONS and direction is Direction.RESPONSE:
        row_versions = _api_versions_response_versions(row_versions, payload, row_starts)
    has_one_version = len(row_versions) > 0 and row_versions.min() == row_versions.max()
    distinct = [int(row_versions[0])] if has_one_version else np.unique(row_versions).tolist()
    paths = _paths(fields)
    plans = {version: _plan_or_none(api_key, version, direction, paths) for version in distinct}
    if len(distinct) == 1 and (plan := plans[distinct[0]]) is not None:
        return decode_plan(plan, payload, row_starts)
    parts: list[pa.Array] = []
    row_groups: list[Ints] = []
    errors: list[RowError] = []
    unknown_tags = 0
    column_type = _column_type(api_key, direction, paths)
    for version, plan in plans.items():
        rows = np.flatnonzero(row_versions == version)
        row_groups.append(rows)
        if plan is None:
            parts.append(pa.nulls(len(rows), column_type))
            unknown = ProblemKind.UNKNOWN_VERSION
            errors += [
                RowError(row, f"unknown version {version}", unknown) for row in rows.tolist()
            ]
            continue
        part = decode_plan(plan, payload.take(pa.array(rows)), row_starts[rows])
        parts.append(part.values)
        unknown_tags += part.unknown_tags
        errors += [each._replace(row=int(rows[each.row])) for each in part.errors]
    if not parts:
        return Decoded(pa.nulls(0, column_type), ())
    order = np.argsort(np.concatenate(row_groups), kind="stable")
    values = pa.concat_arrays(parts).take(pa.array(order))
    return Decoded(values, tuple(sorted(errors)), unknown_tags)


def decode_plan(plan: Plan, payload: pa.Array, starts: ArrayLike | pa.Array = 0) -> Decoded:
    """Decode frames by the plan of any message."""
    row_starts = _row_numbers(starts, len(payload))
    parts: list[pa.StructArray] = []
    errors: list[RowError] = []
    first = unknown_tags = 0
    for message_slice in _slices(payload):
        part = _decode_slice(plan, message_slice, row_starts[first : first + len(message_slice)])
        parts.append(part.values)
        errors += [each._replace(row=first + each.row) for each in part.errors]
        first += len(message_slice)
        unknown_tags += part.unknown_tags
    values = parts[0] if len(parts) == 1 else pa.concat_arrays(parts or [pa.nulls(0, plan.type)])
    return Decoded(values, tuple(errors), unknown_tags)


def _decode_slice(plan: Plan, payload: pa.Array, row_starts: Ints) -> Decoded:
    data, offsets = binary_parts(payload)
    # A negative start marks a row without a body.
    starts = np.where(row_starts < 0, -1, offsets[:-1] + row_starts)
    is_null = np.asarray(payload.is_null()) if payload.null_count else None
    if is_null is not None:
        starts[is_null] = -1
    memory, verdicts, unknown_tags = walk_messages(plan.program, data, starts, offsets[1:])
    values = Assembly(memory).column(plan.column)
    rejected = np.flatnonzero(verdicts)
    if not len(rejected):
        return Decoded(values, (), unknown_tags)
    is_valid = verdicts == 0
    value_indexes = pa.array(np.cumsum(is_valid) - 1, mask=~is_valid)
    malformed = rejected if is_null is None else rejected[~is_null[rejected]]
    errors = tuple(RowError(row, REASONS[int(verdicts[row])]) for row in malformed.tolist())
    return Decoded(values.take(value_indexes), errors, unknown_tags)


def _slices(payload: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array]:
    """Split a column into slices of limited rows and bytes; a single row may have more bytes."""
    chunks = payload.chunks if isinstance(payload, pa.ChunkedArray) else [payload]
    for chunk in chunks:
        _, offsets = binary_parts(chunk)
        first = 0
        while first < len(chunk):
            bytes_limit = (
                int(np.searchsorted(offsets, offsets[first] + _MAX_SLICE_BYTES, "right")) - 1
            )
            last = min(max(bytes_limit, first + 1), first + _MAX_SLICE_ROWS, len(chunk))
            yield chunk.slice(first, last - first)
            first = last


def _api_versions_response_versions(versions: Ints, payload: pa.Array, row_starts: Ints) -> Ints:
    data, offsets = binary_parts(payload)
    body_starts = offsets[:-1] + row_starts
    has_error_code = (row_starts >= 0) & (body_starts + 2 <= offsets[1:])
    error_codes = np.zeros(len(versions), dtype=np.int64)
    error_codes[has_error_code] = (
        data[body_starts[has_error_code]].astype(np.int64) << 8
        | data[body_starts[has_error_code] + 1]
    )
    return np.where(error_codes == ErrorCode.UNSUPPORTED_VERSION, 0, versions)


def _plan_or_none(
    api_key: int, version: int, direction: Direction, fields: tuple[str, ...] | None
) -> Plan | None:
    try:
        return message_plan(api_key, version, direction, fields)
    except KeyError:
        return None


def _column_type(
    api_key: int, direction: Direction, fields: tuple[str, ...] | None
) -> pa.StructType:
    full_type = message_type(api_key, direction)
    return full_type if fields is None else prune(full_type, fields)


def _paths(fields: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if fields is None else tuple(fields)


def _row_numbers(values: ArrayLike | pa.Array, count: int) -> Ints:
    """Return one number per row; null becomes -1, which is neither a version nor a start."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        known = values.fill_null(-1) if values.null_count else values
        values = known.to_numpy(zero_copy_only=False)
    numbers: Ints = np.asarray(values, dtype=np.int64)
    return numbers if numbers.ndim else np.full(count, numbers)
