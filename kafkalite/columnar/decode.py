"""A column of frames to a column of structs, typed as `schema` says, and equal to the scalar codec.

What the scalar codec refuses is null here and told with its row; no bytes raise. Bytes behind a
message are passed over, as the scalar codec, kafkalite and Kafka do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkalite.capture.model import Direction, ProblemKind
from kafkalite.columnar.assemble import Assembly, binary_parts
from kafkalite.columnar.plan import message_plan
from kafkalite.columnar.schema import message_type, prune
from kafkalite.columnar.walk import REASONS, walk_messages
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike

    from kafkalite.columnar.arrays import Ints
    from kafkalite.columnar.plan import Plan

_API_VERSIONS: Final = 18
_PIECE_ROWS: Final = 1 << 17
_PIECE_BYTES: Final = 16 << 20
"""So much is decoded at once: little enough for its columns to fit any memory."""


class RowError(NamedTuple):
    """Why a row is null though there were bytes."""

    row: int
    reason: str
    kind: ProblemKind = ProblemKind.MALFORMED


class Decoded(NamedTuple):
    """A column of messages, as long as that of their frames, and what is wrong with some."""

    values: pa.StructArray
    """Null where the frame is null or was refused."""
    errors: tuple[RowError, ...]
    unknown_tags: int = 0
    """How many tagged fields were passed over, as those of versions yet to come."""


def decode(
    api_key: int,
    version: int,
    direction: Direction,
    payload: pa.Array,
    starts: ArrayLike | pa.Array = 0,
    *,
    fields: Sequence[str] | None = None,
) -> Decoded:
    """Decode frames of one API, version and direction, each from its `starts` on.

    With `fields` only those are read, and only their text is looked at for being UTF-8. Raises
    KeyError for an API or version that the codecs do not know.
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

    A version unknown to the codecs is an error of its row. A broker that does not know a
    client's version of ApiVersions answers in version 0 (KIP-511), which is seen to.
    """
    spoken = _ints(versions, len(payload))
    begins = _ints(starts, len(payload))
    if api_key == _API_VERSIONS and direction is Direction.RESPONSE:
        spoken = _spoken_api_versions(spoken, payload, begins)
    is_one = len(spoken) > 0 and spoken.min() == spoken.max()
    kinds = [int(spoken[0])] if is_one else np.unique(spoken).tolist()
    paths = _paths(fields)
    known = {kind: _plan_or_none(api_key, kind, direction, paths) for kind in kinds}
    if len(kinds) == 1 and (plan := known[kinds[0]]) is not None:
        return decode_plan(plan, payload, begins)
    parts: list[pa.Array] = []
    places: list[Ints] = []
    errors: list[RowError] = []
    unknown_tags = 0
    wanted = _wanted_type(api_key, direction, paths)
    for kind, plan in known.items():
        rows = np.flatnonzero(spoken == kind)
        places.append(rows)
        if plan is None:
            parts.append(pa.nulls(len(rows), wanted))
            unknown = ProblemKind.UNKNOWN_VERSION
            errors += [RowError(row, f"version {kind}", unknown) for row in rows.tolist()]
            continue
        part = decode_plan(plan, payload.take(pa.array(rows)), begins[rows])
        parts.append(part.values)
        unknown_tags += part.unknown_tags
        errors += [each._replace(row=int(rows[each.row])) for each in part.errors]
    if not parts:
        return Decoded(pa.nulls(0, wanted), ())
    order = np.argsort(np.concatenate(places), kind="stable")
    values = pa.concat_arrays(parts).take(pa.array(order))
    return Decoded(values, tuple(sorted(errors)), unknown_tags)


def decode_plan(plan: Plan, payload: pa.Array, starts: ArrayLike | pa.Array = 0) -> Decoded:
    """Decode frames by a plan of any message."""
    begins = _ints(starts, len(payload))
    parts: list[pa.StructArray] = []
    errors: list[RowError] = []
    first = unknown_tags = 0
    for piece in _pieces(payload):
        part = _decode_piece(plan, piece, begins[first : first + len(piece)])
        parts.append(part.values)
        errors += [each._replace(row=first + each.row) for each in part.errors]
        first += len(piece)
        unknown_tags += part.unknown_tags
    values = parts[0] if len(parts) == 1 else pa.concat_arrays(parts or [pa.nulls(0, plan.type)])
    return Decoded(values, tuple(errors), unknown_tags)


def _decode_piece(plan: Plan, payload: pa.Array, begins: Ints) -> Decoded:
    data, offsets = binary_parts(payload)
    # A start before its frame is none at all.
    starts = np.where(begins < 0, -1, offsets[:-1] + begins)
    is_null = np.asarray(payload.is_null()) if payload.null_count else None
    if is_null is not None:
        starts[is_null] = -1
    memory, verdicts, unknown_tags = walk_messages(plan.program, data, starts, offsets[1:])
    values = Assembly(memory).column(plan.column)
    refused = np.flatnonzero(verdicts)
    if not len(refused):
        return Decoded(values, (), unknown_tags)
    is_good = verdicts == 0
    places = pa.array(np.cumsum(is_good) - 1, mask=~is_good)
    wrong = refused if is_null is None else refused[~is_null[refused]]
    errors = tuple(RowError(row, REASONS[int(verdicts[row])]) for row in wrong.tolist())
    return Decoded(values.take(places), errors, unknown_tags)


def _pieces(payload: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array]:
    """Cut a column into pieces that have neither too many rows nor, if it can be, bytes."""
    chunks = payload.chunks if isinstance(payload, pa.ChunkedArray) else [payload]
    for chunk in chunks:
        _, offsets = binary_parts(chunk)
        first = 0
        while first < len(chunk):
            reach = int(np.searchsorted(offsets, offsets[first] + _PIECE_BYTES, "right")) - 1
            last = min(max(reach, first + 1), first + _PIECE_ROWS, len(chunk))
            yield chunk.slice(first, last - first)
            first = last


def _spoken_api_versions(versions: Ints, payload: pa.Array, begins: Ints) -> Ints:
    data, offsets = binary_parts(payload)
    at = offsets[:-1] + begins
    is_read = (begins >= 0) & (at + 2 <= offsets[1:])
    code = np.zeros(len(versions), dtype=np.int64)
    code[is_read] = data[at[is_read]].astype(np.int64) << 8 | data[at[is_read] + 1]
    return np.where(code == ErrorCode.UNSUPPORTED_VERSION, 0, versions)


def _plan_or_none(
    api_key: int, version: int, direction: Direction, fields: tuple[str, ...] | None
) -> Plan | None:
    try:
        return message_plan(api_key, version, direction, fields)
    except KeyError:
        return None


def _wanted_type(
    api_key: int, direction: Direction, fields: tuple[str, ...] | None
) -> pa.StructType:
    whole = message_type(api_key, direction)
    return whole if fields is None else prune(whole, fields)


def _paths(fields: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if fields is None else tuple(fields)


def _ints(values: ArrayLike | pa.Array, count: int) -> Ints:
    """Make one number a row; a null is -1, which is no version, nor a place to begin."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        known = values.fill_null(-1) if values.null_count else values
        values = known.to_numpy(zero_copy_only=False)
    numbers: Ints = np.asarray(values, dtype=np.int64)
    return numbers if numbers.ndim else np.full(count, numbers)
