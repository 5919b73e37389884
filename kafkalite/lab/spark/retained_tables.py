"""Checks whether this version can read tables that another version wrote.

A run keeps such tables only if their input files are gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet

from kafkalite.lab.columnar import tables
from kafkalite.lab.spark.manifest import RetainedOutputError
from kafkalite.lab.spark.stages.decoding import CONNECTIONS, INCOMPLETE, PROBLEMS
from kafkalite.lab.spark.stages.stitching import CONNECTION_IDS, SCHEMAS
from kafkalite.protocol import codec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.lab.spark.locations import Location
    from kafkalite.lab.spark.manifest import InputSplit


def check_retained_tables(out: Location, splits: Iterable[InputSplit]) -> None:
    """Raise RetainedOutputError if this version cannot read the output of these splits.

    All files that one decoder wrote to a table have the same schema, so one of them is read.
    """
    checked: set[tuple[str, str]] = set()
    for split in splits:
        for name in split.outputs:
            folder = name.rpartition("/")[0].partition("/date=")[0]
            if (split.decoder, folder) not in checked:
                checked.add((split.decoder, folder))
                _check(out / name, folder)


def _check(file: Location, folder: str) -> None:
    with file.files.open_input_file(file.path) as stream:
        stored = parquet.read_schema(stream)
    schema = _schema_of(folder)
    if schema is not None and _is_readable(pa.struct(list(stored)), pa.struct(list(schema))):
        return
    raise RetainedOutputError(
        f"the table {folder} of input files that are gone has other columns than this"
        " version of kafkalite reads; use the version that wrote it, or another --out"
    )


def _schema_of(folder: str) -> pa.Schema | None:
    """Return the columns of a table of this version; None if this version has no such table."""
    name = folder.removeprefix("requests/api=")
    if name != folder:
        keys = {codec.api_name(key): key for key in codec.api_keys()}
        return tables.requests(keys[name]) if name in keys else None
    incomplete = {f"{INCOMPLETE}/{table}": schema for table, schema in SCHEMAS.items()}
    return {PROBLEMS: tables.PROBLEMS, CONNECTIONS: CONNECTION_IDS, **incomplete}.get(folder)


def _is_readable(stored: pa.DataType, expected: pa.DataType) -> bool:
    """Whether a stored type can be read as an expected one, which may have additional fields."""
    if pa.types.is_struct(stored) and pa.types.is_struct(expected):
        by_name = {field.name: field for field in expected}
        return all(
            field.name in by_name and _is_readable(field.type, by_name[field.name].type)
            for field in stored
        ) and all(field.nullable or stored.get_field_index(field.name) >= 0 for field in expected)
    if pa.types.is_list(stored) and pa.types.is_list(expected):
        return _is_readable(stored.value_type, expected.value_type)
    return bool(stored == expected)
