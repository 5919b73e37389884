"""Finds plain requests: those without an error in the response and without partition epochs.

Nearly all requests are plain. They are written to separate files, so that audits of errors and of
partition epochs read only the others.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.lab.columnar import tables
from kafkalite.protocol.catalogue import row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    Bools = npt.NDArray[np.bool_]

PLAIN: Final = "-plain.parquet"
"""End of the names of files that contain only plain requests."""

_EPOCH: Final = "incarnation_epoch"
"""End of the names of fields with partition epochs (KIP-232); -1 for none."""


def is_plain(api_key: int, requests: pa.RecordBatch) -> Bools:
    """Return a mask of the requests without errors and without partition epochs."""
    mask = np.ones(requests.num_rows, np.bool_)
    for path in _error_paths(api_key):
        mask &= ~_rows_with(requests, path, is_error=True)
    for path in _epoch_paths(api_key):
        mask &= ~_rows_with(requests, path, is_error=False)
    return mask


@cache
def _error_paths(api_key: int) -> tuple[tuple[str, ...], ...]:
    return tuple(("response", *path.split(".")) for path in row(api_key).errors.split())


@cache
def _epoch_paths(api_key: int) -> tuple[tuple[str, ...], ...]:
    schema = tables.requests(api_key)
    return tuple(
        (name, *path)
        for name in ("request", "response")
        for path in _leaves(schema.field(name).type)
        if path and path[-1].endswith(_EPOCH)
    )


def _leaves(kind: pa.DataType) -> Iterator[tuple[str, ...]]:
    """Yield the path of each field that is not a list or a struct."""
    while pa.types.is_list(kind):
        kind = kind.value_type
    if pa.types.is_struct(kind):
        for field in kind:
            yield from ((field.name, *path) for path in _leaves(field.type))
    else:
        yield ()


def _rows_with(requests: pa.RecordBatch, path: Sequence[str], *, is_error: bool) -> Bools:
    """Return a mask of requests with an error, or an epoch, at a path."""
    *lists, values = _levels(requests[path[0]], path[1:])
    found = pc.not_equal(values, 0) if is_error else pc.greater_equal(values, 0)
    if not pc.any(found).as_py():
        return np.zeros(requests.num_rows, np.bool_)
    mask = np.asarray(pc.fill_null(found, fill_value=False))
    for each in reversed(lists):
        of_list = np.zeros(len(each), np.bool_)
        of_list[np.asarray(pc.list_parent_indices(each))[mask]] = True
        mask = of_list
    return mask


def _levels(array: Any, names: Sequence[str]) -> Iterator[Any]:  # noqa: ANN401 - an array
    """Yield the lists on a path, from the outside to the inside, then the values."""
    for name in (*names, None):
        while pa.types.is_list(array.type):
            yield array
            array = pc.list_flatten(array)
        if name is not None:
            array = pc.struct_field(array, name)
    yield array
