"""Synthetic requests of many clients, in the format of the pipeline, for the audit benchmark.

There are heartbeats and commits of many groups, and produce and fetch requests. Every fiftieth
heartbeat of a member starts a new epoch; three of a thousand commits have an old epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

GROUPS = 60
MEMBERS = 5
PARTITIONS = 4
_MEMBERS = GROUPS * MEMBERS
_HEARTBEATS_PER_EPOCH = 50
_TOPIC_ID = bytes(range(16))
_START_US = 1_700_000_000_000_000
_DURATION_US = 900
_STEP_US = 2_000
_CHUNK = 250_000
_RECORD_BYTES = 120
_PRODUCER_POSITION, _SEQUENCE_POSITION, _COUNT_POSITION = 43, 53, 57
"""Positions in a record batch: producer id and epoch, base sequence, and record count."""


def heartbeats(ids: Ints) -> pa.Table:
    """Return heartbeats; the first response of each epoch contains the assignment."""
    beat, epoch = ids // _MEMBERS, _epoch(ids)
    is_new, is_first = beat % _HEARTBEATS_PER_EPOCH == 0, beat == 0
    no_partitions = _structs(
        topic_id=pa.array([], pa.binary()), partitions=_lists(0, pa.array([], _INT))
    )
    request = _structs(
        group_id=_names("group", ids % GROUPS, GROUPS),
        member_id=_names("member", ids % _MEMBERS, _MEMBERS),
        instance_id=pa.nulls(len(ids), pa.string()),
        member_epoch=_ints(np.where(is_first, 0, epoch - is_new)),
        topic_partitions=_variable_lists(
            np.zeros(len(ids), np.int32), no_partitions, is_valid=is_first
        ),
    )
    new_epoch_ids = ids[is_new]
    assigned = _structs(
        topic_id=_topic_ids(new_epoch_ids),
        partitions=_lists(PARTITIONS, _assigned_partitions(new_epoch_ids)),
    )
    response = _structs(
        member_id=_names("member", ids % _MEMBERS, _MEMBERS),
        member_epoch=_ints(epoch),
        error_code=_zeros(len(ids)),
        assignment=_structs(is_valid=is_new, topic_partitions=_variable_lists(is_new, assigned)),
    )
    return _requests(ids, 0, (68, 1), request, response)


def commits(ids: Ints) -> pa.Table:
    """Return commits, a few of them with an old epoch."""
    epoch = _epoch(ids)
    has_old_epoch = (ids % 1000 < 3) & (epoch > 3)
    request_rows = _structs(
        partition_index=_assigned_partitions(ids), committed_offset=np.repeat(ids, PARTITIONS)
    )
    response_rows = _structs(
        partition_index=_assigned_partitions(ids), error_code=_zeros(len(ids) * PARTITIONS)
    )
    request = _structs(
        group_id=_names("group", ids % GROUPS, GROUPS),
        member_id=_names("member", ids % _MEMBERS, _MEMBERS),
        generation_id_or_member_epoch=_ints(epoch - has_old_epoch),
        retention_time_ms=np.full(len(ids), -1),
        topics=_one_topic(ids, request_rows),
    )
    response = _structs(topics=_one_topic(ids, response_rows))
    return _requests(ids, _STEP_US // 2, (8, 10), request, response)


def metadata(ids: Ints) -> pa.Table:
    """Return one Metadata response, which maps the topic ID to the name."""
    first = ids[:1]
    topic = _structs(topic_id=_topic_ids(first), name=pa.array(["bench"]))
    response_rows = _structs(topics=_lists(1, topic))
    return _requests(first, 0, (3, 12), _structs(topics=pa.nulls(1)), response_rows)


def produce_requests(ids: Ints) -> pa.Table:
    """Return Produce requests: one batch each, one producer per member, no duplicates."""
    batches = np.zeros((len(ids), _RECORD_BYTES), np.uint8)
    for at, numbers in (
        (_PRODUCER_POSITION, (ids % _MEMBERS).astype(">i8")),
        (_SEQUENCE_POSITION, (ids // _MEMBERS).astype(">i4")),
        (_COUNT_POSITION, np.ones(len(ids), ">i4")),
    ):
        width = numbers.dtype.itemsize
        batches[:, at : at + width] = numbers.view(np.uint8).reshape(-1, width)
    offsets = np.arange(len(ids) + 1, dtype=np.int32) * _RECORD_BYTES
    records = pa.Array.from_buffers(
        pa.binary(), len(ids), [None, pa.py_buffer(offsets), pa.py_buffer(batches)]
    )
    index = _ints(ids % (_MEMBERS * PARTITIONS))
    request_rows = _structs(index=index, records=records)
    response_rows = _structs(index=index, error_code=_zeros(len(ids)), base_offset=ids)
    request = _structs(
        transactional_id=pa.nulls(len(ids), pa.string()),
        topic_data=_one_topic(ids, request_rows, 1, "partition_data"),
    )
    response = _structs(responses=_one_topic(ids, response_rows, 1, "partition_responses"))
    return _requests(ids, _STEP_US // 3, (0, 13), request, response)


def fetch_requests(ids: Ints) -> pa.Table:
    """Return Fetch requests; the responses have all partitions of a member, and no records."""
    count = len(ids) * PARTITIONS
    response_rows = _structs(
        partition_index=_assigned_partitions(ids),
        error_code=_zeros(count),
        high_watermark=np.repeat(ids, PARTITIONS),
        records=pa.nulls(count, pa.binary()),
    )
    response = _structs(
        error_code=_zeros(len(ids)),
        responses=_one_topic(ids, response_rows, PARTITIONS, "partitions", "topic"),
    )
    request = _structs(max_wait_ms=_ints(np.full(len(ids), 500)))
    return _requests(ids, _STEP_US // 4, (1, 17), request, response)


_INT = pa.int32()


def _epoch(ids: Ints) -> Ints:
    return 2 + ids // _MEMBERS // _HEARTBEATS_PER_EPOCH


def _names(prefix: str, numbers: Ints, count: int) -> pa.Array:
    return pa.array([f"{prefix}-{number}" for number in range(count)]).take(pa.array(numbers))


def _ints(numbers: npt.NDArray[Any]) -> pa.Array:
    return pa.array(numbers.astype(np.int32))


def _zeros(count: int) -> pa.Array:
    return pa.array(np.zeros(count, np.int16))


def _topic_ids(ids: Ints) -> pa.Array:
    return pa.array([_TOPIC_ID]).take(pa.array(np.zeros(len(ids), np.int32)))


def _assigned_partitions(ids: Ints) -> pa.Array:
    """Return the partitions of the member of each request, as one flat array."""
    first = ids % _MEMBERS * PARTITIONS
    return _ints((first[:, None] + np.arange(PARTITIONS)).ravel())


def _structs(is_valid: npt.NDArray[np.bool_] | None = None, **fields: Any) -> pa.Array:  # noqa: ANN401 - any input of pa.array
    mask = None if is_valid is None else pa.array(~is_valid)
    return pa.StructArray.from_arrays(
        [pa.array(field) for field in fields.values()], list(fields), mask=mask
    )


def _lists(length: int, values: pa.Array) -> pa.Array:
    """Return lists with `length` values each."""
    count = len(values) // length if length else 0
    return pa.ListArray.from_arrays(_ints(np.arange(count + 1) * length), values)


def _variable_lists(
    counts: npt.NDArray[Any], values: pa.Array, is_valid: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return lists with the lengths `counts`; null where `is_valid` is false."""
    mask = None if is_valid is None else pa.array(~is_valid)
    return pa.ListArray.from_arrays(_ints(np.append(0, np.cumsum(counts))), values, mask=mask)


def _one_topic(
    ids: Ints,
    partitions: pa.Array,
    partition_count: int = PARTITIONS,
    field_name: str = "partitions",
    name: str = "name",
) -> pa.Array:
    empty_names = pa.array([""]).take(pa.array(np.zeros(len(ids), np.int32)))
    fields = {
        name: empty_names,
        "topic_id": _topic_ids(ids),
        field_name: _lists(partition_count, partitions),
    }
    return _lists(1, _structs(**fields))


def _requests(
    ids: Ints, offset_us: int, api: tuple[int, int], request: pa.Array, response: pa.Array
) -> pa.Table:
    key, version = api
    at = _START_US + ids * _STEP_US + offset_us
    member = ids % _MEMBERS
    timestamp_type = pa.timestamp("us", tz="UTC")
    size = len(ids)
    return pa.table(
        {
            "ts": pa.array(at).cast(timestamp_type),
            "response_ts": pa.array(at + _DURATION_US).cast(timestamp_type),
            "latency_us": np.full(size, _DURATION_US),
            "connection": member,
            "client": _names("10.0.0.1:4", member, _MEMBERS),
            "broker": _names("10.0.1.1:909", np.zeros(size, np.int64), 1),
            "node_id": _ints(np.zeros(size)),
            "api_key": pa.array(np.full(size, key, np.int16)),
            "api_version": pa.array(np.full(size, version, np.int16)),
            "correlation_id": _ints(ids),
            "request_bytes": _ints(np.full(size, 100)),
            "response_bytes": _ints(np.full(size, 60)),
            "client_id": _names("bench", np.zeros(size, np.int64), 1),
            "file": _names("bench.pcapng", np.zeros(size, np.int64), 1),
            "offset": ids,
            "request": request,
            "response": response,
        }
    )


_GENERATORS: Mapping[str, Callable[[Ints], pa.Table]] = {
    "ConsumerGroupHeartbeat": heartbeats,
    "OffsetCommit": commits,
    "Produce": produce_requests,
    "Fetch": fetch_requests,
}
GROUP_APIS = ("ConsumerGroupHeartbeat", "OffsetCommit")
ALL_APIS = tuple(_GENERATORS)
"""The available APIs; each gets the same number of requests."""


def write(out: Path, apis: Sequence[str], events: int) -> None:
    """Write requests of these APIs as the pipeline does, and the Metadata of their topic."""
    for api in apis:
        folder = _folder(out, api)
        for first_id in range(0, events // len(apis), _CHUNK):
            ids = np.arange(first_id, min(first_id + _CHUNK, events // len(apis)), dtype=np.int64)
            parquet.write_table(_GENERATORS[api](ids), folder / f"{first_id}.parquet")
    parquet.write_table(metadata(np.arange(1)), _folder(out, "Metadata") / "0.parquet")


def _folder(out: Path, api: str) -> Path:
    folder = out / "requests" / f"api={api}" / "date=2023-11-14"
    folder.mkdir(parents=True)
    return folder
