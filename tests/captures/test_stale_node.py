"""A capture with partition epochs: both readers find the same ones, in all APIs that have them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.capture.reading.captures import exchanges, read
from kafkalite.lab.columnar.exchanges.typed_exchanges import decode_pairs
from kafkalite.lab.columnar.options import Table
from kafkalite.lab.columnar.reading import read_file
from kafkalite.protocol import codec
from tests.captures.stale_node import record_stale_node

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.capture.model import Problem
    from tests.captures.stale_node import Recorded

pytestmark = pytest.mark.endurance

FIELDS = ("incarnation_epoch", "max_incarnation_epoch")


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Recorded]:
    directory = tmp_path_factory.mktemp("stale-node")
    return directory, record_stale_node(directory)


def _epochs(value: Any) -> Iterator[tuple[str, int]]:  # noqa: ANN401 - any message, struct or list
    """Yield the partition epochs in a message of the scalar codec or in a row of a column."""
    if isinstance(value, list):
        for each in value:
            yield from _epochs(each)
        return
    fields = value if isinstance(value, dict) else _fields(value)
    for name, each in fields.items():
        if name in FIELDS:
            yield name, each
        else:
            yield from _epochs(each)


def _fields(value: Any) -> dict[str, Any]:  # noqa: ANN401 - a message, or a field of one
    return {name: getattr(value, name) for name in getattr(type(value), "__slots__", ())}


def _by_scalar(directory: Path) -> Counter[tuple[Any, ...]]:
    problems: list[Problem] = []
    found = Counter(
        (codec.api_name(each.api_key), *epoch)
        for each in exchanges(read([directory], problems.append), problems.append)
        for parse, frame, start in (
            (codec.request_parser, each.request, each.request_start),
            (codec.response_parser, each.response, each.response_start),
        )
        if frame is not None
        for epoch in _epochs(parse(each.api_key, each.api_version)(frame, start, len(frame))[0])
    )
    assert problems == []
    return found


def _by_columns(directory: Path) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for path in directory.iterdir():
        for table, batch in read_file(path.read_bytes(), path.name):
            if table is not Table.PAIRS:
                continue
            for key in set(batch.column("api_key").to_pylist()):
                of_api = batch.filter([each == key for each in batch.column("api_key").to_pylist()])
                rows, problems = decode_pairs(key, of_api)
                assert problems.num_rows == 0
                for row in rows.to_pylist():
                    for message in (row["request"], row["response"]):
                        found.update((codec.api_name(key), *epoch) for epoch in _epochs(message))
    return found


def test_the_columnar_reader_finds_the_epochs_of_the_scalar_reader(
    capture: tuple[Path, Recorded],
) -> None:
    directory, recorded = capture
    by_scalar, by_columns = _by_scalar(directory), _by_columns(directory)
    # Columns have the default of a field in versions without it, as messages do.
    assert by_columns == by_scalar
    old, new = recorded.old.partition_epoch, recorded.new.partition_epoch
    assert by_scalar["Metadata", "max_incarnation_epoch", recorded.stale.max_partition_epoch]
    assert by_scalar["OffsetCommit", "incarnation_epoch", old] == 2
    assert by_scalar["OffsetCommit", "incarnation_epoch", new] == 1
    assert by_scalar["Fetch", "incarnation_epoch", old]
    assert {api for api, _, epoch in by_scalar if epoch == new} >= {
        "Metadata", "Fetch", "ListOffsets", "OffsetCommit",
    }  # fmt: skip
