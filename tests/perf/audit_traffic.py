"""Requests of many clients, made by Arrow as the pipeline writes them: what audits are timed on.

Heartbeats and commits of many groups, every fiftieth heartbeat of a member a new epoch, three
commits of a thousand at an old one; what is produced and fetched meanwhile.
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
_BEATS_AN_EPOCH = 50
_TOPIC_ID = bytes(range(16))
_BEGUN_US = 1_700_000_000_000_000
_TAKES_US = 900
_STEP_US = 2_000
_CHUNK = 250_000
_RECORD_BYTES = 120
_PRODUCER_AT, _SEQUENCE_AT, _COUNT_AT = 43, 53, 57
"""Where in a batch of records its producer's id and epoch, its first sequence and its count are."""


def heartbeats(ids: Ints) -> pa.Table:
    """Return heartbeats: the first of each epoch brings the assignment."""
    beat, epoch = ids // _MEMBERS, _epoch(ids)
    is_new, is_first = beat % _BEATS_AN_EPOCH == 0, beat == 0
    nothing = _structs(topic_id=pa.array([], pa.binary()), partitions=_lists(0, pa.array([], _INT)))
    request = _structs(
        group_id=_names("group", ids % GROUPS, GROUPS),
        member_id=_names("member", ids % _MEMBERS, _MEMBERS),
        instance_id=pa.nulls(len(ids), pa.string()),
        member_epoch=_ints(np.where(is_first, 0, epoch - is_new)),
        topic_partitions=_some(np.zeros(len(ids), np.int32), nothing, is_there=is_first),
    )
    news = ids[is_new]
    assigned = _structs(topic_id=_topic_ids(news), partitions=_lists(PARTITIONS, _held(news)))
    response = _structs(
        member_id=_names("member", ids % _MEMBERS, _MEMBERS),
        member_epoch=_ints(epoch),
        error_code=_zeros(len(ids)),
        assignment=_structs(is_there=is_new, topic_partitions=_some(is_new, assigned)),
    )
    return _requests(ids, 0, (68, 1), request, response)


def commits(ids: Ints) -> pa.Table:
    """Return commits between them, a few at an epoch of the past."""
    epoch = _epoch(ids)
    is_behind = (ids % 1000 < 3) & (epoch > 3)
    asked = _structs(partition_index=_held(ids), committed_offset=np.repeat(ids, PARTITIONS))
    told = _structs(partition_index=_held(ids), error_code=_zeros(len(ids) * PARTITIONS))
    request = _structs(
        group_id=_names("group", ids % GROUPS, GROUPS),
        member_id=_names("member", ids % _MEMBERS, _MEMBERS),
        generation_id_or_member_epoch=_ints(epoch - is_behind),
        retention_time_ms=np.full(len(ids), -1),
        topics=_of_one_topic(ids, asked),
    )
    response = _structs(topics=_of_one_topic(ids, told))
    return _requests(ids, _STEP_US // 2, (8, 10), request, response)


def metadata(ids: Ints) -> pa.Table:
    """Return the one answer that tells what the topic is called."""
    first = ids[:1]
    topic = _structs(topic_id=_topic_ids(first), name=pa.array(["bench"]))
    told = _structs(topics=_lists(1, topic))
    return _requests(first, 0, (3, 12), _structs(topics=pa.nulls(1)), told)


def produced(ids: Ints) -> pa.Table:
    """Return what is written: a batch a request, of a producer a member, none of them again."""
    batches = np.zeros((len(ids), _RECORD_BYTES), np.uint8)
    for at, numbers in (
        (_PRODUCER_AT, (ids % _MEMBERS).astype(">i8")),
        (_SEQUENCE_AT, (ids // _MEMBERS).astype(">i4")),
        (_COUNT_AT, np.ones(len(ids), ">i4")),
    ):
        width = numbers.dtype.itemsize
        batches[:, at : at + width] = numbers.view(np.uint8).reshape(-1, width)
    ends = np.arange(len(ids) + 1, dtype=np.int32) * _RECORD_BYTES
    records = pa.Array.from_buffers(
        pa.binary(), len(ids), [None, pa.py_buffer(ends), pa.py_buffer(batches)]
    )
    index = _ints(ids % (_MEMBERS * PARTITIONS))
    asked = _structs(index=index, records=records)
    told = _structs(index=index, error_code=_zeros(len(ids)), base_offset=ids)
    request = _structs(
        transactional_id=pa.nulls(len(ids), pa.string()),
        topic_data=_of_one_topic(ids, asked, 1, "partition_data"),
    )
    response = _structs(responses=_of_one_topic(ids, told, 1, "partition_responses"))
    return _requests(ids, _STEP_US // 3, (0, 13), request, response)


def fetched(ids: Ints) -> pa.Table:
    """Return what is read: answers with each partition of a member's, and no records."""
    count = len(ids) * PARTITIONS
    told = _structs(
        partition_index=_held(ids),
        error_code=_zeros(count),
        high_watermark=np.repeat(ids, PARTITIONS),
        records=pa.nulls(count, pa.binary()),
    )
    response = _structs(
        error_code=_zeros(len(ids)),
        responses=_of_one_topic(ids, told, PARTITIONS, "partitions", "topic"),
    )
    request = _structs(max_wait_ms=_ints(np.full(len(ids), 500)))
    return _requests(ids, _STEP_US // 4, (1, 17), request, response)


_INT = pa.int32()


def _epoch(ids: Ints) -> Ints:
    return 2 + ids // _MEMBERS // _BEATS_AN_EPOCH


def _names(kind: str, numbers: Ints, count: int) -> pa.Array:
    return pa.array([f"{kind}-{each}" for each in range(count)]).take(pa.array(numbers))


def _ints(numbers: npt.NDArray[Any]) -> pa.Array:
    return pa.array(numbers.astype(np.int32))


def _zeros(count: int) -> pa.Array:
    return pa.array(np.zeros(count, np.int16))


def _topic_ids(ids: Ints) -> pa.Array:
    return pa.array([_TOPIC_ID]).take(pa.array(np.zeros(len(ids), np.int32)))


def _held(ids: Ints) -> pa.Array:
    """Return the partitions of each one's member, one after another."""
    first = ids % _MEMBERS * PARTITIONS
    return _ints((first[:, None] + np.arange(PARTITIONS)).ravel())


def _structs(is_there: npt.NDArray[np.bool_] | None = None, **fields: Any) -> pa.Array:  # noqa: ANN401 - what Arrow takes for an array
    mask = None if is_there is None else pa.array(~is_there)
    return pa.StructArray.from_arrays(
        [pa.array(each) for each in fields.values()], list(fields), mask=mask
    )


def _lists(each: int, values: pa.Array) -> pa.Array:
    """Return lists of so many each."""
    count = len(values) // each if each else 0
    return pa.ListArray.from_arrays(_ints(np.arange(count + 1) * each), values)


def _some(
    counts: npt.NDArray[Any], values: pa.Array, is_there: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return lists of these lengths, and none where there is none."""
    mask = None if is_there is None else pa.array(~is_there)
    return pa.ListArray.from_arrays(_ints(np.append(0, np.cumsum(counts))), values, mask=mask)


def _of_one_topic(
    ids: Ints,
    partitions: pa.Array,
    each: int = PARTITIONS,
    called: str = "partitions",
    name: str = "name",
) -> pa.Array:
    nameless = pa.array([""]).take(pa.array(np.zeros(len(ids), np.int32)))
    fields = {name: nameless, "topic_id": _topic_ids(ids), called: _lists(each, partitions)}
    return _lists(1, _structs(**fields))


def _requests(
    ids: Ints, after_us: int, api: tuple[int, int], request: pa.Array, response: pa.Array
) -> pa.Table:
    key, version = api
    at = _BEGUN_US + ids * _STEP_US + after_us
    member = ids % _MEMBERS
    moment = pa.timestamp("us", tz="UTC")
    size = len(ids)
    return pa.table(
        {
            "ts": pa.array(at).cast(moment),
            "answered": pa.array(at + _TAKES_US).cast(moment),
            "latency_us": np.full(size, _TAKES_US),
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


_MADE: Mapping[str, Callable[[Ints], pa.Table]] = {
    "ConsumerGroupHeartbeat": heartbeats,
    "OffsetCommit": commits,
    "Produce": produced,
    "Fetch": fetched,
}
GROUPS_ALONE = ("ConsumerGroupHeartbeat", "OffsetCommit")
ALL = tuple(_MADE)
"""The APIs whose requests there can be, in equal numbers."""


def write(out: Path, apis: Sequence[str], events: int) -> None:
    """Write so many requests of these APIs as the pipeline does, and what names their topic."""
    for api in apis:
        folder = _folder(out, api)
        for begin in range(0, events // len(apis), _CHUNK):
            ids = np.arange(begin, min(begin + _CHUNK, events // len(apis)), dtype=np.int64)
            parquet.write_table(_MADE[api](ids), folder / f"{begin}.parquet")
    parquet.write_table(metadata(np.arange(1)), _folder(out, "Metadata") / "0.parquet")


def _folder(out: Path, api: str) -> Path:
    made = out / "requests" / f"api={api}" / "date=2023-11-14"
    made.mkdir(parents=True)
    return made
