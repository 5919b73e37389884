"""Stitched files of a capture give the same rows as one file."""

# ruff: noqa: S311 - random test data must be reproducible
from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kafkalite.capture.reading.captures import exchanges, read
from kafkalite.lab.columnar import tables
from kafkalite.lab.columnar.exchanges.stitching import Stitched, stitch
from kafkalite.lab.columnar.options import Table
from kafkalite.lab.columnar.reading import read_file
from tests.captures import damage, traffic
from tests.perf.big_capture import write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.captures.damage import TcpPacket

SCHEMAS = {
    Table.PAIRS: tables.PAIRS,
    Table.CONNECTIONS: tables.CONNECTIONS,
    Table.FRAGMENTS: tables.FRAGMENTS,
    Table.UNPAIRED: tables.UNPAIRED,
}


def read_and_stitch(paths: Sequence[Path]) -> tuple[pa.Table, Stitched]:
    found: dict[Table, list[pa.RecordBatch]] = {table: [] for table in SCHEMAS}
    for path in paths:
        for table, batch in read_file(path.read_bytes(), path.name):
            found.setdefault(table, []).append(batch)
    whole = {
        table: pa.Table.from_batches(found[table], schema) for table, schema in SCHEMAS.items()
    }
    return whole[Table.PAIRS], stitch(
        whole[Table.CONNECTIONS], whole[Table.FRAGMENTS], whole[Table.UNPAIRED]
    )


def split(packets: Sequence[TcpPacket], parts: int, path: Path) -> list[Path]:
    paths = []
    size = len(packets) // parts + 1
    for number in range(parts):
        paths.append(path / f"part-{number}.pcapng")
        some = packets[number * size : (number + 1) * size]
        paths[-1].write_bytes(damage.capture_file(some))
    return paths


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("parts", [2, 5])
def test_stitched_files_equal_one_file(tmp_path: Path, seed: int, parts: int) -> None:
    packets = traffic.packets(traffic.clean(Random(seed)))
    packets = damage.segment(packets, Random(seed), 300)
    paths = split(packets, parts, tmp_path)
    expected = sorted(
        (str(each.connection.client), each.request, each.response or b"")
        for each in exchanges(read(paths, lambda _: None))
    )
    pairs, more = read_and_stitch(paths)
    columns = zip(
        *(
            pairs[name].to_pylist() + more.pairs[name].to_pylist()
            for name in ("client", "request", "response")
        ),
        strict=True,
    )
    found = sorted((client, request, response or b"") for client, request, response in columns)
    assert found == expected
    assert more.problems.to_pylist() == []
    numbers = pairs["connection"].to_pylist() + more.pairs["connection"].to_pylist()
    own = {more.renamed.get(number, number) for number in numbers}
    assert len(own) == len({client for client, _, _ in found})


def test_connections_with_known_opening_are_not_renamed(tmp_path: Path) -> None:
    made = write(tmp_path, 60_000, connections=3, file_bytes=20_000)
    pairs, more = read_and_stitch(made.files)
    assert len(made.files) > 2
    assert more.renamed == {}
    assert len(set(pairs["connection"].to_pylist())) == 3
